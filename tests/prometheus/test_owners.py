"""The recorded increments are those of the alerter's owners, and of the exporters' where there is no owner."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dutycycle_dashboards import recording
from dutycycle_dashboards.boards import owned
from dutycycle_dashboards.building import promql
from tests.dashboards.answers.asking import instant
from tests.prometheus.evaluated import evaluate
from tests.prometheus.server import PrometheusServer

T0 = 1_790_000_000 // 86_400 * 86_400
END = 3600
BUSY = "workload_gpu_busy_seconds_total"
SAMPLES = recording.SAMPLES
FORGED, SHARES, SLURM = "k8s/ml/bert-0/uid-0", "k8s/ml/bert-1/uid-1", "slurm/7"
EXPORTERS = {FORGED: ("bob", 3), SHARES: ("ml", 1), SLURM: ("carol", 1)}
"""The user of each workload by its exporter, and its GPUs. The first pod claims to be Bob's; the others share a GPU."""

Owner = tuple[str, str, int, int]
"""A workload's user as the alerter publishes it, from and until a second."""

ADAS: list[Owner] = [(FORGED, "ada", 0, END), (SHARES, "ada", 0, END)]
CASES: dict[str, tuple[list[Owner], dict[str, float]]] = {
    "no alerter": ([], {"bob": 3, "ml": 1, "carol": 1}),
    "resolved": ([*ADAS, (SLURM, "carol", 0, END)], {"ada": 4, "carol": 1}),
    "one is not resolved": ([(FORGED, "ada", 0, END)], {"ada": 3, "ml": 1, "carol": 1}),
    "two alerters": ([*ADAS, *ADAS], {"ada": 4, "carol": 1}),
    # Increments of the last five minutes.
    "the owner changed": (
        [(FORGED, "eve", 0, END - 400), (FORGED, "ada", END - 400, END)],
        {"ada": 3, "ml": 1, "carol": 1},
    ),
    "the alerter is away for ten minutes": (
        [(one, "ada", 0, END - 600) for one in (FORGED, SHARES)],
        {"ada": 4, "carol": 1},
    ),
}


def series(name: str, values: dict[int, float], **labels: str) -> list[str]:
    shown = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    return [f"{name}{{{shown}}} {value} {T0 + at}" for at, value in values.items()]


def openmetrics() -> str:
    """Every case is a cluster; so workloads of other clusters have the same names."""
    counters, buckets, published, held = [], [], [], []
    for case, (owners, _) in CASES.items():
        for workload, (user, gpus) in EXPORTERS.items():
            for gpu in range(gpus):
                uuid = f"GPU-{gpu}" if workload == FORGED else "GPU-9"
                labels = {"cluster": case, "node": "n1", "gpu_uuid": uuid, "workload": workload, "user": user}
                grown = {at: float(at) for at in range(0, END + 1, 15)}
                counters += series(BUSY, grown, **labels, account="theirs")
                share = dict.fromkeys(range(0, END + 1, 15), 1.0 if workload == FORGED else 0.5)
                held += series("gpu_allocation", share, **labels)
                buckets += series(SAMPLES, grown, **labels, le="+Inf")
        for number, (workload, user, since, until) in enumerate(owners):
            labels = {"cluster": case, "workload": workload, "user": user, "account": "lab", "instance": f"a{number}"}
            published += series("dutycycle_workload_owner", dict.fromkeys(range(since, until, 15), 1.0), **labels)
    types = (f"{BUSY.removesuffix('_total')} counter", "dutycycle_workload_owner gauge")
    named = [
        "# TYPE gpu_allocation gauge",
        *held,
        f"# TYPE {types[0]}",
        *counters,
        f"# TYPE {SAMPLES} gauge",
        *buckets,
        f"# TYPE {types[1]}",
        *published,
    ]
    return "\n".join([*named, "# EOF", ""])


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with PrometheusServer(tmp_path_factory.mktemp("prometheus"), openmetrics=openmetrics()) as server:
        span = [(T0, T0 + float(END))]
        evaluate(server, span, choose={recording.copy_of(BUSY), recording.OWNER}.__contains__)
        five = {recording.counted(BUSY), recording.increase(BUSY, "5m"), recording.increase(SAMPLES, "5m")}
        evaluate(server, span, choose=five.__contains__)
        yield server


def by_user(server: PrometheusServer, expr: str) -> dict[str, float]:
    rows = instant(server.url, f"sum by (user) ({expr})", T0 + END)
    return {row["metric"]["user"]: float(row["value"][1]) for row in rows}


@pytest.mark.parametrize("metric", [BUSY, SAMPLES])
@pytest.mark.parametrize("case", CASES)
def test_increments_are_the_owners(case: str, metric: str, evaluated: PrometheusServer) -> None:
    name = recording.increase(metric, "5m")
    expected = {user: 300 * gpus for user, gpus in CASES[case][1].items()}
    assert by_user(evaluated, f'{name}{{cluster="{case}"}}') == pytest.approx(expected)


@pytest.mark.parametrize("case", CASES)
def test_what_is_held_now_is_the_owners(case: str, evaluated: PrometheusServer) -> None:
    """Of the GPU that two workloads share each has its part."""
    here = f'cluster="{case}"'
    shared = sum(1 for user in CASES[case][1] if user in ("ml", "carol"))
    expected = dict(CASES[case][1])
    for user in expected:
        expected[user] -= 0.5 if user in ("ml", "carol") or (user == "ada" and shared < 2) else 0
    assert by_user(evaluated, promql.allocations((), here)) == expected
    for user in ("ada", "bob", "eve"):
        chosen = {user: expected[user]} if user in expected else {}
        assert by_user(evaluated, promql.allocations((), here, f'user="{user}"')) == chosen


@pytest.mark.parametrize("case", CASES)
def test_what_was_used_in_a_range_is_the_newest_owners(case: str, evaluated: PrometheusServer) -> None:
    expected = {user: 1200 * gpus for user, gpus in CASES[case][1].items()}
    grown = owned.grown("busy", ["user"], over="20m", filters=(), more=(f'cluster="{case}"',))
    assert by_user(evaluated, grown) == pytest.approx(expected, rel=0.01)


def test_the_account_is_the_owners_too(evaluated: PrometheusServer) -> None:
    name = recording.increase(BUSY, "5m")
    rows = instant(evaluated.url, f'group by (user, account) ({name}{{cluster="one is not resolved"}})', T0 + END)
    found = {(row["metric"]["user"], row["metric"]["account"]) for row in rows}
    assert found == {("ada", "lab"), ("ml", "theirs"), ("carol", "theirs")}
