"""Plays a plan on a site, waits until everything has settled, and hands back the evidence."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from .faults import Fault
from .happened import Happened
from .reading import read
from .record import Record
from .schedule import Plan, Planned
from .site import Site
from .watching import Watcher

Tell = Callable[[str], None]
_TOOK = {True: "", False: ", and did not take", None: ", and nobody could be asked whether it took"}


def play(plan: Plan, directory: Path, time_scale: float, tell: Tell) -> Record:
    """`tell` hears what happens, a line each. What goes wrong in the harness itself ends the run, and what there was
    until then is handed back with the reason. Raises where there is nothing to hand back: the site did not start, or
    cannot be read.
    """
    parts = "Slurm, Kubernetes' doubles, Prometheus, PostgreSQL, receivers, exporters, two alerters"
    tell(f"the site is being started: {parts}")
    with Site(directory, time_scale) as site, ExitStack() as stack:
        site.start()
        began = time.time()
        watcher = stack.enter_context(Watcher(site))
        course = _Course(site, began, tell)
        try:
            course.run(plan)
            tell(f"all faults are over; {plan.calm:.0f} s for everything to settle")
            course.wait(began + plan.length)
        except Exception as error:  # noqa: BLE001 - told with what there was until then
            course.broke = f"{type(error).__name__}: {error}"
            tell(f"{time.time() - began:7.1f} s  the harness broke off: {course.broke}")
        ended = time.time()
        if watcher.failures and not course.broke:
            course.broke = f"the watcher failed: {watcher.failures[:3]}"
        return read(site, watcher, tuple(course.happened), site.workload.truths(), began, ended, course.broke)


@dataclass
class _Begun:
    """A fault whose beginning was set about `at`; `stands_from` is when that was done."""

    fault: Fault
    at: float
    stands_from: float | None = None

    def ended(self, took: bool | None, until: float) -> Happened:
        """It, as evidence, of which all is over now. It stood `until` its end was set about."""
        stood = (until if self.stands_from is None else self.stands_from, until)
        return self.fault.happened(self.at, time.time(), took, stood)


class _Course:
    """The faults of a run, as they happen."""

    def __init__(self, site: Site, began: float, tell: Tell) -> None:
        self._site = site
        self._began = began
        self._tell = tell
        self._begun: dict[int, _Begun] = {}
        self.happened: list[Happened] = []
        self.broke = ""

    def run(self, plan: Plan) -> None:
        """All that is planned. None is left in force, whatever raises."""
        moments = [(one.at, 1, index, one) for index, one in enumerate(plan.faults)]
        moments += [(one.until, 0, index, one) for index, one in enumerate(plan.faults)]
        try:
            for at, begins, index, one in sorted(moments, key=lambda moment: moment[:3]):
                self.wait(self._began + at)
                if begins:
                    self._begin(index, one)
                else:
                    self._end(index)
        finally:
            for begun in self._begun.values():
                until = time.time()
                with suppress(Exception):
                    begun.fault.end(self._site)
                self.happened.append(begun.ended(None, until))

    def wait(self, until: float) -> None:
        while (left := until - time.time()) > 0:
            time.sleep(min(0.2, left))
            self._site.workload.check()

    def _begin(self, index: int, one: Planned) -> None:
        begun = self._begun[index] = _Begun(one.fault, time.time())
        one.fault.begin(self._site)
        begun.stands_from = time.time()
        self._tell(f"{time.time() - self._began:7.1f} s  {one.fault.name} begins: {one.fault.what}")

    def _end(self, index: int) -> None:
        begun = self._begun.pop(index)
        took = _took(begun.fault, self._site)
        until = time.time()
        try:
            begun.fault.end(self._site)
        finally:
            self.happened.append(begun.ended(took, until))
        self._tell(f"{time.time() - self._began:7.1f} s  {begun.fault.name} is over{_TOOK[took]}")


def _took(fault: Fault, site: Site) -> bool | None:
    """Whoever is asked may be away on account of another fault."""
    try:
        return fault.in_force(site)
    except (OSError, ValueError, AssertionError, subprocess.SubprocessError):
        return None
