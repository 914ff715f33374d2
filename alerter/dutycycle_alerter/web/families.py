"""The one table of every metric family that the alerter publishes: name, kind, labels, meaning.

`web.metrics` builds its output from this table and `docs/metrics.md` is generated from it. A name that is not here does
not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]

MOST_INCIDENTS = 5000
"""Incidents that have series of their own, the newest."""

INCIDENT = (
    "incident",
    "rule",
    "severity",
    "state",
    "cause",
    "cluster",
    "scheduler",
    "user",
    "account",
    "partition",
    "namespace",
    "subject",
    "kind",
    "node",
)
"""Labels of an incident. Text from outside is cut to 120 characters and has no control characters."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family as scrapers see it; `name` is complete, with `_total` where it is a counter."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Section:
    """Families with the same subject, in the order in which they are documented."""

    title: str
    about: str
    families: tuple[Family, ...]


SECTIONS = (
    Section(
        "Incidents that are not resolved",
        "Read from the store at each scrape, at most once per second. With `web.auth`, incidents have series of their "
        "own only for clients that log in as `viewer` or `operator`; else `dutycycle_incidents_not_shown` counts them "
        "all ([access.md](access.md)). Where several alerters share a database, each of them publishes all of "
        "these: aggregate them with `max` without `instance` before you add them up.",
        (
            Family(
                "dutycycle_incidents",
                "gauge",
                ("rule", "severity", "state"),
                "Incidents that are not resolved.",
            ),
            Family(
                "dutycycle_incident_opened_timestamp_seconds",
                "gauge",
                INCIDENT,
                "When the incident was first opened; one series for each that is not resolved, at most 5,000, the "
                "newest. `subject` is the job's id (without the cluster, and without the uid of a Kubernetes object), "
                "`node:index` of a GPU or the name of a node, as `kind` says (`job`, `gpu`, `node`). `node` is empty "
                "where there is more than one, `cause` where none is known; where several are likely it is the first.",
            ),
            Family(
                "dutycycle_incident_wasted_gpu_seconds",
                "gauge",
                ("incident",),
                "GPU-seconds wasted so far, measured and not busy; absent for incidents of GPUs and nodes.",
            ),
            Family(
                "dutycycle_incidents_not_shown",
                "gauge",
                (),
                "Incidents that are not resolved and have no series of their own, because there are more than 5,000 "
                "or because the client may not see them.",
            ),
            Family(
                "dutycycle_gpu_hour_cost",
                "gauge",
                ("currency",),
                "Price of a GPU-hour, as configured (`costs.gpu_hour`); absent where it is not.",
            ),
        ),
    ),
    Section(
        "Owners of workloads",
        "Exporters know the namespace of a pod, or what the pod says of itself. The alerter resolves the owner from "
        "the object that a person made. With `web.auth`, these series are only for clients that log in as `viewer` or "
        "`operator` ([access.md](access.md)). Where several alerters share a database, each publishes the same series. "
        "Prometheus renames the label `job` to `exported_job` unless `honor_labels` is set.",
        (
            Family(
                "dutycycle_workload_owner",
                "gauge",
                ("cluster", "workload", "user", "account", "job", "kind"),
                "Owner of a workload as its scheduler resolved it; always 1. One series for each workload that holds "
                "GPUs, or did in the last 15 minutes; absent while the owner is not resolved. `workload` and `cluster` "
                "are the labels of the exporters' series, `job` is the id in incidents, and `kind` is the kind of the "
                "object that owns pods.",
            ),
        ),
    ),
    Section(
        "What became of incidents",
        "Counted from the history of incidents, once it is committed, by the alerter that evaluates: so what people "
        "do by page, API, links and command line is counted, too, and two alerters count nothing twice. Each series "
        "is there at 0 from the start and stays so for two minutes, so that `increase` misses nothing. Not counted is "
        "what happens while no alerter evaluates, or after the last pass or scrape before another takes over. Of an "
        "incident that was resolved before the alerter took over and reopens, what it wasted until its reopening is "
        "counted is left out: it may be in already. `other` stands for rules that this release does not have. Reports "
        "on ended jobs are no incidents that were ever open, and are left out.",
        (
            Family(
                "dutycycle_incidents_opened_total",
                "counter",
                ("rule", "severity"),
                "Incidents that opened, by the rule and the severity with which they did.",
            ),
            Family(
                "dutycycle_incidents_resolved_total",
                "counter",
                ("rule", "resolution"),
                "Incidents that were resolved, by their rule then; an incident that reopens may be so again.",
            ),
            Family(
                "dutycycle_incidents_reopened_total",
                "counter",
                ("rule",),
                "Incidents that opened again because their condition came back.",
            ),
            Family(
                "dutycycle_incident_resolution_seconds",
                "histogram",
                ("rule",),
                "Wall seconds from when an incident first opened to when it was resolved.",
            ),
            Family(
                "dutycycle_incidents_wasted_gpu_seconds_total",
                "counter",
                ("rule",),
                "GPU-seconds that incidents wasted, added when they are resolved.",
            ),
        ),
    ),
    Section(
        "Messages",
        "Pending notifications, and what became of messages.",
        (
            Family(
                "dutycycle_deliveries_total",
                "counter",
                ("receiver", "result"),
                "Attempts to deliver messages: sent, to be retried, or failed for good.",
            ),
            Family(
                "dutycycle_receiver_failing_seconds",
                "gauge",
                ("receiver",),
                "Seconds since the receiver last accepted something, if its last attempt failed; else 0.",
            ),
            Family(
                "dutycycle_outbox_notices",
                "gauge",
                ("receiver",),
                "Pieces of news that are pending.",
            ),
            Family(
                "dutycycle_outbox_oldest_seconds",
                "gauge",
                ("receiver",),
                "For how long the oldest of them has been due, in seconds; 0 if none is.",
            ),
        ),
    ),
    Section(
        "The alerter itself",
        "Whether its sources answer, how its tasks fare, and whether it is the one that evaluates.",
        (
            Family("dutycycle_alerter_build_info", "gauge", ("version",), "Version; always 1."),
            Family("dutycycle_alerter_store_up", "gauge", (), "Whether the store answers."),
            Family("dutycycle_alerter_last_pass_timestamp_seconds", "gauge", (), "When everything was last judged."),
            Family(
                "dutycycle_alerter_jobs_judged",
                "gauge",
                (),
                "Jobs of which at least one rule could be decided in the last pass.",
            ),
            Family(
                "dutycycle_alerter_jobs_not_evaluable",
                "gauge",
                ("rule",),
                "Jobs for which the rule lacks a kind of evidence, in the last pass.",
            ),
            Family(
                "dutycycle_alerter_source_up",
                "gauge",
                ("source",),
                "Whether the source answered when it was last asked.",
            ),
            Family(
                "dutycycle_alerter_source_last_success_timestamp_seconds",
                "gauge",
                ("source",),
                "When the source last answered; absent before.",
            ),
            Family("dutycycle_alerter_task_runs_total", "counter", ("task",), "Runs of a periodic task."),
            Family("dutycycle_alerter_task_failures_total", "counter", ("task",), "Runs that failed."),
            Family("dutycycle_alerter_task_duration_seconds", "gauge", ("task",), "Duration of the task's last run."),
            Family(
                "dutycycle_alerter_subject_failures_total",
                "counter",
                ("step",),
                "Times that a pass failed on one job, GPU or node alone, and left it as it was: as it was judged "
                "(`judge`), folded into its incident (`incident`) or reported (`report`). An error of the alerter; its "
                "log has it.",
            ),
            Family("dutycycle_alerter_leader", "gauge", (), "Whether this alerter evaluates."),
            Family("dutycycle_alerter_lease_epoch", "gauge", (), "Epoch of the lease, as this alerter last saw it."),
            Family(
                "dutycycle_alerter_lease_age_seconds",
                "gauge",
                (),
                "Seconds since this alerter last renewed the lease; absent without it.",
            ),
            Family(
                "dutycycle_alerter_leases_lost_total",
                "counter",
                (),
                "Terms as leader that this alerter lost.",
            ),
        ),
    ),
    Section(
        "What schedulers report",
        "About the watches of Kubernetes' API servers, by source.",
        (
            Family("dutycycle_alerter_watch_events_total", "counter", ("source",), "Changes that schedulers sent."),
            Family(
                "dutycycle_alerter_watch_relists_total",
                "counter",
                ("source",),
                "Complete lists that were read again.",
            ),
            Family(
                "dutycycle_alerter_watch_malformed_objects_total",
                "counter",
                ("source",),
                "Objects that could not be read.",
            ),
            Family(
                "dutycycle_alerter_watch_failures_total",
                "counter",
                ("source", "reason"),
                "Requests that failed, by reason.",
            ),
            Family(
                "dutycycle_alerter_watch_silent_seconds",
                "gauge",
                ("source",),
                "Seconds since the scheduler last sent something; absent before it did.",
            ),
            Family(
                "dutycycle_alerter_watch_unowned_workloads",
                "gauge",
                ("source",),
                "Workloads whose owner is being looked up.",
            ),
        ),
    ),
)

FAMILIES: dict[str, Family] = {family.name: family for section in SECTIONS for family in section.families}
