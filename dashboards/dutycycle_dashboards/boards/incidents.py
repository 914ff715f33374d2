"""Incidents: what is wrong now, since when, whose it is, how incidents come and go, and who was told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dutycycle_dashboards.boards.incident_history import by_rule, over_time
from dutycycle_dashboards.boards.telling import telling
from dutycycle_dashboards.building import variables
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import stat, timeseries
from dutycycle_dashboards.building.links import INCIDENTS, JOB, NODE, OPERATIONS, USER, Link
from dutycycle_dashboards.building.panel import ANY_IS_BAD, Panel, Target, Threshold
from dutycycle_dashboards.building.promql import TARGET_LABELS, selector
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, FAIR, GOOD, GPU_HOURS, SECONDS

OPENED = "dutycycle_incident_opened_timestamp_seconds"
FILTERS = ("cluster", "scheduler", "account", "partition", "namespace", "user")
"""The dashboards' filters that incidents have as labels."""

_LABELS = ", ".join(
    ("incident", "rule", "severity", "state", "cause", *FILTERS, "subject", "kind", "node"),
)
_NO_ALERTER = "No alerter, or no store"
_ANSWERS = "0 * max(dutycycle_alerter_store_up == 1)"
"""0 where an alerter answers and its store does: silence is not good news."""
_OPEN_BUT_NONE = "there is no such incident"

CAUSES = {
    "no process": "No process on the GPUs",
    "idle notebook": "Idle notebook or process holding memory",
    "CPU-only code": "Computes on the CPU alone",
    "host work between GPU phases": "CPUs work while the GPUs wait",
    "data loading": "Waits for data",
    "small work per step": "Too little work per step",
    "memory-bound": "Bound by memory bandwidth",
    "communication or straggler": "Communication, or one GPU that lags",
    "checkpoint or evaluation pauses": "Pauses for checkpoints or evaluation",
    "hang": "Hangs",
    "throttling": "Clocks held down",
    "over-request": "Asked for more GPUs than it uses",
    "fault": "Hardware fault",
}
"""The causes that findings can name, in words."""

SEVERITY_COLORS = {"critical": BAD, "warning": "orange", "info": "blue"}
STATES = {"open": "Open", "acknowledged": "Acknowledged", "snoozed": "Snoozed"}


_KEPT = ("datasource", "alerter")
_TO_PAGE = Link("Evidence and advice", path="/incidents/{Incident}")
_TO_NODE = Link("Show this node", NODE, {"node": "Node"}, keep=_KEPT)
_TO_USER = Link("Show this user", USER, {"person": "User"}, keep=_KEPT)
# A Slurm job is its workload. One of Kubernetes is known by its owner, and its pods are told by their names alone.
_TO_JOB = Link("Show this job (Slurm)", JOB, {"workload": "Subject", "cluster": "Cluster"}, keep=_KEPT)
_TO_PODS = Link("Choose among the user's jobs or pods", JOB, {"user": "User", "cluster": "Cluster"}, keep=_KEPT)


def opened(*more: str) -> str:
    """When each incident that is not resolved was opened, by all its labels: once, however many alerters tell it."""
    return f"max by ({_LABELS}) ({selector(OPENED, FILTERS, *more)})"


def wasted(*more: str) -> str:
    """GPU-hours that each incident which is not resolved has wasted so far, by all its labels."""
    return wasted_by((_LABELS,), selector(OPENED, FILTERS, *more))


def wasted_by(labels: Iterable[str], told: str) -> str:
    """GPU-hours that the incidents told of have wasted so far. Numbers of incidents are an alerter's own: the two
    series are of the same one.
    """
    alerter = ", ".join(TARGET_LABELS)
    seconds = f"max by ({alerter}, incident) (dutycycle_incident_wasted_gpu_seconds)"
    return f"max by ({', '.join(labels)}) (0 * {told} + on ({alerter}, incident) group_left () {seconds}) / 3600"


def incidents() -> Board:
    """What is wrong now at the top; then how it came to be, and whether people were told."""
    return Board(
        uid=INCIDENTS,
        title="Dutycycle / Incidents",
        description="What is wrong now, since when and whose it is; how incidents come and go; who was notified.",
        variables=(
            variables.datasource(),
            variables.resolution(),
            *variables.filters(FILTERS),
            variables.alerter(),
        ),
        span="7d",
        sections=(
            Section("Now", _now()),
            Section("Over time (of the whole fleet, whatever the filters)", over_time()),
            Section("By rule (of the whole fleet, whatever the filters)", by_rule()),
            Section("Notifications", telling()),
        ),
    )


def _count(*more: str) -> Target:
    return Target(f"count({opened(*more)}) or {_ANSWERS}")


def _now() -> tuple[Panel, ...]:
    return (
        stat(
            "Critical",
            "Incidents that are critical and not resolved. The tables below have them; begin with the oldest.",
            _count('severity="critical"'),
            thresholds=ANY_IS_BAD,
            no_data=_NO_ALERTER,
            width=3,
        ),
        stat(
            "Faults",
            "Incidents of GPUs and nodes that are not resolved: XIDs, lost GPUs, leaked memory, throttling. They are "
            "for operators, and do not end with a job.",
            _count('kind!="job"'),
            thresholds=ANY_IS_BAD,
            no_data=_NO_ALERTER,
            width=3,
        ),
        stat(
            "Warnings",
            "Incidents that are warnings and not resolved.",
            _count('severity="warning"'),
            thresholds=(Threshold(None, GOOD), Threshold(1, FAIR)),
            no_data=_NO_ALERTER,
            width=3,
        ),
        stat(
            "Nobody's yet",
            "Open incidents, which nobody has acknowledged or snoozed.",
            _count('state="open"'),
            thresholds=(Threshold(None, GOOD), Threshold(1, FAIR)),
            no_data=_NO_ALERTER,
            width=3,
        ),
        stat(
            "Oldest",
            "How long ago the oldest incident that is not resolved was opened. Days mean that nobody looks after it: "
            "acknowledge it, or mark it as intended.",
            Target(f"time() - min({opened()})", may_be_empty=_OPEN_BUT_NONE),
            unit=SECONDS,
            thresholds=(Threshold(None, GOOD), Threshold(86400, FAIR), Threshold(604800, BAD)),
            no_data="No incident, or no alerter",
            width=3,
        ),
        stat(
            "Waste",
            "GPU-hours, measured and not busy, that the incidents of jobs which are not resolved have wasted so far.",
            Target(f"sum({wasted()}) or {_ANSWERS}"),
            unit=GPU_HOURS,
            decimals=1,
            no_data=_NO_ALERTER,
            width=3,
        ),
        stat(
            "Not shown",
            "Incidents that have no series of their own because there are more than 5,000: they are missing in what "
            "the filters count and in the tables, and are on the alerter's page. So many at once have one cause: look "
            "for it.",
            Target("max(dutycycle_incidents_not_shown)", may_be_empty="no alerter answers"),
            thresholds=ANY_IS_BAD,
            no_data=_NO_ALERTER,
            width=3,
        ),
        stat(
            "Judged",
            "How long ago everything was last judged. Past a few minutes what is shown here is old: see Operations.",
            Target("time() - max(dutycycle_alerter_last_pass_timestamp_seconds)", may_be_empty="no alerter answers"),
            unit=SECONDS,
            thresholds=(Threshold(None, GOOD), Threshold(300, FAIR), Threshold(900, BAD)),
            no_data=_NO_ALERTER,
            link=Link("Is the alerter well?", OPERATIONS, keep=_KEPT),
            width=3,
        ),
        _open_by_rule(),
        _open_over_time(),
        _faults(),
        _jobs(),
    )


def _open_by_rule() -> Panel:
    by_severity = [
        Target(f"count by (rule) ({opened(matcher)})", may_be_empty=_OPEN_BUT_NONE)
        for matcher in ('severity="critical"', 'severity="warning"', 'severity="info"')
    ]
    in_hand = opened('state!="open"')
    handled = Target(f"count by (rule) ({in_hand})", may_be_empty=_OPEN_BUT_NONE)
    return table(
        "By rule and severity",
        "Incidents that are not resolved, by rule. `In hand` are those of them that somebody acknowledged or snoozed.",
        (Target(f"count by (rule) ({opened()})", may_be_empty=_OPEN_BUT_NONE), *by_severity, handled),
        (
            Column("Rule", label="rule"),
            Column("Open", value=0),
            Column("Critical", value=1, thresholds=(Threshold(None, BAD),)),
            Column("Warning", value=2, thresholds=(Threshold(None, "orange"),)),
            Column("Information", value=3),
            Column("In hand", value=4),
        ),
        sort="Critical",
        no_data="No incident that is not resolved, or no alerter answers",
        width=12,
        height=8,
    )


def _open_over_time() -> Panel:
    return timeseries(
        "Not resolved, by severity",
        "Incidents that were not resolved, over time: since when is it bad? A step up at once has one cause, such as a "
        "file system; a slow rise means that nobody looks after them. A gap: no alerter answered.",
        *(replace(_count(f'severity="{severity}"'), legend=severity) for severity in SEVERITY_COLORS),
        stacked=True,
        colors=SEVERITY_COLORS,
        no_data="No alerter was scraped in the range",
    )


def _columns(*middle: Column) -> tuple[Column, ...]:
    return (
        Column("Incident", label="incident", width=90, link=_TO_PAGE),
        Column("Severity", label="severity", width=90, colors=SEVERITY_COLORS),
        Column("Rule", label="rule", width=150),
        Column("Age", value=0, unit=SECONDS, width=110),
        *middle,
        Column("State", label="state", width=130, texts=STATES),
        Column("Cluster", label="cluster", width=120),
    )


def _faults() -> Panel:
    faults = 'kind!="job"'
    return table(
        "Faults of GPUs and nodes",
        "Incidents of GPUs and nodes that are not resolved. Keep new work off the node first; the incident's page has "
        "the commands for that, to look at the GPU, to reset and to test it.",
        (Target(f"time() - {opened(faults)}", may_be_empty="no GPU or node is at fault"),),
        _columns(
            Column("Subject", label="subject"),
            Column("Node", label="node", link=_TO_NODE),
            Column("Cause", label="cause", texts=CAUSES),
        ),
        sort="Age",
        no_data="No fault of a GPU or node (or no alerter answers: see Judged)",
        height=7,
    )


def _jobs() -> Panel:
    job = 'kind="job"'
    return table(
        "Jobs",
        "Incidents of jobs that are not resolved. The cause is the likeliest one; the incident's page has the "
        "evidence, and advice to send to the user. Waste is GPU-hours measured and not busy since the condition began.",
        (
            Target(f"time() - {opened(job)}", may_be_empty="no job has an incident"),
            Target(wasted(job), may_be_empty="no job has an incident"),
        ),
        _columns(
            Column("Subject", label="subject", link=_TO_JOB, or_link=_TO_PODS),
            Column("User", label="user", width=140, link=_TO_USER),
            Column("Account", label="account", width=120),
            Column("Cause", label="cause", texts=CAUSES),
            Column("Waste", value=1, unit=GPU_HOURS, decimals=1, width=130),
            Column("Node", label="node", link=_TO_NODE),
        ),
        sort="Waste",
        no_data="No incident of a job (or no alerter answers: see Judged)",
        height=12,
    )
