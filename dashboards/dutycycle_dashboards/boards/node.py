"""Node: its GPUs and MIG instances, who holds and held them, and how they do."""

from __future__ import annotations

from dutycycle_dashboards.boards import node_health, node_owners, node_queries
from dutycycle_dashboards.boards.node_queries import NO_UTILIZATION, RANGE, RATE, UNREAD, here
from dutycycle_dashboards.building import variables
from dutycycle_dashboards.building.annotations import built_in, tagged
from dutycycle_dashboards.building.board import Board, Section
from dutycycle_dashboards.building.graphs import stat, timeseries
from dutycycle_dashboards.building.links import NODE
from dutycycle_dashboards.building.panel import ANY_IS_BAD, UTILIZATION, Panel, Target
from dutycycle_dashboards.building.units import BYTES, CELSIUS, GPUS, HERTZ, PERCENT, WATTS

_GPU = "GPU {{gpu}} {{mig}}"

_ACTIONS = {
    "0": "none",
    "1": "reset GPU",
    "2": "reboot node",
    "3": "drain P2P",
    "4": "drain and reset",
    "5": "recover IMEX",
    "6": "reset bus",
    "7": "reboot system",
}
"""What the driver may ask for, as gpu_recovery_action has it."""


def node() -> Board:
    """One node."""
    return Board(
        uid=NODE,
        title="Dutycycle / Node",
        description="One node: its GPUs, who holds and held them, temperatures, errors, and its exporter.",
        variables=(
            variables.datasource(),
            variables.chosen("node", "label_values(gpu_expected, node)", description="As its exporter calls it"),
            variables.implied(
                "instances",
                f"label_values({here('gpu_expected')}, instance)",
                description="Under what Prometheus scrapes the node's exporter",
            ),
            variables.alerter(),
        ),
        annotations=(
            built_in(),
            tagged("Incidents on the node", ["node:$node"]),
        ),
        span="24h",
        sections=(
            Section("Now", (*_numbers(), node_owners.gpus())),
            Section("Over time", (node_owners.owners(), _utilization(), _memory())),
            Section("Faults", node_health.faults()),
            Section("Heat, power, clocks", (_temperature(), _power(), _clocks(), node_health.throttle())),
            Section("MIG", (node_owners.instances(),), collapsed=True),
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
            Target(f"sum({here('gpu_visible')})", may_be_empty=UNREAD),
            unit=GPUS,
            no_data="NVML cannot be read",
        ),
        stat(
            "Lost GPUs",
            "GPUs that PCI shows and NVML does not: fallen off the bus, or not initialized. Any is a fault: drain the "
            "node, look at the XIDs below and at dmesg, reset or reboot.",
            Target(f"sum({here('gpu_expected')}) - sum({here('gpu_visible')})", may_be_empty=UNREAD),
            unit=GPUS,
            thresholds=ANY_IS_BAD,
            no_data="NVML cannot be read",
        ),
        stat(
            "Allocated",
            "Share of its GPUs that jobs hold now. A MIG instance counts as its part of the GPU.",
            Target(f"100 * ({held} or 0 * sum({here('gpu_visible')})) / (sum({here('gpu_visible')}) > 0)", "", UNREAD),
            unit=PERCENT,
            decimals=0,
            no_data="NVML cannot be read",
        ),
        stat(
            "Mean utilization",
            "Busy over measured time of all its GPUs in the range, allocated or not.",
            Target(node_queries.utilization(RANGE), may_be_empty=NO_UTILIZATION),
            unit=PERCENT,
            decimals=1,
            thresholds=UTILIZATION,
            no_data=NO_UTILIZATION,
        ),
        stat(
            "Action",
            "What the driver asks for, of any GPU. Anything but none is a fault: keep new jobs off the node.",
            Target(f"max({here('gpu_recovery_action')})", may_be_empty="the driver does not tell it"),
            thresholds=ANY_IS_BAD,
            texts=_ACTIONS,
            no_data="The driver does not report it",
        ),
        stat(
            "Critical XIDs",
            "XIDs of the critical class in the range, of all GPUs: the GPU or its node needs attention.",
            Target(
                f"sum(increase({critical}{RANGE})) or 0 * sum({here('gpu_visible')})",
                may_be_empty=UNREAD,
            ),
            decimals=0,
            thresholds=ANY_IS_BAD,
            no_data="NVML cannot be read",
        ),
    )


def _utilization() -> Panel:
    return timeseries(
        "Utilization per GPU",
        "Busy over measured time of each GPU and MIG instance, whoever held it. Compare with Owners above: held and "
        "flat at 0 is waste, busy and free is a process outside any allocation.",
        Target(node_queries.utilization(RATE, ("gpu", "mig")), _GPU, may_be_empty=NO_UTILIZATION),
        unit=PERCENT,
        most=100,
        no_data=NO_UTILIZATION,
    )


def _memory() -> Panel:
    return timeseries(
        "Memory used",
        "Memory in use on each GPU and MIG instance. Memory in use while a GPU is free was leaked: a process that "
        "outlived its job; look at Processes.",
        Target(f"max by (gpu, mig) ({here('gpu_memory_used_bytes')})", _GPU, may_be_empty=UNREAD),
        unit=BYTES,
        no_data=UNREAD,
    )


def _temperature() -> Panel:
    return timeseries(
        "Temperatures",
        "Temperature by sensor. GPUs slow down from about 85 to 90 C, memory from about 95. One far over its "
        "neighbours: cooling of that slot.",
        Target(
            f"max by (gpu, sensor) ({here('gpu_temperature_celsius')})", "GPU {{gpu}} {{sensor}}", may_be_empty=UNREAD
        ),
        unit=CELSIUS,
        least=None,
        no_data=UNREAD,
    )


def _power() -> Panel:
    return timeseries(
        "Power",
        "Mean power of each GPU between samples, and the highest limit. At the limit the clocks fall: see Throttling.",
        Target(f"max by (gpu) ({here('gpu_power_watts')})", "GPU {{gpu}}", may_be_empty=UNREAD),
        Target(f"max({here('gpu_power_limit_watts')})", "limit (highest)", may_be_empty="the driver tells no limit"),
        unit=WATTS,
        colors={"limit (highest)": "red"},
        no_data=UNREAD,
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
            may_be_empty=UNREAD,
        ),
        unit=HERTZ,
        no_data=UNREAD,
    )
