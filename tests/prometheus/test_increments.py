"""The recorded increments add up to what the counters say: whoever begins, ends, restarts, or is away for a while."""

from __future__ import annotations

import json
import random
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from dutycycle_alerter.sources.prometheus import recorded
from dutycycle_dashboards import recording
from dutycycle_exporter import contract
from tests.prometheus.evaluated import evaluate
from tests.prometheus.server import PrometheusServer

T0 = 1_790_000_000 // 86_400 * 86_400
END = 4 * 3600
SCRAPE = 15
HOLD = 2 * SCRAPE
BUSY = "workload_gpu_busy_seconds_total"


@dataclass(frozen=True)
class Case:
    """A workload's counter, in seconds since T0: it grows by one a second from start to end.

    While `away` it is not scraped; a restart is a (moment, seconds until the exporter is there again).
    """

    start: float
    end: float
    away: tuple[tuple[float, float], ...] = ()
    restarts: tuple[tuple[float, float], ...] = ()
    targets: tuple[dict[str, str], ...] = field(default=({"instance": "n1:9836"},))

    def samples(self) -> Iterator[tuple[int, float]]:
        """What scrapes see: held at 0 for two of them at first, and at the final value for two at last."""
        for t in range(0, END, SCRAPE):
            born = self.start
            for moment, down in self.restarts:
                if moment <= t:
                    born = max(self.start, moment + down)
            dark = any(a <= t < b for a, b in self.away) or not born <= t <= self.end + HOLD or born > self.end
            if not dark:
                yield t, 0.0 if t < born + HOLD else min(t, self.end) - born

    @property
    def lost(self) -> float:
        """At most: of each restart, what came since the last minute (or since the target was away) and the time down;
        of what goes on, what came since the last minute.
        """
        dark = [next((a for a, b in self.away if a <= moment < b), moment) for moment, _ in self.restarts]
        restarts = zip(self.restarts, dark, strict=True)
        edge = 60 + SCRAPE
        return (edge if self.end == END else 0) + sum(moment - a + down + edge for (moment, down), a in restarts)


CASES = {
    "steady": Case(0, END),
    "new": Case(3607, END),
    "ended": Case(0, 7211),
    "5 minutes": Case(5003, 5303),
    "5 minutes, aligned": Case(5100, 5400),
    "1 minute": Case(6010, 6070),
    "30 minutes": Case(6001, 7801),
    "reset of an old counter": Case(0, END, restarts=((8000, 20),)),
    "reset of a young counter, which has passed its old value when it is counted": Case(
        8000, END, restarts=((8045, 5),)
    ),
    "two resets within five minutes": Case(0, END, restarts=((9000, 10), (9150, 10))),
    "a reset while the target is away": Case(0, END, away=((9000, 9900),), restarts=((9300, 20),)),
    "a gap": Case(0, END, away=((4000, 5200),)),
    "a gap of nearly an hour": Case(0, END, away=((4000, 7500),)),
    "a gap of nearly an hour with a reset": Case(0, END, away=((4000, 7540),), restarts=((7000, 20),)),
    "ended in a gap": Case(0, 4600, away=((4000, 4500),)),
    "two replicas": Case(0, END, targets=({"instance": "a"}, {"instance": "b"})),
}
rng = random.Random(7)


def drawn() -> Case:
    start = rng.randrange(0, END - 3600)
    end = min(END, start + rng.randrange(60, 7200))
    away = sorted((t, t + rng.randrange(15, 3500)) for t in rng.sample(range(end), rng.choice((0, 0, 1))))
    restarts = sorted((t, rng.randrange(1, 200)) for t in rng.sample(range(start, end), rng.choice((0, 1, 2))))
    return Case(start, end, tuple(away), tuple(restarts))


DRAWN = {f"drawn {number}": drawn() for number in range(100)}
ALL = CASES | DRAWN


NODES = ('node="n1"', 'node="n2"', 'cluster="other",node="n1"')
"""The last is called as the first, in a cluster that its target names."""


def openmetrics() -> str:
    lines = [f"# TYPE {BUSY.removesuffix('_total')} counter"]
    for name, case in ALL.items():
        for target in case.targets:
            labels = {"node": "n1", "workload": f"slurm/{name}", "user": name, **target}
            series = f"{BUSY}{{{','.join(f'{k}={json.dumps(v)}' for k, v in labels.items())}}}"
            lines += [f"{series} {value} {T0 + t}" for t, value in case.samples()]
    # A pod of the exporter that is replaced: its counters, under another address, begin anew.
    for instance, born, until in (("old", 0, 5000), ("new", 5060, END)):
        series = f'{BUSY}{{node="n1",workload="slurm/replaced",user="replaced",instance="{instance}"}}'
        lines += [f"{series} {t - born} {T0 + t}" for t in range(born, until, SCRAPE)]
    lines.append("# TYPE gpu_visible gauge")
    lines += [f"gpu_visible{{{node}}} 8 {T0 + t}" for node in NODES for t in range(0, END, SCRAPE)]
    return "\n".join([*lines, "# EOF", ""])


ALWAYS = [(T0, T0 + END + 7200.0)]
MISSED = [(T0, T0 + 5000.0), (T0 + 5301.0, T0 + 9000.0), (T0 + 9601.0, T0 + END + 7200.0)]
"""One evaluation of five minutes is missed, and two."""
HOURS_MISSED = [(T0, T0 + 2 * 3600.0), (T0 + 3 * 3600.0 + 1, T0 + END + 7200.0)]
"""One evaluation of the hours is missed."""


@dataclass(frozen=True)
class Evaluated:
    server: PrometheusServer
    missed: bool


@pytest.fixture(scope="module", params=[False, True], ids=["every evaluation", "evaluations missed"])
def evaluated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluated]:
    with PrometheusServer(tmp_path_factory.mktemp("prometheus"), openmetrics=openmetrics()) as server:
        evaluate(server, ALWAYS, choose=lambda name: name == recording.copy_of(BUSY))
        chosen = {recording.counted(BUSY), recording.increase(BUSY, "5m"), recording.capacity("5m")}
        evaluate(server, MISSED if request.param else ALWAYS, choose=chosen.__contains__)
        hourly = {recording.increase(BUSY, "1h"), recording.capacity("1h")}
        evaluate(server, HOURS_MISSED if request.param else ALWAYS, choose=hourly.__contains__)
        yield Evaluated(server, request.param)


def ask(server: PrometheusServer, query: str) -> list[dict[str, Any]]:
    body = urllib.parse.urlencode({"query": query, "time": T0 + END + 7200}).encode()
    with urllib.request.urlopen(f"{server.url}/api/v1/query", body, timeout=60) as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result


def by_user(server: PrometheusServer, query: str) -> dict[str, float]:
    return {row["metric"]["user"]: float(row["value"][1]) for row in ask(server, query)}


def grown(values: list[float]) -> float:
    """What a counter grew by, from 0 where it was reset, and from its first sample on."""
    return sum(new - old if new >= old else new for old, new in pairwise(values))


def added(evaluated: Evaluated, resolution: recording.Resolution) -> dict[str, float]:
    name = recording.increase(BUSY, resolution)
    return by_user(evaluated.server, f"sum by (user) (sum_over_time({name}[7h]))")


def test_increments_add_up_to_what_the_copies_say(evaluated: Evaluated) -> None:
    rows = ask(evaluated.server, f"{recording.copy_of(BUSY)}[7h]")
    copies = {row["metric"]["user"]: grown([float(value) for _, value in row["values"]]) for row in rows}
    assert set(CASES) < set(copies)
    if evaluated.missed:
        # A reset between two evaluations of which one is missed gives back only what had been counted.
        copies = {name: grew for name, grew in copies.items() if name in ALL and not ALL[name].restarts}
    found = added(evaluated, "5m")
    assert {name: found[name] for name in copies} == pytest.approx(copies)


@pytest.mark.parametrize("name", CASES)
def test_a_counter_is_counted_once_whatever_happens_to_it(name: str, evaluated: Evaluated) -> None:
    case = CASES[name]
    grew = case.end - case.start
    lost = case.lost + (1200 if evaluated.missed and case.restarts else 0)
    assert grew - lost <= added(evaluated, "5m")[name] <= grew
    if not case.restarts and case.end < END:
        assert added(evaluated, "5m")[name] == grew


def test_a_replaced_pod_of_the_exporter_goes_on_with_its_counters(evaluated: Evaluated) -> None:
    assert 5000 + END - 5060 - (1000 if evaluated.missed else 90) <= added(evaluated, "5m")["replaced"] <= END - 60


def test_no_increment_is_negative_or_more_than_there_was_time_for(evaluated: Evaluated) -> None:
    name = recording.increase(BUSY, "5m")
    assert not ask(evaluated.server, f"min_over_time({name}[7h]) < 0")
    if not evaluated.missed:
        steady = ask(evaluated.server, f'max_over_time({name}{{user="steady"}}[7h])')
        # The first one also has what came before the first evaluation that found a copy which was a minute old.
        assert [300 <= float(row["value"][1]) <= 300 + 60 for row in steady] == [True]


def test_hours_are_all_increments(evaluated: Evaluated) -> None:
    assert added(evaluated, "1h") == pytest.approx(added(evaluated, "5m"))


def test_an_hour_whose_evaluation_was_missed_is_in_the_next(evaluated: Evaluated) -> None:
    [row] = ask(evaluated.server, f'{recording.increase(BUSY, "1h")}{{user="steady"}}[7h]')
    hours = [float(value) for _, value in row["values"] if float(value)]
    # What is not a minute old is the next hour's.
    assert max(hours) == (7200 if evaluated.missed else 3600)
    assert len(hours) == (4 if evaluated.missed else 5)


def test_capacity_is_the_time_that_visible_gpus_stood_there(evaluated: Evaluated) -> None:
    [five] = ask(evaluated.server, f"avg_over_time({recording.capacity('5m')}[5h])")
    hour = ask(evaluated.server, f"max_over_time({recording.capacity('1h')}[5h]) == {24 * 3600}")
    assert float(five["value"][1]) == 24 * 300
    assert hour or evaluated.missed


@pytest.mark.parametrize("counter", recording.COUNTERS)
def test_increments_are_made_from_the_copies_that_there_are(counter: str) -> None:
    assert counter in recorded.COPIED
    assert recording.copy_of(counter) == recorded.copy_of(counter)
    assert set(recording.BY) <= set(recorded.LABELS)
    assert set(recording.recorded()[recording.counted(counter)].labels) == set(recorded.LABELS)


def test_buckets_and_gpus_are_of_the_exporters_contract() -> None:
    assert set(recording.BY) <= set(contract.FAMILIES[recording.SAMPLES.removesuffix("_bucket")].labels)
    assert contract.FAMILIES[recording.VISIBLE].labels == ("node",)


def test_every_recorded_series_is_named_once() -> None:
    names = [rule.record for group in recording.groups() for rule in group.rules]
    assert len(names) == len(set(names)) == len(recording.recorded())
