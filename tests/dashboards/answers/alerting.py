"""The fleet's alerter as OpenMetrics text: incidents that are open, what became of others, and its own health."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dutycycle_alerter.web.families import SECTIONS, Family
from tests.dashboards.answers.exposition import RECENT, Series, written
from tests.dashboards.answers.fleet import END, MIDNIGHT, SCRAPE

RULES = ("idle", "stalled", "underused")
BOUNDS = ("300", "3600", "14400", "86400", "604800", "+Inf")
_TARGET = {"job": "dutycycle-alerter", "instance": "alerter:9837"}

Labels = Mapping[str, str]


def _incident(number: int, rule: str, user: str, account: str, node: str, **more: str) -> dict[str, str]:
    cluster, scheduler = ("alpha", "slurm") if node.startswith("a") else ("beta", "k8s")
    return {
        "incident": str(number),
        "rule": rule,
        "severity": "warning",
        "state": "open",
        "cause": "data loading",
        "cluster": cluster,
        "scheduler": scheduler,
        "user": user,
        "account": account,
        "partition": "main" if node == "a1" else "",
        "namespace": "" if scheduler == "slurm" else f"team-{account}",
        "subject": f"slurm/{1000 + number}",
        "kind": "job",
        "node": node,
        **more,
    }


INCIDENTS = (
    _incident(1, "idle", "edge", "vision", "a1", severity="critical", cause="no process"),
    _incident(2, "stalled", "late", "nlp", "a1", state="acknowledged"),
    _incident(3, "underused", "kay", "maths", "b1", cause="small work per step", state="snoozed"),
    _incident(
        4, "gpu_fault", "", "", "a1", kind="gpu", subject="a1:3", severity="critical", cause="fault", partition=""
    ),
    _incident(5, "memory_underused", "kay", "maths", "b1", severity="info", cause="over-request"),
)
"""Of each state and severity, of several owners; one is a GPU's."""

VALUES: dict[str, tuple[Labels, ...]] = {
    # A pod that the fleet does not have: users stay as the exporters name them.
    "cluster workload user account job kind": [
        {
            "cluster": "alpha",
            "workload": "k8s/ml/elsewhere-0/uid-0",
            "user": "ada",
            "account": "",
            "job": "k8s/ml/pytorchjob/elsewhere",
            "kind": "PyTorchJob",
        }
    ],
    "rule": tuple({"rule": rule} for rule in RULES),
    "receiver": ({"receiver": "slack"}, {"receiver": "mail"}),
    "source": ({"source": "http://prometheus:9090"},),
    "step": ({"step": "judge"}, {"step": "incident"}),
    "task": ({"task": "pass"}, {"task": "ledger"}),
    "version": ({"version": "0.5.0"},),
    "currency": ({"currency": "EUR"},),
    "rule severity": ({"rule": "idle", "severity": "warning"}, {"rule": "stalled", "severity": "critical"}),
    "rule resolution": ({"rule": "idle", "resolution": "ended"}, {"rule": "stalled", "resolution": "cleared"}),
    "rule severity state": tuple({label: one[label] for label in ("rule", "severity", "state")} for one in INCIDENTS),
    "receiver result": tuple({"receiver": "slack", "result": result} for result in ("sent", "retried", "failed")),
    "source reason": ({"source": "kubernetes", "reason": "timeout"},),
    "": ({},),
}
"""Values of labels, by the labels of a family."""

SIZES = {
    "dutycycle_gpu_hour_cost": 2.5,
    "dutycycle_incidents_not_shown": 0.0,
    "dutycycle_receiver_failing_seconds": 0.0,
    "dutycycle_alerter_watch_silent_seconds": 3.0,
}


def openmetrics() -> Iterator[str]:
    """Every family of the alerter's contract, for the last hours."""
    for section in SECTIONS:
        for family in section.families:
            base = family.name.removesuffix("_total") if family.kind == "counter" else family.name
            yield f"# TYPE {base} {family.kind}\n"
            for name, series in _series(family):
                yield from written(name, series)


def _series(family: Family) -> Iterator[tuple[str, Series]]:
    if family.labels[:1] == ("incident",):
        for place, incident in enumerate(INCIDENTS):
            opened = END - 3600.0 * (place + 1)
            of = {label: incident[label] for label in family.labels}
            if family.name.endswith("_timestamp_seconds"):
                yield family.name, _made(of, [(t, MIDNIGHT + opened) for t in _times(opened)])
            elif incident["kind"] == "job":
                yield family.name, _made(of, [(t, 0.8 * (t - opened)) for t in _times(opened)])
        return
    for labels in VALUES[" ".join(family.labels)]:
        if family.kind == "histogram":
            for place, bound in enumerate(BOUNDS):
                share = (place + 1) / len(BOUNDS)
                yield f"{family.name}_bucket", _made({**labels, "le": bound}, _growing(share / 600))
            yield f"{family.name}_sum", _made(labels, _growing(5000 / 600))
            yield f"{family.name}_count", _made(labels, _growing(1 / 600))
        elif family.kind == "counter":
            yield family.name, _made(labels, _growing(1 / 600))
        elif family.name.endswith("_timestamp_seconds"):
            yield family.name, _made(labels, [(t, MIDNIGHT + t - 20.0) for t in _times()])
        else:
            yield family.name, _made(labels, [(t, SIZES.get(family.name, 1.0)) for t in _times()])


def _made(labels: Labels, samples: list[tuple[float, float]]) -> Series:
    return Series({**labels, **_TARGET}, samples)


def _times(since: float = 0.0) -> range:
    return range(int(max(since, END - RECENT)) // SCRAPE * SCRAPE, END + 1, SCRAPE)


def _growing(rate: float) -> list[tuple[float, float]]:
    """Whole events, as a counter of them has."""
    return [(t, float(int(rate * (t - END + RECENT)))) for t in _times()]
