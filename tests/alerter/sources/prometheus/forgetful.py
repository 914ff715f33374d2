"""An engine that loses samples and answers late, and the ledger that one alerter after the other makes of it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from math import inf

import numpy as np

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.accounting import Accounted, Accounting
from dutycycle_alerter.sources.prometheus.asking import Deadline
from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.queries import KEPT
from dutycycle_alerter.sources.prometheus.selectors import ACCOUNT, OWNER, Query
from tests.alerter.sources.prometheus.past import START
from tests.alerter.sources.prometheus.test_accounts import HOUR, STEP

RATES = {"allocated": 1.0, "observed": 1.0, "busy": 0.5, "energy": 300.0}
JOBS = ("slurm/1", "slurm/2", "slurm/3")
RATE = {"slurm/1": 1.0, "slurm/2": 1.0, "slurm/3": 1.0}
"""Allocated seconds in a second: of a slice of a GPU fewer."""
SHARDS = 2


def key(job: str) -> tuple[str, ...]:
    return ("c", f"node-of-{job}", f"GPU-of-{job}", "", job, "H200")


def queries(span: float) -> list[Query]:
    counters = [
        Query(name, f"{name} {shard} {span}", ACCOUNT, samples=True) for shard in range(SHARDS) for name in RATES
    ]
    return [*counters, Query("owner", "owner", OWNER)]


SLOPES = [Query("slope", f"slope {shard}", ACCOUNT) for shard in range(SHARDS)]


@dataclass
class Forgetful:
    """An engine that scrapes each job's counters, in steps of STEP seconds from START on, and answers as Prometheus
    does with `last_over_time(...[KEPT])`.

    `lost` are spans of seconds from START, by job, of which it knows nothing, `resets` when counters began anew, `ends`
    when they end, `stands` when they grow no more, and `held` is what they held at START. Its scrapes are `ahead`
    seconds before each step, and it has them `late` seconds after. Of what begins with `fails` it does not answer.
    """

    now: float = START
    lost: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    resets: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    stands: dict[str, float] = field(default_factory=dict)
    held: float = 0.0
    ahead: float = 0.0
    late: float = 0.0
    fails: tuple[str, ...] = ()
    fails_from: float = 0.0

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Matrix:
        if query.startswith(self.fails) and self.fails and at >= START + self.fails_from:
            raise SourceError("query timed out")
        name, shard, span = query.split()
        steps = at - STEP * np.arange(round(float(span) / STEP), -1, -1)
        keys, offsets, times, values = [], [0], [], []
        for job in JOBS[int(shard) :: SHARDS]:
            found = [(t, value) for t in steps.tolist() if (value := self._allocated(job, t)) is not None]
            if found:
                keys.append(key(job))
                times += [t for t, _ in found]
                values += [value * RATES[name] for _, value in found]
                offsets.append(len(times))
        return Matrix(keys, np.array(offsets), np.array(times), np.array(values))

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Vector:
        if not query.startswith("slope"):
            return Vector([], np.array([]))
        keys, slopes = [], []
        for job in JOBS[int(query.split()[1]) :: SHARDS]:
            steps = [at - STEP * back for back in range(round(KEPT / STEP))]
            said = [(t, value) for t in steps if (value := self._scraped(job, t)) is not None]
            if len(said) > 1:
                times, values = np.array(said).T
                keys.append(key(job))
                slopes.append(float(np.polyfit(times - at, values, 1)[0]))
        return Vector(keys, np.array(slopes))

    def _scraped(self, job: str, t: float) -> float | None:
        """What the scrape of a step said; None where it is not known."""
        scraped = t - self.ahead - START
        known = 0 <= scraped <= min(self.now - self.late - START, self.ends.get(job, inf))
        if not known or any(a <= scraped < b for a, b in self.lost.get(job, ())):
            return None
        return self._allocated(job, t)

    def _allocated(self, job: str, t: float) -> float | None:
        """What the counter said at the last scrape until then that is known."""
        for back in range(round(KEPT / STEP)):
            after = t - back * STEP - self.ahead - START
            if (
                0 <= after <= self.now - self.late - START
                and after <= self.ends.get(job, inf)
                and not any(a <= after < b for a, b in self.lost.get(job, ()))
            ):
                reset, grown = self.resets.get(job, inf), min(after, self.stands.get(job, inf))
                return RATE[job] * (self.held + grown if after < reset else grown - reset)
        return None


class Ledger:
    """What alerters have charged, one after the other, with what the store keeps for the next one."""

    def __init__(self, engine: Forgetful) -> None:
        self.engine = engine
        self.until, self.alive = START, frozenset[Key]()
        self.total: float | None = None
        self.charged: dict[str, dict[str, float]] = {job: dict.fromkeys(RATES, 0.0) for job in JOBS}
        self.take_over()

    def take_over(self) -> None:
        """Another alerter evaluates, and remembers nothing."""
        self._accounting = Accounting(self.engine, STEP, HOUR, queries, SLOPES)

    def account(self, now: float, *, committed: bool = True) -> Accounted:
        """A pass, so many seconds after START."""
        self.engine.now = START + now
        self._accounting._engine = self.engine
        found = self._accounting.account(START + now, self.until, Deadline(600), total=self.total)
        if committed:
            self._accounting.committed(found, self.alive)
            self.until, self.total = found.until, self.total if found.total is None else found.total
            for (_, job), parts in found.growth.consumption().items():
                for part in parts:
                    for name in RATES:
                        self.charged[job][name] += getattr(part, name) or 0.0
        return found

    def run(self, since: int, until: int, takeovers: Container[int] = ()) -> Accounted:
        """Passes each minute of [since, until), by another alerter from each of `takeovers` on; returns what the last
        one accounted for.
        """
        for now in range(since, until, 60):
            if now in takeovers:
                self.take_over()
            found = self.account(now)
        return found

    def allocated(self, job: str) -> float:
        return self.charged[job]["allocated"]


def counted_until(now: float) -> float:
    """Up to which second after START a pass accounts."""
    return (now // STEP - 2) * STEP
