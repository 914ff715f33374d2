"""The alerter's metric names, kinds and labels, which dashboards and alerts rely on, written here a second time."""

from __future__ import annotations

import re

import pytest

from dutycycle_alerter.web.families import FAMILIES, SECTIONS, Family

PROMISED = {
    "dutycycle_incidents": ("gauge", "rule severity state"),
    "dutycycle_incident_opened_timestamp_seconds": (
        "gauge",
        "incident rule severity state cause cluster scheduler user account partition namespace subject kind node",
    ),
    "dutycycle_incident_wasted_gpu_seconds": ("gauge", "incident"),
    "dutycycle_incidents_not_shown": ("gauge", ""),
    "dutycycle_gpu_hour_cost": ("gauge", "currency"),
    "dutycycle_workload_owner": ("gauge", "cluster workload user account job kind"),
    "dutycycle_incidents_opened_total": ("counter", "rule severity"),
    "dutycycle_incidents_resolved_total": ("counter", "rule resolution"),
    "dutycycle_incidents_reopened_total": ("counter", "rule"),
    "dutycycle_incident_resolution_seconds": ("histogram", "rule"),
    "dutycycle_incidents_wasted_gpu_seconds_total": ("counter", "rule"),
    "dutycycle_deliveries_total": ("counter", "receiver result"),
    "dutycycle_receiver_failing_seconds": ("gauge", "receiver"),
    "dutycycle_outbox_notices": ("gauge", "receiver"),
    "dutycycle_outbox_oldest_seconds": ("gauge", "receiver"),
    "dutycycle_alerter_build_info": ("gauge", "version"),
    "dutycycle_alerter_store_up": ("gauge", ""),
    "dutycycle_alerter_last_pass_timestamp_seconds": ("gauge", ""),
    "dutycycle_alerter_jobs_judged": ("gauge", ""),
    "dutycycle_alerter_jobs_not_evaluable": ("gauge", "rule"),
    "dutycycle_alerter_source_up": ("gauge", "source"),
    "dutycycle_alerter_source_last_success_timestamp_seconds": ("gauge", "source"),
    "dutycycle_alerter_task_runs_total": ("counter", "task"),
    "dutycycle_alerter_task_failures_total": ("counter", "task"),
    "dutycycle_alerter_task_duration_seconds": ("gauge", "task"),
    "dutycycle_alerter_subject_failures_total": ("counter", "step"),
    "dutycycle_alerter_leader": ("gauge", ""),
    "dutycycle_alerter_lease_epoch": ("gauge", ""),
    "dutycycle_alerter_lease_age_seconds": ("gauge", ""),
    "dutycycle_alerter_leases_lost_total": ("counter", ""),
    "dutycycle_alerter_watch_events_total": ("counter", "source"),
    "dutycycle_alerter_watch_relists_total": ("counter", "source"),
    "dutycycle_alerter_watch_malformed_objects_total": ("counter", "source"),
    "dutycycle_alerter_watch_failures_total": ("counter", "source reason"),
    "dutycycle_alerter_watch_silent_seconds": ("gauge", "source"),
    "dutycycle_alerter_watch_unowned_workloads": ("gauge", "source"),
}


def test_families_kinds_and_labels_are_those_that_were_promised() -> None:
    assert {one.name: (one.kind, " ".join(one.labels)) for one in FAMILIES.values()} == PROMISED


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_names_follow_prometheus_conventions(family: Family) -> None:
    assert re.fullmatch(r"dutycycle_[a-z0-9_]+", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert len(set(family.labels)) == len(family.labels) <= 30
    assert family.help.endswith(".")


def test_no_name_is_declared_twice() -> None:
    assert len(FAMILIES) == sum(len(section.families) for section in SECTIONS)
