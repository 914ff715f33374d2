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
from tests.prometheus.server import PrometheusServer, Server, VictoriaMetricsServer

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
    # Two series of one workload and GPU that differ in what is replaced.
    "the exporter's label changed": (ADAS, {"ada": 4, "carol": 1}),
    "one exporter knows no user": (ADAS, {"ada": 4, "carol": 1}),
}
UNRESOLVED = "the exporter's label changed, without an alerter"
CHANGED = END - 900


def exporters(case: str, workload: str, gpu: int) -> list[tuple[str, int, int]]:
    """The user of a workload on a GPU by its exporter, from and until a second."""
    user = EXPORTERS[workload][0]
    if workload == FORGED and case.startswith("the exporter's label changed"):
        return [(user, 0, CHANGED), ("ml", CHANGED, END + 1)]
    if workload == FORGED and gpu and case == "one exporter knows no user":
        return [("", 0, END + 1)]
    return [(user, 0, END + 1)]


def series(name: str, values: dict[int, float], **labels: str) -> list[str]:
    shown = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    return [f"{name}{{{shown}}} {value} {T0 + at}" for at, value in values.items()]


def openmetrics() -> str:
    """Every case is a cluster; so workloads of other clusters have the same names."""
    counters, buckets, published, held = [], [], [], []
    for case, (owners, _) in {**CASES, UNRESOLVED: ([], {})}.items():
        for workload, gpu in ((workload, gpu) for workload, (_, gpus) in EXPORTERS.items() for gpu in range(gpus)):
            uuid = f"GPU-{gpu}" if workload == FORGED else "GPU-9"
            for user, since, until in exporters(case, workload, gpu):
                labels = {"cluster": case, "node": "n1", "gpu_uuid": uuid, "workload": workload, "user": user}
                grown = {at: float(at) for at in range(since, until, 15)}
                counters += series(BUSY, grown, **labels, account="theirs")
                held += series("gpu_allocation", dict.fromkeys(grown, 1.0 if workload == FORGED else 0.5), **labels)
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


@pytest.fixture(scope="module")
def victoria(tmp_path_factory: pytest.TempPathFactory, evaluated: PrometheusServer) -> Iterator[VictoriaMetricsServer]:
    """With every sample of the Prometheus, the recorded ones too."""
    lines = []
    for row in instant(evaluated.url, f'{{__name__=~".+"}}[{END}s]', T0 + END):
        name = row["metric"].pop("__name__")
        lines += series(name, {int(float(at)) - T0: float(value) for at, value in row["values"]}, **row["metric"])
    with VictoriaMetricsServer(tmp_path_factory.mktemp("victoria"), openmetrics="\n".join(lines)) as server:
        yield server


def by_user(server: Server, expr: str) -> dict[str, float]:
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
    # A copy begins anew when the exporter's label changes: less than a minute is lost.
    assert by_user(evaluated, grown) == pytest.approx(expected, rel=0.05 if "label changed" in case else 0.01)


def test_where_two_exporters_labels_are_left_nothing_is_lost(evaluated: PrometheusServer) -> None:
    """It is one of the two users'."""
    for expr, expected in (
        (f'{recording.increase(BUSY, "5m")}{{cluster="{UNRESOLVED}"}}', 1500),
        (owned.grown("busy", ["user"], over="20m", filters=(), more=(f'cluster="{UNRESOLVED}"',)), 6000),
        (promql.allocations((), f'cluster="{UNRESOLVED}"'), 4),
    ):
        assert sum(by_user(evaluated, expr).values()) == pytest.approx(expected, rel=0.05)


def test_the_account_is_the_owners_too(evaluated: PrometheusServer) -> None:
    name = recording.increase(BUSY, "5m")
    rows = instant(evaluated.url, f'group by (user, account) ({name}{{cluster="one is not resolved"}})', T0 + END)
    found = {(row["metric"]["user"], row["metric"]["account"]) for row in rows}
    assert found == {("ada", "lab"), ("ml", "theirs"), ("carol", "theirs")}


@pytest.mark.parametrize("case", CASES)
def test_victoriametrics_answers_the_same(
    case: str, evaluated: PrometheusServer, victoria: VictoriaMetricsServer
) -> None:
    here = f'cluster="{case}"'
    rules = recording.recorded()
    for expr in (
        f"({rules[recording.increase(BUSY, '5m')].expr}) and on (cluster) {recording.copy_of(BUSY)}{{{here}}}",
        f"({rules[recording.increase(SAMPLES, '5m')].expr}) and on (cluster) {recording.copy_of(BUSY)}{{{here}}}",
        promql.allocations((), here),
        promql.allocations((), here, 'user="ada"'),
        owned.grown("busy", ["user"], over="20m", filters=(), more=(here,)),
    ):
        expected = by_user(evaluated, expr)
        assert expected or 'user="ada"' in expr
        # Its `increase` does not extrapolate, and looks at the sample before the range.
        assert by_user(victoria, expr) == pytest.approx(expected, rel=0.06), expr
