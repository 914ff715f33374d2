"""What `/metrics` exposes is what the table says, from a store with incidents of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from dutycycle_alerter.incidents.model import EventKind
from dutycycle_alerter.incidents.tally import BOUNDS, Tally
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.views import (
    DeliveryCounts,
    IncidentFilter,
    Listed,
    OutboxDepth,
    Standing,
    WatchCounts,
    WorkloadOwner,
)
from dutycycle_alerter.web.families import FAMILIES, INCIDENT, MOST_INCIDENTS
from tests.alerter.conftest import Simulated
from tests.alerter.incidents.test_tally import happened
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.doubles import NOW, FixedReader
from tests.alerter.web.test_metrics import values

Serve = Callable[..., Client]

EVERYTHING: dict[str, object] = {
    "tasks": lambda: {"pass": TaskRuns(5, 2, 0.25, NOW - 20)},
    "standing": lambda: Standing("a", True, True, 3, 1.5, 0),
    "watches": lambda: {"kubernetes": WatchCounts(failures={"refused": 1}, silent=1.0)},
    "failures": lambda: {"judge": 1},
    "outbox": lambda: {"mail": OutboxDepth(1, NOW)},
    "deliveries": lambda: {"mail": DeliveryCounts(sent=1)},
    "owners": lambda: [WorkloadOwner("north", "slurm/7", "ada", "lab", "slurm/7", "")],
    "costs": Costs(gpu_hour=2.5, currency="EUR"),
    "tally": lambda _: Tally().with_([happened(EventKind.OPENED), happened(EventKind.RESOLVED, resolution="ended")]),
}


def families(page: str) -> dict[str, Metric]:
    """What was exposed, by the complete name."""
    found = {}
    for family in text_string_to_metric_families(page):
        found[f"{family.name}_total" if family.type == "counter" else family.name] = family
    return found


def test_exactly_the_families_of_the_table_are_exposed_with_their_kinds_and_labels(
    live_site: Callable[..., Live], simulated: Simulated
) -> None:
    exposed = families(live_site(**EVERYTHING).client.page("/metrics"))
    assert {name: family.type for name, family in exposed.items()} == {
        name: family.kind for name, family in FAMILIES.items()
    }
    for name, family in exposed.items():
        assert family.documentation == FAMILIES[name].help
        assert family.samples or name.endswith("jobs_not_evaluable"), f"{name} has no series here"
        for sample in family.samples:
            further = {"le"} if sample.name.endswith("_bucket") else set()
            assert set(sample.labels) == set(FAMILIES[name].labels) | further, sample.name


def test_each_incident_that_is_not_resolved_has_a_series_of_its_own(live: Live) -> None:
    page = live.client.page("/metrics")
    active, _ = live.store.incidents(IncidentFilter(), limit=1000)
    active = [one for one in active if one.state.active]
    opened = families(page)["dutycycle_incident_opened_timestamp_seconds"].samples
    assert {sample.labels["incident"] for sample in opened} == {str(one.id) for one in active}
    for sample in opened:
        one = next(one for one in active if str(one.id) == sample.labels["incident"])
        said = {name: sample.labels[name] for name in ("rule", "severity", "state", "user", "kind", "cause")}
        assert said == {
            "rule": one.rule,
            "severity": one.severity.value,
            "state": one.state.value,
            "user": one.user,
            "kind": one.about,
            "cause": one.diagnosis.causes[0].value if one.diagnosis.causes else "",
        }
        assert sample.value == one.opened_at
    assert values(page, "dutycycle_incident_wasted_gpu_seconds") == {
        (str(one.id),): one.wasted for one in active if one.about == "job"
    }
    assert values(page, "dutycycle_incidents_not_shown") == {(): 0}


def listed(**changes: object) -> Listed:
    one = Listed(
        id=7,
        subject="slurm/1234",
        about="job",
        rule="idle",
        severity="warning",
        state="open",
        opened_at=NOW - 3600,
        wasted=7200.0,
        cluster="",
        scheduler="slurm",
        user="alice",
        account="lab",
        partition="gpu",
        namespace="",
        nodes=("gpu1",),
        gpu="0",
        cause="no process",
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def shown(serve: Serve, *found: Listed, total: int | None = None) -> list[dict[str, str]]:
    """The labels of the series of incidents."""
    known = (found, len(found) if total is None else total)
    page = serve(FixedReader(), unresolved=lambda _: known).page("/metrics")
    return [dict(one.labels) for one in families(page)["dutycycle_incident_opened_timestamp_seconds"].samples]


@pytest.mark.parametrize(
    ("changes", "subject", "node"),
    [
        ({}, "slurm/1234", "gpu1"),
        ({"cluster": "north", "subject": "north/slurm/1234"}, "slurm/1234", "gpu1"),
        ({"nodes": ("gpu1", "gpu2")}, "slurm/1234", ""),
        ({"nodes": ()}, "slurm/1234", ""),
        ({"scheduler": "k8s", "subject": "k8s/lab/PyTorchJob/train/uid-1"}, "k8s/lab/PyTorchJob/train", "gpu1"),
        ({"about": "gpu", "subject": "gpu/gpu1/GPU-1", "gpu": "3"}, "gpu1:3", "gpu1"),
        ({"about": "gpu", "subject": "gpu/gpu1/GPU-1", "gpu": ""}, "gpu/gpu1/GPU-1", "gpu1"),
        ({"about": "node", "subject": "node/gpu1", "gpu": ""}, "gpu1", "gpu1"),
        ({"about": "node", "subject": "node/gpu1", "nodes": ()}, "gpu1", ""),
    ],
)
def test_the_subject_is_what_people_call_it(serve: Serve, changes: dict[str, object], subject: str, node: str) -> None:
    (labels,) = shown(serve, listed(**changes))
    assert (labels["subject"], labels["node"]) == (subject, node)


def test_those_that_are_left_out_are_counted(serve: Serve) -> None:
    asked: list[int] = []

    def unresolved(limit: int) -> tuple[tuple[Listed, ...], int]:
        asked.append(limit)
        return (listed(),), 5001

    page = serve(FixedReader(), unresolved=unresolved).page("/metrics")
    assert values(page, "dutycycle_incidents_not_shown") == {(): 5000}
    assert asked == [MOST_INCIDENTS]


HOSTILE = ['a"b\\c\nd} 1\nevil 2', "\u202egnp.exe\u2066", "x" * 100_000, "\x1b[31m\0", "{}", ""]


@given(st.sampled_from(HOSTILE) | st.text(max_size=200))
def test_text_from_outside_is_one_bounded_label_and_no_line_of_its_own(text: str) -> None:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    from dutycycle_alerter.web.metrics.building import gauge
    from dutycycle_alerter.web.metrics.incidents import labels_of

    names = ("user", "account", "partition", "namespace", "cluster")
    one = listed(**dict.fromkeys(names, text), subject=text, nodes=(text,))
    labels = dict(zip(INCIDENT, labels_of(one), strict=True))
    assert all(len(value) <= NAME_LIMIT and value.isprintable() for value in labels.values())
    assert labels["user"] == printable(text, NAME_LIMIT)

    class One(Collector):
        def collect(self) -> list[Metric]:
            family = gauge("dutycycle_incident_opened_timestamp_seconds")
            family.add_metric(labels_of(one), 1)
            return [family]

    registry = CollectorRegistry()
    registry.register(One())
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    assert [sample.labels for sample in family.samples] == [labels]


def test_times_to_resolve_are_a_histogram_that_adds_up(serve: Serve) -> None:
    took = (60.0, 300.0, 301.0, 10.0 * BOUNDS[-1])
    tally = Tally().with_(
        [happened(EventKind.RESOLVED, resolution="cleared", opened_at=NOW - one, resolved_at=NOW) for one in took]
    )
    page = serve(FixedReader(), tally=lambda _: tally).page("/metrics")
    buckets = {
        sample.labels["le"]: sample.value
        for sample in families(page)["dutycycle_incident_resolution_seconds"].samples
        if sample.name.endswith("_bucket") and sample.labels["rule"] == "idle"
    }
    assert (buckets["300.0"], buckets["900.0"], buckets["604800.0"], buckets["+Inf"]) == (2, 3, 3, 4)
    assert values(page, "dutycycle_incident_resolution_seconds_sum")["idle",] == sum(took)
    assert values(page, "dutycycle_incident_resolution_seconds_count")["idle",] == 4


def test_every_rule_that_there_is_has_its_zeros_from_the_start(serve: Serve) -> None:
    page = serve(FixedReader()).page("/metrics")
    for name in ("opened_total", "resolved_total", "reopened_total", "wasted_gpu_seconds_total"):
        found = values(page, f"dutycycle_incidents_{name}")
        assert set(found.values()) == {0}
        assert {name for labels in found for name in labels} >= {"idle", "hung", "gpu_fault", "underused"}
    assert values(page, "dutycycle_incidents_resolved_total")["intended", "idle"] == 0


def test_a_gpu_hours_price_is_shown_where_there_is_one(serve: Serve) -> None:
    page = serve(FixedReader(), costs=Costs(gpu_hour=0, currency="EUR")).page("/metrics")
    assert values(page, "dutycycle_gpu_hour_cost") == {("EUR",): 0}
    assert not values(serve(FixedReader()).page("/metrics"), "dutycycle_gpu_hour_cost")
