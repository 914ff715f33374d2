"""What processes hold of memory as time passes, and what that says of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load.trend import Trend, medians, trend

SPAN = 1.0
"""Hours whose readings are one point of the trend: jobs, passes and compactions come and go many times in each."""
SLACK = 0.02
"""Of its memory, what a process may gain in a day even at the low end of the interval before it counts as growing."""
BOUND = 0.1
"""Of its memory, what it may gain in a day at the high end of the interval before nothing can be told of it."""
_FIELD = re.compile(r"^(Rss|Pss|Anonymous):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Held:
    """Memory of a process in MB: resident, its share of it where pages are shared, and what no file stands behind."""

    resident: float
    share: float
    anonymous: float


def held(pid: int) -> Held | None:
    """None once the process has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    kilobytes = {name: int(size) for name, size in _FIELD.findall(text)}
    return Held(*(kilobytes[name] * 1024 / 1e6 for name in ("Rss", "Pss", "Anonymous"))) if kilobytes else None


@dataclass
class Watched:
    """One process: what it held, by hours since the beginning. `blocks` is where it counts its own, if it does."""

    name: str
    blocks: Path | None = None
    times: list[float] = field(default_factory=list)
    readings: list[Held] = field(default_factory=list)
    counts: list[tuple[float, float]] = field(default_factory=list)
    since: dict[int, float] = field(default_factory=dict)
    """The hour at which it was first read, by process id: one, unless it was started again."""

    def read(self, hour: float, pid: int | None) -> None:
        now = held(pid) if pid is not None else None
        if pid is None or now is None:
            return
        self.since.setdefault(pid, hour)
        self.times.append(hour)
        self.readings.append(now)
        if self.blocks is not None and self.blocks.exists():
            self.counts.append((hour, float(self.blocks.read_text())))

    def restarts(self, hour: float = 0.0) -> int:
        """How often another one was in its place, from an hour on."""
        return sum(first >= hour for first in list(self.since.values())[1:])


@dataclass(frozen=True)
class Line:
    """What is told of one quantity of one process after it has warmed up. The trend is per hour of the scaled clock.

    A process' share of its pages is told and not `judged`: it rises whenever another Python program ends.
    """

    process: str
    quantity: str
    unit: str
    first: float
    last: float
    highest: float
    trend: Trend
    judged: bool = True

    @property
    def grows(self) -> bool:
        """Whether a day adds more than the slack even at the low end of the interval."""
        return self.judged and self.trend.low * 24 > SLACK * self.first

    @property
    def untold(self) -> bool:
        """Whether the interval is too wide to call it flat."""
        return self.judged and not self.grows and self.trend.high * 24 > BOUND * self.first


def lines(watched: Iterable[Watched], warm: float, span: float = SPAN) -> list[Line]:
    """Each process' resident memory, its share and its blocks, from hour `warm` on."""
    found = []
    for one in watched:
        resident = [reading.resident for reading in one.readings]
        own = [reading.anonymous for reading in one.readings]
        share = [reading.share for reading in one.readings]
        found.append(_line(one.name, "resident", "MB", one.times, resident, warm, span))
        found.append(_line(one.name, "its own (anonymous)", "MB", one.times, own, warm, span))
        found.append(_line(one.name, "its share (PSS)", "MB", one.times, share, warm, span, judged=False))
        if one.counts:
            times, blocks = zip(*one.counts, strict=True)
            found.append(_line(one.name, "Python's blocks", "thousand", times, [b / 1000 for b in blocks], warm, span))
    return found


def _line(
    process: str,
    quantity: str,
    unit: str,
    times: Sequence[float],
    values: Sequence[float],
    warm: float,
    span: float,
    *,
    judged: bool = True,
) -> Line:
    late = [(t, value) for t, value in zip(times, values, strict=True) if t >= warm]
    hours, middles = medians([t for t, _ in late], [value for _, value in late], span)
    highest = max(value for _, value in late)
    return Line(process, quantity, unit, middles[0], middles[-1], highest, trend(hours, middles), judged)
