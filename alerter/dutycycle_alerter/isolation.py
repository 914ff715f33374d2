"""What fails in a pass of one job, GPU or node alone: it is told and counted, and all the others are judged as ever."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.printable import NAME_LIMIT, printable

log = logging.getLogger(__name__)

_NAMED = 3
"""Subjects that a notice names."""


class Doing(StrEnum):
    """What a pass does with each subject."""

    JUDGE = "judge"
    INCIDENT = "incident"
    REPORT = "report"


class Failures:
    """Of the passes of one engine: those of the present pass, from `begin` on, and how many there were in all."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(Doing, 0)
        self._now: set[tuple[Doing, str]] = set()
        self._before: frozenset[tuple[Doing, str]] = frozenset()

    def begin(self) -> None:
        """Another pass."""
        self._before = frozenset(self._now)
        self._now = set()

    @contextmanager
    def of(self, step: Doing, subject: str) -> Iterator[None]:
        """Whatever is raised within is this subject's alone, and ends here: only what is computed of it may stand
        there, and nothing that writes. What the alerter itself has to say, of a source or the store, is raised on.
        """
        try:
            yield
        except AlerterError:
            raise
        except Exception as error:
            self._counts[step] += 1
            if (step, subject) not in self._before | self._now:
                # Once while it lasts: the next passes meet the same evidence.
                log.exception("%s of %s failed: nothing of it is changed", step, printable(subject, NAME_LIMIT))
            else:
                log.debug("%s of %s failed again: %r", step, printable(subject, NAME_LIMIT), error)
            self._now.add((step, subject))

    @property
    def subjects(self) -> frozenset[str]:
        """Those of which something failed in this pass."""
        return frozenset(subject for _, subject in self._now)

    def notices(self) -> tuple[str, ...]:
        """What is to be said of this pass; empty where nothing failed."""
        found = sorted(self.subjects)
        if not found:
            return ()
        shown = [printable(subject, NAME_LIMIT) for subject in found[:_NAMED]] + ["..."] * (len(found) > _NAMED)
        return (f"Not judged, since the alerter fails on them (its log says how): {len(found)} ({', '.join(shown)})",)

    def counts(self) -> Mapping[str, int]:
        """How many there were so far, by step; from any thread."""
        return {step.value: number for step, number in self._counts.items()}
