"""Who used how much, and how well: users' mean utilization and its histogram."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BINS = 20
BIN_WIDTH = 5
LOW_UTILIZATION_PERCENT = 15.0


@dataclass(frozen=True, slots=True)
class UserUsage:
    """One user's GPU-seconds over a range. `energy` (joules) is None where no GPU of theirs reports it."""

    user: str
    allocated: float
    observed: float
    busy: float
    energy: float | None = None
    jobs: int = 0
    incidents: int = 0

    @property
    def mean_percent(self) -> float | None:
        """Utilization weighted by time: 100 x busy / observed; None for a user nothing was measured of."""
        return 100.0 * self.busy / self.observed if self.observed > 0 else None

    @property
    def wasted(self) -> float:
        """GPU-seconds that were measured and not busy."""
        return max(0.0, self.observed - self.busy)


def users_histogram(users: Iterable[UserUsage]) -> list[int]:
    """Number of users per 5-point bin of mean utilization, 20 bins; 100 % falls into the last, unmeasured users into
    none.
    """
    bins = [0] * BINS
    for user in users:
        mean = user.mean_percent
        if mean is not None:
            # The small term keeps a mean that is 5 up to rounding in the bin that starts at 5.
            bins[min(int(mean / BIN_WIDTH + 1e-9), BINS - 1)] += 1
    return bins


def users_under(users: Iterable[UserUsage], percent: float = LOW_UTILIZATION_PERCENT) -> int:
    """Number of measured users whose mean utilization is below `percent`."""
    return sum(1 for user in users if user.mean_percent is not None and user.mean_percent < percent)
