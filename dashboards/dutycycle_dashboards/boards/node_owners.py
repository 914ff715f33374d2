"""The Node board's panels on its GPUs and MIG instances, and on who holds and held them."""

from __future__ import annotations

from dutycycle_dashboards.boards import node_queries
from dutycycle_dashboards.boards.node_queries import NO_UTILIZATION, UNREAD, here
from dutycycle_dashboards.building.graphs import state_timeline
from dutycycle_dashboards.building.links import JOB, USER, Link
from dutycycle_dashboards.building.panel import UTILIZATION, Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, BYTES, CELSIUS, FAIR, GOOD, PERCENT, WATTS, WHEN
from dutycycle_dashboards.building.variables import Model

_TO_JOB = Link("Show this job", JOB, {"workload": "Job", "cluster": "Cluster"}, keep=("datasource", "alerter"))
_TO_USER = Link("Show this user", USER, {"person": "User"})
_HOT = (Threshold(None, GOOD), Threshold(80, FAIR), Threshold(88, BAD))


def gpus() -> Panel:
    """One row per GPU or MIG instance and who holds it."""
    by = ", ".join(name for name in node_queries.ROW if name != "mig_profile")
    held = f"sum by ({by}) ({node_queries.allocations()})"
    of_rows = "on (node, gpu_uuid, mig, user, workload) group_left ()"
    free = f"{node_queries.rows()} and on (node, gpu_uuid, mig) {node_queries.free()}"
    used = f"100 * {here('gpu_memory_used_bytes')} / {here('gpu_memory_total_bytes')}"
    recent = node_queries.utilization("[5m]", ("node", "gpu_uuid", "mig"))
    no_mig = "a MIG instance has none of its own"
    return table(
        "GPUs",
        "Each GPU and MIG instance with each job that holds it now. Held: the job's share; free: nobody's; -: not yet "
        "known, as the exporter has just started, or a GPU that is cut into instances and held through these. "
        "Utilization is of the last 5 minutes; SM active of the last sample. Held and not busy for long is waste: "
        "write to the owner.",
        (
            Target(node_queries.placed(node_queries.rows())),
            Target(node_queries.placed(f"0 * {node_queries.rows()} + {of_rows} {held} or 0 * {free}")),
            Target(node_queries.in_rows(recent), may_be_empty=NO_UTILIZATION),
            Target(
                node_queries.in_rows(f"100 * {here('gpu_sm_active_ratio')}"),
                may_be_empty="no GPM on these GPUs: Hopper and later",
            ),
            Target(node_queries.in_rows(used), may_be_empty=UNREAD),
            Target(node_queries.in_rows(here("gpu_power_watts")), may_be_empty=no_mig),
            Target(node_queries.in_rows(here("gpu_temperature_celsius")), may_be_empty=no_mig),
            Target(
                node_queries.in_rows(f"1000 * {here('gpu_last_busy_timestamp_seconds')}"),
                may_be_empty="none was busy since the exporter started",
            ),
        ),
        (
            Column("GPU", label="gpu", width=60),
            Column("Model", label="model", width=200),
            Column("MIG", label="mig_profile", width=100),
            Column("Instance", label="mig", width=120, texts={"whole": "-"}),
            Column("Job", label="workload", link=_TO_JOB),
            Column("User", label="user", link=_TO_USER),
            Column("Cluster", label="cluster", width=100),
            Column("Held", value=1, decimals=2, width=70, texts={"0": "free"}),
            Column(
                "Utilization", value=2, unit=PERCENT, decimals=0, gauge=True, least=0, most=100, thresholds=UTILIZATION
            ),
            Column("SM active", value=3, unit=PERCENT, decimals=0, width=110),
            Column("Memory", value=4, unit=PERCENT, decimals=0, width=100),
            Column("Power", value=5, unit=WATTS, decimals=0, width=85),
            Column("Hottest", value=6, unit=CELSIUS, decimals=0, width=95, thresholds=_HOT),
            Column("Last busy", value=7, unit=WHEN, width=170),
        ),
        sort="GPU",
        ascending=True,
        no_data=UNREAD,
        height=10,
    )


def owners() -> Panel:
    """One row per GPU or MIG instance, coloured by job."""
    return state_timeline(
        "Owners",
        "Who held each GPU and MIG instance: user and job. Grey is free, purple is shared by several jobs (see the "
        "table above), nothing is not known: no exporter answered, or it had just started. The colour comes from the "
        "last character of the job's id, so that jobs that follow each other differ.",
        Target(node_queries.owners(), may_be_empty=UNREAD),
        form="table",
        transformations=_MATRIX,
        mappings=_owner_colors(),
        max_points=500,
        no_data="Not known: no exporter answered, or NVML cannot be read",
        height=9,
    )


_MATRIX: tuple[Model, ...] = (
    {
        "id": "groupingToMatrix",
        "options": {"columnField": "device", "rowField": "Time", "valueField": "owner", "emptyValue": "null"},
    },
    {
        "id": "convertFieldType",
        "options": {"fields": {}, "conversions": [{"targetField": "Time\\device", "destinationType": "time"}]},
    },
    {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": "Time\\device", "desc": False}]}},
    {
        "id": "organize",
        "options": {"excludeByName": {node_queries.STEPS: True}, "indexByName": {}, "renameByName": {}},
    },
)
"""Prometheus has no series of texts, so a table of (time, device, owner) becomes a column per device. Its times stand
series by series, and must be sorted. They have no interval by which Grafana would see that some are missing, and would
end what was before: so there is a column that has them all, which is left out at last.
"""
_PALETTE = (
    "green",
    "blue",
    "orange",
    "yellow",
    "light-purple",
    "dark-green",
    "dark-blue",
    "dark-orange",
    "dark-yellow",
    "super-light-blue",
    "light-green",
    "light-blue",
    "light-orange",
    "super-light-green",
    "semi-dark-green",
    "semi-dark-blue",
)


def _owner_colors() -> tuple[Model, ...]:
    """Texts have no colours of their own in Grafana, only those of mappings. Ids end in a hexadecimal digit."""
    fixed = (("^(free)$", "#6e6e6e"), ("^(.* jobs)$", "purple"))
    digits = ((f"^(.*{digit})$", color) for digit, color in zip("0123456789abcdef", _PALETTE, strict=True))
    return tuple(
        {"type": "regex", "options": {"pattern": pattern, "result": {"index": index, "text": "$1", "color": color}}}
        for index, (pattern, color) in enumerate((*fixed, *digits))
    )


def instances() -> Panel:
    """MIG instances alone."""
    parts = 'mig!=""'
    by = "(gpu, gpu_uuid, mig, mig_profile, model)"
    info = f"group by {by} ({here('gpu_info', parts)})"
    on = "on (gpu_uuid, mig) group_left ()"
    none = "no MIG instances on this node"
    no_gpm = f"{none}, or no GPM: Hopper and later"
    return table(
        "MIG instances",
        "Instances with their profiles, the share of the GPU that is held, and what of their units works. Without GPM "
        "(before Hopper) an instance has no utilization: its memory is all that is known.",
        (
            Target(info, may_be_empty=none),
            Target(f"0 * {info} + {on} sum by (gpu_uuid, mig) ({here('gpu_allocation', parts)})", may_be_empty=none),
            Target(
                f"0 * {info} + {on} 100 * max by (gpu_uuid, mig) ({here('gpu_sm_active_ratio', parts)})", "", no_gpm
            ),
            Target(f"0 * {info} + {on} max by (gpu_uuid, mig) ({here('gpu_memory_used_bytes', parts)})", "", none),
            Target(f"0 * {info} + {on} max by (gpu_uuid, mig) ({here('gpu_memory_total_bytes', parts)})", "", none),
        ),
        (
            Column("GPU", label="gpu", width=60),
            Column("Profile", label="mig_profile", width=120),
            Column("Instance", label="mig"),
            Column("Model", label="model"),
            Column("Held share of the GPU", value=1, decimals=2),
            Column("SM active", value=2, unit=PERCENT, decimals=0),
            Column("Memory used", value=3, unit=BYTES),
            Column("Memory", value=4, unit=BYTES),
        ),
        sort="GPU",
        ascending=True,
        no_data="No MIG instances on this node",
        height=8,
    )
