"""Tables that more than one dashboard shows: idle GPUs, open incidents, jobs."""

from __future__ import annotations

from collections.abc import Iterable

from dutycycle_dashboards.boards import incidents, owned
from dutycycle_dashboards.boards.incidents import CAUSES, SEVERITY_COLORS, STATES
from dutycycle_dashboards.building.links import JOB, NODE, USER, Link
from dutycycle_dashboards.building.panel import UTILIZATION, Panel, Target, Threshold
from dutycycle_dashboards.building.promql import FILTERS, allocations, selector
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, GPU_HOURS, PERCENT, SECONDS

OF_INCIDENTS = incidents.FILTERS

NOTHING = "No recorded usage in the range"
NO_USAGE = "No recorded usage in the range: are the recording rules loaded, and do the filters leave anybody?"
NO_SAMPLES = "Nothing was measured in the range: widen it, or look whether the exporters are scraped"

TO_USER = Link(
    "Show this user",
    USER,
    {"person": "User"},
    keep=("datasource", *(name for name in FILTERS if name != "user"), "alerter"),
)
# Each cluster has a job 4711: the rows of a table with such a link say which.
TO_JOB = Link("Show this job", JOB, {"workload": "Job", "cluster": "Cluster"}, keep=("datasource", "alerter"))
TO_NODE = Link("Show this node", NODE, {"node": "Node"}, keep=("datasource", "alerter"))
TO_INCIDENT = Link("Open in the alerter's page", path="/incidents/{Incident}")


def mean_column(value: int, width: int) -> Column:
    """Mean utilization, the value of the target at `value`."""
    return Column(
        "Mean",
        value=value,
        unit=PERCENT,
        decimals=1,
        width=width,
        gauge=True,
        least=0,
        most=100,
        thresholds=UTILIZATION,
    )


_INCIDENT = ("incident", "rule", "severity", "state", "cause", "cluster", "user", "subject", "node")


def incidents_opened(filters: Iterable[str] = OF_INCIDENTS, *more: str) -> str:
    """When the incidents that are not resolved were opened, each once however many alerters tell of it."""
    opened = selector("dutycycle_incident_opened_timestamp_seconds", filters, *more)
    return f"max by ({', '.join(_INCIDENT)}) ({opened})"


def incidents_count(filters: Iterable[str] = OF_INCIDENTS, *more: str) -> str:
    """How many incidents are not resolved; absent where no alerter answers."""
    return f"count({incidents_opened(filters, *more)}) or 0 * max(dutycycle_alerter_store_up == 1)"


def open_incidents(filters: Iterable[str] = OF_INCIDENTS, *more: str, user: bool = True, height: int = 9) -> Panel:
    """The incidents that are not resolved, what each wasted so far, and where to read on."""
    filters = tuple(filters)
    opened = incidents_opened(filters, *more)
    return table(
        "Open incidents",
        "What the alerter found and nobody has resolved, whatever the time range: since when, the likely cause, and "
        "what it wasted so far (GPU-hours measured and not busy; empty for incidents of GPUs and nodes). Evidence and "
        "the whole advice are behind the number. The filter GPU model does not apply.",
        (
            Target(f"time() - {opened}", may_be_empty="no incident is open"),
            Target(
                incidents.wasted_by(_INCIDENT, selector(incidents.OPENED, filters, *more)),
                may_be_empty="no incident of a job is open",
            ),
        ),
        (
            Column("Incident", label="incident", width=90, link=TO_INCIDENT),
            Column("Severity", label="severity", width=90, colors=SEVERITY_COLORS),
            Column("Rule", label="rule", width=160),
            Column("Cause", label="cause", width=250, texts=CAUSES),
            Column("Subject", label="subject"),
            Column("Node", label="node", width=130, link=TO_NODE),
            *((Column("User", label="user", width=120, link=TO_USER),) if user else ()),
            Column("State", label="state", width=130, texts=STATES),
            Column("Waste", value=1, unit=GPU_HOURS, decimals=1, width=120),
            Column("Age", value=0, unit=SECONDS, width=110),
        ),
        sort="Waste",
        no_data="No incident is open (or no alerter answers: see Operations)",
        height=height,
    )


def idle_gpus(filters: Iterable[str] = FILTERS, *more: str, user: bool = True, width: int = 24) -> Panel:
    """Allocated GPUs without work, the longest idle first."""
    filters = tuple(filters)
    idle = f"topk(100, {owned.idle_for(filters, *more)})"
    return table(
        "Idle GPUs now",
        "Allocated GPUs of which no sample has been over 5 % for 10 minutes and more while their job held them, now: "
        "whose, in which job, and since when there was no busy sample. The 100 longest. GPUs that were measured for "
        "less than 8 of the last 10 minutes are left out: they may be busy. What was not measured before that counts "
        "into the time.",
        (Target(idle, may_be_empty="no allocated GPU is idle"),),
        (
            Column("Node", label="node", link=TO_NODE),
            Column("GPU", label="gpu", width=70),
            Column("MIG", label="mig", width=90),
            *((Column("User", label="user", link=TO_USER),) if user else ()),
            Column("Job", label="workload", link=TO_JOB),
            Column("Cluster", label="cluster", width=100),
            Column("Idle for", value=0, unit=SECONDS, width=130, thresholds=_IDLE),
        ),
        sort="Idle for",
        no_data="No allocated GPU is idle",
        width=width,
        height=9,
    )


_IDLE = (Threshold(None, "yellow"), Threshold(3600, "orange"), Threshold(4 * 3600, BAD))


def gpus_now(by: Iterable[str], filters: Iterable[str] = FILTERS, *more: str) -> str:
    """GPUs held now, shared and MIG ones in part, by these labels."""
    return f"sum by ({', '.join(by)}) ({allocations(filters, *more)})"
