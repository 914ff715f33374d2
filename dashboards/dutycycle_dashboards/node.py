"""Node: its GPUs and MIG instances, who holds and held them, and how they do."""

from __future__ import annotations

from dutycycle_dashboards import node_health, node_queries, variables
from dutycycle_dashboards.annotations import built_in, tagged
from dutycycle_dashboards.board import Board, Section
from dutycycle_dashboards.links import JOB, NODE, USER, Link
from dutycycle_dashboards.node_queries import RANGE, RATE, here
from dutycycle_dashboards.panels import (
    ANY_IS_BAD,
    BAD,
    BYTES,
    CELSIUS,
    FAIR,
    GOOD,
    GPUS,
    HERTZ,
    PERCENT,
    UTILIZATION,
    WATTS,
    WHEN,
    Column,
    Panel,
    Target,
    Threshold,
    stat,
    state_timeline,
    table,
    timeseries,
)
from dutycycle_dashboards.variables import Model

_UNREAD = "NVML cannot be read: see the exporter's health"
_NO_UTILIZATION = "MIG without GPM has no utilization"
_GPU = "GPU {{gpu}} {{mig}}"
_TO_JOB = Link("Show this job", JOB, {"workload": "Job"}, keep=("datasource", "alerter"))
_TO_USER = Link("Show this user", USER, {"user": "User"})
_HOT = (Threshold(None, GOOD), Threshold(80, FAIR), Threshold(88, BAD))


def node() -> Board:
    """One node."""
    return Board(
        uid=NODE,
        title="Dutycycle / Node",
        description="One node: its GPUs, who holds and held them, temperatures, errors, and its exporter.",
        variables=(
            variables.datasource(),
            variables.chosen("node", "label_values(gpu_expected, node)", description="As its exporter calls it"),
            variables.alerter(),
        ),
        annotations=(
            built_in(),
            tagged("Incidents on the node", ["node:$node"]),
        ),
        span="24h",
        sections=(
            Section("Now", (*_numbers(), _gpus())),
            Section("Over time", (_owners(), _utilization(), _memory())),
            Section("Faults", node_health.faults()),
            Section("Heat, power, clocks", (_temperature(), _power(), _clocks(), node_health.throttle())),
            Section("MIG", (_instances(),), collapsed=True),
            Section("Processes", node_health.processes(), collapsed=True),
            Section("Exporter on this node", node_health.exporter()),
        ),
    )


def _numbers() -> tuple[Panel, ...]:
    held = f"sum({here('gpu_allocation')})"
    critical = here("gpu_xid_errors_total", 'class="critical"')
    return (
        stat(
            "GPUs",
            "GPUs that NVML shows.",
            Target(f"sum({here('gpu_visible')})", may_be_empty=_UNREAD),
            unit=GPUS,
            no_data=_UNREAD,
        ),
        stat(
            "Lost GPUs",
            "GPUs that PCI shows and NVML does not: fallen off the bus, or not initialized. Any is a fault: drain the "
            "node, look at the XIDs below and at dmesg, reset or reboot.",
            Target(f"sum({here('gpu_expected')}) - sum({here('gpu_visible')})", may_be_empty=_UNREAD),
            unit=GPUS,
            thresholds=ANY_IS_BAD,
            no_data=_UNREAD,
        ),
        stat(
            "Allocated",
            "Share of its GPUs that jobs hold now. A MIG instance counts as its part of the GPU.",
            Target(f"100 * ({held} or 0 * sum({here('gpu_visible')})) / (sum({here('gpu_visible')}) > 0)", "", _UNREAD),
            unit=PERCENT,
            decimals=0,
            no_data=_UNREAD,
        ),
        stat(
            "Mean utilization",
            "Busy over measured time of all its GPUs in the range, allocated or not.",
            Target(node_queries.utilization(RANGE), may_be_empty=_NO_UTILIZATION),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data=_NO_UTILIZATION,
        ),
        stat(
            "Action",
            "What the driver asks for, of any GPU. Anything but none is a fault: keep new jobs off the node.",
            Target(f"max({here('gpu_recovery_action')})", may_be_empty="the driver does not tell it"),
            thresholds=ANY_IS_BAD,
            texts={"0": "none", "1": "reset GPU", "2": "reboot node", "3": "drain P2P", "4": "drain and reset"},
            no_data="The driver does not tell it",
        ),
        stat(
            "Critical XIDs",
            "XIDs of the critical class in the range, of all GPUs: the GPU or its node must be looked after.",
            Target(
                f"sum(increase({critical}{RANGE})) or 0 * sum({here('gpu_visible')})",
                may_be_empty=_UNREAD,
            ),
            decimals=0,
            thresholds=ANY_IS_BAD,
            no_data=_UNREAD,
        ),
    )


def _gpus() -> Panel:
    held = (
        f"sum by ({', '.join(name for name in node_queries.ROW if name != 'mig_profile')}) ({here('gpu_allocation')})"
    )
    of_rows = "on (node, gpu_uuid, mig, user, workload) group_left ()"
    used = f"100 * {here('gpu_memory_used_bytes')} / {here('gpu_memory_total_bytes')}"
    recent = node_queries.utilization("[5m]", ("node", "gpu_uuid", "mig"))
    no_mig = "a MIG instance has none of its own"
    return table(
        "GPUs",
        "Each GPU and MIG instance with each job that holds it now. Held: the job's share; free: nobody's; a GPU that "
        "is cut into instances is held through these. Utilization is of the last 5 minutes; SM active of the last "
        "sample. Held and not busy for long is waste: write to the owner.",
        (
            Target(f"0 * {node_queries.rows()} + {of_rows} {held} or 0 * {node_queries.rows()}"),
            Target(node_queries.in_rows(recent), may_be_empty=_NO_UTILIZATION),
            Target(
                node_queries.in_rows(f"100 * {here('gpu_sm_active_ratio')}"),
                may_be_empty="no GPM on these GPUs: Hopper and later",
            ),
            Target(node_queries.in_rows(used), may_be_empty=_UNREAD),
            Target(node_queries.in_rows(here("gpu_power_watts")), may_be_empty=no_mig),
            Target(
                node_queries.in_rows(f"max by (node, gpu_uuid, mig) ({here('gpu_temperature_celsius')})"),
                may_be_empty=no_mig,
            ),
            Target(
                node_queries.in_rows(f"1000 * {here('gpu_last_busy_timestamp_seconds')}"),
                may_be_empty="none was busy since the exporter started",
            ),
        ),
        (
            Column("GPU", label="gpu", width=60),
            Column("Model", label="model"),
            Column("MIG", label="mig_profile", width=100),
            Column("Instance", label="mig", width=120),
            Column("Job", label="workload", width=220, link=_TO_JOB),
            Column("User", label="user", link=_TO_USER),
            Column("Held", value=0, decimals=2, width=70, texts={"0": "free"}),
            Column(
                "Utilization", value=1, unit=PERCENT, decimals=0, gauge=True, least=0, most=100, thresholds=UTILIZATION
            ),
            Column("SM active", value=2, unit=PERCENT, decimals=0, width=90),
            Column("Memory", value=3, unit=PERCENT, decimals=0, width=90),
            Column("Power", value=4, unit=WATTS, decimals=0, width=80),
            Column("Hottest", value=5, unit=CELSIUS, decimals=0, width=80, thresholds=_HOT),
            Column("Last busy", value=6, unit=WHEN, width=170),
        ),
        sort="GPU",
        ascending=True,
        no_data=_UNREAD,
        height=10,
    )


def _owners() -> Panel:
    return state_timeline(
        "Owners",
        "Who held each GPU and MIG instance: user and job. Grey is free, purple is shared by several jobs (see the "
        "table above), nothing is not known: no exporter answered. The colour comes from the last character of the "
        "job's id, so that jobs that follow each other differ.",
        Target(node_queries.owners(), may_be_empty=_UNREAD),
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
)
"""Prometheus has no series of texts, so a table of (time, device, owner) becomes a column per device. Its times stand
series by series, and must be sorted.
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


def _utilization() -> Panel:
    return timeseries(
        "Utilization per GPU",
        "Busy over measured time of each GPU and MIG instance, whoever held it. Compare with Owners above: held and "
        "flat at 0 is waste, busy and free is a process outside any allocation.",
        Target(node_queries.utilization(RATE, ("gpu", "mig")), _GPU, may_be_empty=_NO_UTILIZATION),
        unit=PERCENT,
        most=100,
        no_data=_NO_UTILIZATION,
    )


def _memory() -> Panel:
    return timeseries(
        "Memory used",
        "Memory in use on each GPU and MIG instance. Memory in use while a GPU is free was leaked: a process that "
        "outlived its job; look at Processes.",
        Target(f"max by (gpu, mig) ({here('gpu_memory_used_bytes')})", _GPU, may_be_empty=_UNREAD),
        unit=BYTES,
        no_data=_UNREAD,
    )


def _temperature() -> Panel:
    return timeseries(
        "Temperatures",
        "Temperature by sensor. GPUs slow down from about 85 to 90 C, memory from about 95. One far over its "
        "neighbours: cooling of that slot.",
        Target(
            f"max by (gpu, sensor) ({here('gpu_temperature_celsius')})", "GPU {{gpu}} {{sensor}}", may_be_empty=_UNREAD
        ),
        unit=CELSIUS,
        least=None,
        no_data=_UNREAD,
    )


def _power() -> Panel:
    return timeseries(
        "Power",
        "Mean power of each GPU between samples, and the highest limit. At the limit the clocks fall: see Throttling.",
        Target(f"max by (gpu) ({here('gpu_power_watts')})", "GPU {{gpu}}", may_be_empty=_UNREAD),
        Target(f"max({here('gpu_power_limit_watts')})", "limit (highest)", may_be_empty="the driver tells no limit"),
        unit=WATTS,
        colors={"limit (highest)": "red"},
        no_data=_UNREAD,
    )


def _clocks() -> Panel:
    shown = here("gpu_clock_hertz", 'domain=~"sm|memory"')
    return timeseries(
        "Clocks",
        "Clocks of multiprocessors and memory. An idle GPU clocks down; low under load is throttling, or clocks that "
        "somebody locked.",
        Target(
            f"max by (gpu, domain) ({shown})",
            "GPU {{gpu}} {{domain}}",
            may_be_empty=_UNREAD,
        ),
        unit=HERTZ,
        no_data=_UNREAD,
    )


def _instances() -> Panel:
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
