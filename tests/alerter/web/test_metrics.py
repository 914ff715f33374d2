"""The alerter's own metrics: what its sources, tasks and incidents are like, as Prometheus reads it."""

import subprocess
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.incidents.tally import Tally
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.views import (
    DeliveryCounts,
    NotEvaluable,
    OutboxDepth,
    TargetStatus,
    WatchCounts,
    WorkloadOwner,
)
from tests.alerter.conftest import Simulated
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.doubles import NOW, FixedReader, incident, status
from tests.prometheus.server import program

Serve = Callable[..., Client]
TASKS = {"pass": TaskRuns(5, 2, 0.25, NOW - 20), "scrape": TaskRuns()}


def values(page: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name by their labels' values."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def test_sources_say_whether_they_answer_and_when_they_last_did(serve: Serve) -> None:
    targets = (
        TargetStatus("http://a/metrics", "a", NOW - 10, "", "what is said beside it does not make it silent"),
        TargetStatus("http://b/metrics", "b", NOW - 900, "refused"),
        TargetStatus("http://c/metrics", "", None, ""),
    )
    page = serve(FixedReader(shown=status(targets=targets))).page("/metrics")
    up = {("http://a/metrics",): 1, ("http://b/metrics",): 0, ("http://c/metrics",): 0}
    assert values(page, "dutycycle_alerter_source_up") == up
    assert values(page, "dutycycle_alerter_source_last_success_timestamp_seconds") == {
        ("http://a/metrics",): NOW - 10,
        ("http://b/metrics",): NOW - 900,
    }
    assert values(page, "dutycycle_alerter_last_pass_timestamp_seconds") == {(): NOW - 20}


def test_tasks_count_their_runs_and_failures(serve: Serve) -> None:
    page = serve(FixedReader(), tasks=lambda: TASKS).page("/metrics")
    assert values(page, "dutycycle_alerter_task_runs_total") == {("pass",): 5, ("scrape",): 0}
    assert values(page, "dutycycle_alerter_task_failures_total") == {("pass",): 2, ("scrape",): 0}
    assert values(page, "dutycycle_alerter_task_duration_seconds") == {("pass",): 0.25}


def test_what_failed_of_single_jobs_is_counted(serve: Serve) -> None:
    page = serve(FixedReader(), failures=lambda: {"judge": 3, "report": 0}).page("/metrics")
    assert values(page, "dutycycle_alerter_subject_failures_total") == {("judge",): 3, ("report",): 0}


def test_what_is_heard_of_schedulers_is_counted_and_a_silence_is_shown(serve: Serve) -> None:
    counts = {
        "kubernetes north": WatchCounts(41, 2, 1, {"expired": 2, "throttled": 3}, 0.5, 7),
        "kubernetes south": WatchCounts(failures={"refused": 9}),
    }
    page = serve(FixedReader(), watches=lambda: counts).page("/metrics")
    north, south = ("kubernetes north",), ("kubernetes south",)
    assert values(page, "dutycycle_alerter_watch_events_total") == {north: 41, south: 0}
    assert values(page, "dutycycle_alerter_watch_relists_total") == {north: 2, south: 0}
    assert values(page, "dutycycle_alerter_watch_malformed_objects_total") == {north: 1, south: 0}
    assert values(page, "dutycycle_alerter_watch_failures_total") == {
        ("expired", *north): 2,
        ("throttled", *north): 3,
        ("refused", *south): 9,
    }
    assert values(page, "dutycycle_alerter_watch_silent_seconds") == {north: 0.5}
    assert values(page, "dutycycle_alerter_watch_unowned_workloads") == {north: 7, south: 0}


def test_rules_that_lack_evidence_are_counted_by_rule(serve: Serve) -> None:
    silent = (
        NotEvaluable("hung", "no GPM", 3),
        NotEvaluable("hung", "no power limit", 2),
        NotEvaluable("idle", "x", 1),
    )
    page = serve(FixedReader(shown=status(not_evaluable=silent))).page("/metrics")
    assert values(page, "dutycycle_alerter_jobs_not_evaluable") == {("hung",): 5, ("idle",): 1}


def test_incidents_that_are_not_resolved_are_counted(serve: Serve) -> None:
    found = (
        incident(),
        incident(id=8),
        incident(id=9, rule="stalled", severity=Severity.CRITICAL, state=State.ACKNOWLEDGED),
    )
    page = serve(FixedReader(found=found)).page("/metrics")
    assert values(page, "dutycycle_incidents") == {
        ("idle", "warning", "open"): 2,
        ("stalled", "critical", "acknowledged"): 1,
    }


def test_a_store_that_does_not_answer_is_said_and_hides_no_task(serve: Serve) -> None:
    page = serve(FixedReader(broken=True), tasks=lambda: TASKS).page("/metrics")
    assert values(page, "dutycycle_alerter_store_up") == {(): 0}
    assert values(page, "dutycycle_alerter_task_failures_total")["pass",] == 2
    assert not values(page, "dutycycle_incidents")
    assert sum(values(page, "dutycycle_incidents_opened_total").values()) == 0, "what was counted needs no store"


@pytest.mark.parametrize("broken", [False, True])
def test_a_store_that_does_not_answer_is_waited_for_once(serve: Serve, broken: bool) -> None:
    """Who waits twice waits for longer than a scraper does."""
    asked: list[bool] = []

    def tally(answers: bool) -> Tally:
        asked.append(answers)
        return Tally()

    serve(FixedReader(broken=broken), tally=tally).page("/metrics")
    assert asked == [not broken]


def test_of_a_real_store_promtool_finds_nothing_to_complain(live: Live, simulated: Simulated) -> None:
    page = live.client.page("/metrics")
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, check=False, timeout=60
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert values(page, "dutycycle_alerter_store_up") == {(): 1}
    assert sum(values(page, "dutycycle_incidents").values()) > 0


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=1.0.0", "text/plain", ""])
def test_the_format_is_what_the_scraper_asks_for(serve: Serve, accept: str) -> None:
    answer = serve(FixedReader()).get("/metrics", Accept=accept)
    wanted = "application/openmetrics-text" if "openmetrics" in accept else "text/plain"
    assert answer.headers["content-type"].startswith(wanted)
    assert (b"# EOF" in answer.data) is ("openmetrics" in accept)


def test_what_waits_to_be_told_and_what_became_of_messages_is_counted_by_receiver(serve: Serve) -> None:
    deliveries = {
        "mail": DeliveryCounts(
            sent=3, retried=2, failed=1, failing_since=NOW - 7200, error="secret.example.org: refused"
        ),
        "slack": DeliveryCounts(sent=5),
    }
    outbox = {"mail": OutboxDepth(4, NOW - 600), "gone": OutboxDepth(1, NOW + 60)}
    client = serve(FixedReader(), outbox=lambda: outbox, deliveries=lambda: deliveries)
    page = client.page("/metrics")
    assert values(page, "dutycycle_deliveries_total") == {
        ("mail", "sent"): 3,
        ("mail", "retried"): 2,
        ("mail", "failed"): 1,
        ("slack", "sent"): 5,
        ("slack", "retried"): 0,
        ("slack", "failed"): 0,
    }
    assert values(page, "dutycycle_receiver_failing_seconds") == {("mail",): 7200, ("slack",): 0}
    assert values(page, "dutycycle_outbox_notices") == {("gone",): 1, ("mail",): 4, ("slack",): 0}
    assert values(page, "dutycycle_outbox_oldest_seconds") == {("gone",): 0, ("mail",): 600, ("slack",): 0}
    ready = client.page("/-/ready")
    assert "mail has failed for 2 h" in ready
    assert "secret" not in ready + page


def test_owners_have_the_exporters_workload_and_a_job_without_its_uid(serve: Serve) -> None:
    pod = f"k8s/ml/{'bert-' * 40}0/uid-0"
    found = [
        WorkloadOwner("north", pod, "ada\n", "lab", "k8s/ml/bert/uid-9", "PyTorchJob"),
        WorkloadOwner("", "slurm/7", "bob", "", "slurm/7", ""),
    ]
    page = serve(FixedReader(), owners=lambda: found).page("/metrics")
    labels = [
        sample.labels
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "dutycycle_workload_owner"
    ]
    assert labels == [
        {
            "cluster": "north",
            "workload": pod,
            "user": printable("ada\n", NAME_LIMIT),
            "account": "lab",
            "job": "k8s/ml/bert",
            "kind": "PyTorchJob",
        },
        {"cluster": "", "workload": "slurm/7", "user": "bob", "account": "", "job": "slurm/7", "kind": ""},
    ]
