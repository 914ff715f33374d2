"""What the log says of sources: when one begins to fail, and when it answers again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from dutycycle_alerter.printable import printable
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.views import TargetStatus

_log = logging.getLogger(__name__)

_LONGEST = 500
"""Characters of a line: some of it is what another program said."""
_MOST = 5
"""Lines of a pass on each of the two: behind a switch that fails there may be thousands of exporters."""


@dataclass(slots=True)
class _Failure:
    """Since when (the first pass that saw it), its last error, and when the source had last answered."""

    since: float
    error: str
    last_success: float | None


class SourceLog:
    """Logs each failure when it begins and when it is over, however its error changes. For one thread at a time."""

    def __init__(self) -> None:
        self._failing: dict[str, _Failure] = {}

    def tell(self, targets: Iterable[TargetStatus], now: float, *, time_scale: float) -> None:
        """The state of all sources after a pass. `now` is in wall seconds of a clock that nobody sets.

        Several may have one address: it fails while any of them does. What was not asked again still fails, as may
        accounting while no job ends. What is a source no more is forgotten, as nobody knows how it is.
        """
        failing: dict[str, _Failure] = {}
        begun: list[str] = []
        over: list[str] = []
        for url, error, last_success in _by_address(targets):
            known = self._failing.get(url)
            if error:
                failing[url] = known or _Failure(now, error, last_success)
                failing[url].error, failing[url].last_success = error, last_success
                if known is None:
                    begun.append(_with_address(url, error))
            elif known is not None and last_success == known.last_success:
                failing[url] = known
            elif known is not None:
                lasted = format_duration((now - known.since) * time_scale)
                over.append(f"{url} answers again, after {lasted}; its last error: {known.error}")
        self._failing = failing
        _write(logging.WARNING, begun, "do not answer")
        _write(logging.INFO, over, "answer again")


def _by_address(targets: Iterable[TargetStatus]) -> list[tuple[str, str, float | None]]:
    """Of each address, an error if any has one, and since when all of them have answered."""
    found: dict[str, tuple[str, float | None]] = {}
    for target in targets:
        error, last = found.get(target.url, ("", target.last_success))
        at = target.last_success
        found[target.url] = (error or target.error, None if at is None or last is None else min(at, last))
    return [(url, error, last) for url, (error, last) in found.items()]


def _with_address(url: str, error: str) -> str:
    """Most errors begin with what they are about."""
    return error if error.startswith((f"{url}:", f"{url}/")) else f"{url}: {error}"


def _write(level: int, lines: list[str], they: str) -> None:
    for line in lines[:_MOST]:
        _log.log(level, "%s", printable(line, _LONGEST))
    if len(lines) > _MOST:
        _log.log(level, "and %d more sources %s: /api/v1/status has each", len(lines) - _MOST, they)
