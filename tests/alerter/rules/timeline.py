"""A job's life piece by piece, so that each window has what lies in it, and not what was before."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dutycycle_alerter.model import HostUsage, JobEvidence, Usage, WindowEvidence
from tests.alerter.cases import START, job

Share = float | None
_SUMS = ("busy", "gap_lt2", "gap_2to30", "gap_30to600", "gap_ge600")


@dataclass(frozen=True)
class Does:
    """What a GPU does in a piece, as shares of the time; `processes` on it and `memory` in use (bytes). None is not
    measured.
    """

    busy: float = 0.0
    gap_lt2: Share = 0.0
    gap_2to30: Share = 0.0
    gap_30to600: Share = 0.0
    gap_ge600: Share = 0.0
    processes: float | None = 1.0
    memory: float | None = None


WORKS = Does(0.8)
NOTHING = Does(0.0, gap_ge600=1.0)
EMPTY = Does(0.0, gap_ge600=1.0, processes=0.0)
UNKNOWN = Does(0.0, gap_ge600=1.0, processes=None)


@dataclass(frozen=True)
class Life:
    """Pieces of minutes, from the job's beginning to now; each piece has what every GPU does, or one for all."""

    pieces: Sequence[tuple[float, Sequence[Does]]]
    gpus: int = 1
    host: HostUsage = field(default_factory=HostUsage)

    def evidence(self, *, watched: float | None = None, longest: float | None = None, **fields: object) -> JobEvidence:
        """Its evidence now. `watched` are the last minutes, of which alone anything is known; None: all."""
        length = sum(minutes for minutes, _ in self.pieces) * 60
        seen = length if watched is None else watched * 60

        def window(asked: float) -> WindowEvidence:
            gpus = tuple(self._usage(gpu, length - min(asked, seen), length) for gpu in range(self.gpus))
            return WindowEvidence(asked, gpus, self.host)

        return JobEvidence(job(self.gpus, **fields), START + length, window, START + length - seen, longest=longest)

    def _usage(self, gpu: int, since: float, until: float) -> Usage:
        sums: dict[str, float | None] = dict.fromkeys(_SUMS, 0.0)
        gauges: dict[str, list[float | None]] = {"processes": [], "memory": []}
        start = 0.0
        for minutes, does in self.pieces:
            end = start + minutes * 60
            common = min(end, until) - max(start, since)
            if common > 0:
                one = does[gpu] if len(does) > 1 else does[0]
                for name in _SUMS:
                    share, so_far = getattr(one, name), sums[name]
                    sums[name] = None if share is None or so_far is None else so_far + share * common
                for name, values in gauges.items():
                    values.append(getattr(one, name))
            start = end
        return Usage(
            allocated=until - since,
            observed=until - since,
            processes=_highest(gauges["processes"]),
            memory_used=_highest(gauges["memory"]),
            memory_total=80 * 2**30,
            **sums,  # type: ignore[arg-type]
        )


def _highest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
