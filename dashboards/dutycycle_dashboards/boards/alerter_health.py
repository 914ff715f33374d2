"""Panels of the alerter: who evaluates, whether in time, and what it hears."""

from __future__ import annotations

from dutycycle_dashboards.boards.telling import outbox, receivers
from dutycycle_dashboards.building.graphs import state_timeline, timeseries
from dutycycle_dashboards.building.panel import Panel, Target, Threshold
from dutycycle_dashboards.building.promql import grown
from dutycycle_dashboards.building.units import BAD, GOOD, SECONDS

NO_ALERTER = "No alerter answers"
STORED = "no alerter is scraped, or its store does not answer"
"""Why what the store knows may be missing."""

_UP = (Threshold(None, BAD), Threshold(1, GOOD))


def alerter() -> tuple[Panel, ...]:
    """Whether somebody evaluates, in time, and is heard."""
    return (
        state_timeline(
            "Who leads",
            "Which alerter evaluates, over time. Changes without a restart are leases that were lost: the database is "
            "slow, or the alerter was paused.",
            Target("max by (instance) (dutycycle_alerter_leader)", "{{instance}}", may_be_empty="no alerter answers"),
            texts={"0": "stands by", "1": "leads"},
            thresholds=(Threshold(None, "blue"), Threshold(1, GOOD)),
            no_data=NO_ALERTER,
            width=12,
            height=6,
        ),
        state_timeline(
            "Sources and store",
            "Whether each source answered the alerter when it was last asked, and whether the store does. While one is "
            "down nothing opens and nothing resolves because of it.",
            Target("max by (source) (dutycycle_alerter_source_up)", "{{source}}", may_be_empty=STORED),
            Target(
                "min by (instance) (dutycycle_alerter_store_up)",
                "store of {{instance}}",
                may_be_empty="no alerter answers",
            ),
            texts={"0": "down", "1": "up"},
            thresholds=_UP,
            no_data=NO_ALERTER,
            width=12,
            height=6,
        ),
        timeseries(
            "Age of the last pass, and of the lease",
            "How long ago everything was judged, and the leader renewed its lease. Saw-teeth under a minute or two "
            "are normal; a rising line is an alerter that makes no progress.",
            Target("time() - max(dutycycle_alerter_last_pass_timestamp_seconds)", "last pass", may_be_empty=STORED),
            Target(
                "min(dutycycle_alerter_lease_age_seconds)", "lease", may_be_empty="one alerter alone needs no lease"
            ),
            unit=SECONDS,
            no_data=NO_ALERTER,
        ),
        timeseries(
            "Duration of a pass",
            "How long the last pass took. Near the pass interval (a minute unless configured) it falls behind: "
            "look at the source's and the database's answers.",
            Target(
                'max by (task) (dutycycle_alerter_task_duration_seconds{task="pass"})',
                "{{task}}",
                may_be_empty="no alerter evaluates",
            ),
            unit=SECONDS,
            legend=False,
            no_data=NO_ALERTER,
        ),
        receivers().sized(14, 7),
        outbox().sized(10, 7),
    )


def tasks() -> tuple[Panel, ...]:
    """How the alerter's tasks and the watches of schedulers fare."""
    return (
        timeseries(
            "Failed runs of tasks",
            "Runs of the alerter's periodic tasks that failed, by task and alerter. They are tried again; the log "
            "says why. Failures on a single job, GPU or node are counted apart: the pass goes on without it.",
            Target(
                "sum by (task, instance) (increase(dutycycle_alerter_task_failures_total[$__rate_interval])) > 0",
                "{{task}} of {{instance}}",
                may_be_empty="no run failed",
            ),
            Target(
                "sum by (instance) (increase(dutycycle_alerter_leases_lost_total[$__rate_interval])) > 0",
                "lease lost by {{instance}}",
                may_be_empty="no lease was lost",
            ),
            Target(
                "sum by (step, instance) (increase(dutycycle_alerter_subject_failures_total[$__rate_interval])) > 0",
                "{{step}} of one job, GPU or node by {{instance}}",
                may_be_empty="nothing failed on a single job, GPU or node",
            ),
            bars=True,
            stacked=True,
            no_data="No run failed in the range (or no alerter is scraped)",
            interval="1m",
        ),
        timeseries(
            "Duration of other tasks",
            "Last runs of the alerter's other tasks: scrapes, deliveries, housekeeping, the lease.",
            Target(
                'max by (task) (dutycycle_alerter_task_duration_seconds{task!="pass"})',
                "{{task}}",
                may_be_empty="no alerter answers",
            ),
            unit=SECONDS,
            no_data=NO_ALERTER,
        ),
        timeseries(
            "Silence of schedulers",
            "How long ago the watch of each Kubernetes API server last said something. Rising steadily: jobs that end "
            "are not noticed. Slurm is asked, not watched, and is a source above.",
            Target(
                "min by (source) (dutycycle_alerter_watch_silent_seconds)",
                "{{source}}",
                may_be_empty="no Kubernetes cluster is watched",
            ),
            unit=SECONDS,
            no_data="No Kubernetes cluster is watched, or no alerter answers",
        ),
        timeseries(
            "Changes received, and failures",
            "Changes that watches reported, complete lists that were read again, objects that could not be read, and "
            "requests that failed, in each step.",
            *(
                Target(
                    f"sum by (source) (increase(dutycycle_alerter_watch_{name}_total[$__rate_interval]))",
                    f"{{{{source}}}}: {legend}",
                    may_be_empty="no Kubernetes cluster is watched",
                )
                for name, legend in (("events", "changes"), ("relists", "lists"), ("malformed_objects", "unreadable"))
            ),
            Target(
                grown("dutycycle_alerter_watch_failures_total", "source, reason"),
                "{{source}}: {{reason}}",
                may_be_empty="no request failed",
            ),
            no_data="No Kubernetes cluster is watched, or no alerter answers",
            interval="1m",
        ),
    )
