"""Who used how much, and how well: mean utilization, and the histograms of users and of their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Protocol

BINS = 20
BIN_WIDTH = 5
LOW_UTILIZATION_PERCENT = 15.0
IDLE_RATIO = 0.005
"""A GPU that was busy for no more than this share of the measured time of a pass did nothing in it."""


class Measured(Protocol):
    """GPU-seconds that were measured, and those of them that were busy."""

    @property
    def observed(self) -> float:
        """Measured."""
        ...

    @property
    def busy(self) -> float:
        """Busy, of those."""
        ...


class Person(Measured, Protocol):
    """Whose GPU-seconds these are."""

    @property
    def known(self) -> bool:
        """Whether it is somebody: what nobody knows the user of makes no user."""
        ...


def mean_percent(used: Measured) -> float | None:
    """Utilization weighted by time: 100 x busy / observed; None where nothing was measured."""
    return 100.0 * used.busy / used.observed if used.observed > 0 else None


def wasted(used: Measured) -> float:
    """GPU-seconds that were measured and not busy."""
    return max(0.0, used.observed - used.busy)


def idle_seconds(observed: float | None, busy: float | None) -> float | None:
    """What of one GPU's measured time is idle: all that was not busy where it did nothing, and none where it worked;
    None where nothing was measured.
    """
    if not observed or busy is None:
        return None
    return max(0.0, observed - busy) if busy <= IDLE_RATIO * observed else 0.0


def unused_seconds(observed: float | None, busy: float | None) -> float:
    """Return the measured time of one GPU that was not busy."""
    return max(0.0, (observed or 0.0) - (busy or 0.0))


def known_sum(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


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
    def known(self) -> bool:
        """Whether it is somebody."""
        return bool(self.user)

    @property
    def mean_percent(self) -> float | None:
        """Utilization weighted by time; None for a user nothing was measured of."""
        return mean_percent(self)

    @property
    def wasted(self) -> float:
        """GPU-seconds that were measured and not busy."""
        return wasted(self)


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """GPU-seconds over a range of a user, an account or a model of GPUs, whose `name` may be empty: not known.

    `energy` (joules), `idle` (the part of the waste on GPUs that did nothing) and `spread` (the part of `allocated` of
    jobs on more nodes than they need) are of what is known, None where nothing is. Of a model, `unallocated`, `drained`
    and `down` are the fleet's besides; None where the fleet is not known.
    """

    name: str
    allocated: float
    observed: float
    busy: float
    energy: float | None = None
    idle: float | None = None
    spread: float | None = None
    jobs: int = 0
    incidents: int = 0
    unallocated: float | None = None
    drained: float | None = None
    down: float | None = None

    @property
    def known(self) -> bool:
        """Whether it has a name."""
        return bool(self.name)

    @property
    def mean_percent(self) -> float | None:
        """Utilization weighted by time; None where nothing was measured."""
        return mean_percent(self)

    @property
    def wasted(self) -> float:
        """GPU-seconds that were measured and not busy."""
        return wasted(self)


def users_histogram(users: Iterable[Person]) -> list[int]:
    """Number of users per 5-point bin of mean utilization, 20 bins; 100 % falls into the last, unmeasured and unknown
    users into none.
    """
    bins = [0] * BINS
    for number, _ in _binned(users):
        bins[number] += 1
    return bins


def hours_histogram(users: Iterable[Person]) -> list[float]:
    """Measured GPU-seconds of the users in each of these bins."""
    bins = [0.0] * BINS
    for number, user in _binned(users):
        bins[number] += user.observed
    return bins


def users_under(users: Iterable[Person], percent: float = LOW_UTILIZATION_PERCENT) -> int:
    """Number of known, measured users whose mean utilization is below `percent`."""
    means = [mean_percent(user) for user in users if user.known]
    return sum(1 for mean in means if mean is not None and mean < percent)


def hours_under(users: Iterable[Person], percent: float = LOW_UTILIZATION_PERCENT) -> float:
    """Measured GPU-seconds of these users."""
    known = [(mean_percent(user), user.observed) for user in users if user.known]
    return sum(observed for mean, observed in known if mean is not None and mean < percent)


def users_unmeasured(users: Iterable[Person]) -> int:
    """Number of known users of whom nothing was measured."""
    return sum(1 for user in users if user.known and mean_percent(user) is None)


def median_percent(users: Iterable[Person]) -> float | None:
    """The median of known users' mean utilization; None where nothing was measured of anybody."""
    means = [mean for user in users if user.known and (mean := mean_percent(user)) is not None]
    return median(means) if means else None


def _binned(users: Iterable[Person]) -> Iterator[tuple[int, Person]]:
    for user in users:
        mean = mean_percent(user)
        if user.known and mean is not None:
            # The small term keeps a mean that is 5 up to rounding in the bin that starts at 5.
            yield min(int(mean / BIN_WIDTH + 1e-9), BINS - 1), user
