"""The table of everything that is broken in Dutycycle itself: what, where, since when."""

from __future__ import annotations

from dutycycle_dashboards.building.links import NODE, Link
from dutycycle_dashboards.building.panel import Panel, Target, Threshold
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, FAIR, SECONDS

LATE = 600
"""Seconds after which a pass is late; one comes each minute unless configured otherwise."""
_UNKNOWN = "-1"

FAULTS = {
    "alerter": "No alerter answers",
    "collector": "Collector fails",
    "leader": "No alerter leads",
    "pass": "No pass",
    "receiver": "Receiver takes nothing",
    "reload": "Configuration not read",
    "silent": "Node is silent",
    "source": "Source does not answer",
    "store": "Store does not answer",
}
"""What can be broken, in words."""


def silent_nodes() -> str:
    """Nodes that an exporter told of in the range and that none tells of now, with seconds since they were last heard
    (to 5 minutes).
    """
    heard = "max by (cluster, node) (max_over_time(timestamp(gpu_expected)[$__range:5m]))"
    return f"time() - ({heard} unless max by (cluster, node) (gpu_expected))"


def broken() -> Panel:
    """One row per fault; none where all is well."""
    return table(
        "Broken now",
        "Everything of Dutycycle that is broken now: what, where, and for how long. Begin with what is broken "
        "longest; a silent node or a late pass explains what is below it. Empty is good, as long as Nodes answering "
        "and Last pass above have numbers.",
        (Target(" or ".join(_faults()), may_be_empty="nothing is broken"),),
        (
            Column("What", label="fault", width=220, texts=FAULTS),
            Column(
                "Node",
                label="node",
                width=220,
                link=Link("Show this node", NODE, {"node": "Node"}, keep=("datasource", "alerter")),
            ),
            Column("Cluster", label="cluster", width=100),
            Column("Where", label="where"),
            Column(
                "For",
                value=0,
                unit=SECONDS,
                width=160,
                thresholds=(Threshold(None, FAIR), Threshold(900, BAD)),
                texts={_UNKNOWN: "not known"},
            ),
        ),
        sort="For",
        no_data="Nothing is broken",
        height=8,
    )


def _faults() -> tuple[str, ...]:
    fails = "dutycycle_exporter_collector_success == 0"
    aged = f"dutycycle_exporter_collector_age_seconds and ({fails})"
    # One that never succeeded has no age: it fails since the exporter started.
    never = (
        f"0 * (({fails}) unless dutycycle_exporter_collector_age_seconds) + on (instance) group_left () "
        "(time() - max by (instance) (dutycycle_exporter_start_timestamp_seconds))"
    )
    unread = (
        "time() - (dutycycle_exporter_config_last_reload_success_timestamp_seconds "
        "and dutycycle_exporter_config_last_reload_successful == 0)"
    )
    source = (
        "time() - max by (source) (dutycycle_alerter_source_last_success_timestamp_seconds)"
        " and max by (source) (dutycycle_alerter_source_up) == 0"
        f" or {_UNKNOWN} + 0 * (max by (source) (dutycycle_alerter_source_up) == 0)"
    )
    return (
        _as("silent", silent_nodes()),
        _as("collector", _of_node(f"max by (instance, collector) ({aged} or {never})"), "collector"),
        _as("reload", _of_node(f"max by (instance) ({unread})"), "instance"),
        _as("alerter", f"{_UNKNOWN} * absent(dutycycle_alerter_build_info)"),
        _as("leader", f"{_UNKNOWN} + 0 * (sum(dutycycle_alerter_leader) == 0)"),
        _as("pass", f"time() - max(dutycycle_alerter_last_pass_timestamp_seconds) > {LATE}"),
        _as("store", f"{_UNKNOWN} + 0 * (max by (instance) (dutycycle_alerter_store_up) == 0)", "instance"),
        _as("source", source, "source"),
        _as("receiver", "max by (receiver) (dutycycle_receiver_failing_seconds) > 0", "receiver"),
    )


def _as(fault: str, expr: str, where: str = "") -> str:
    """Series by `fault`, `cluster` and `node`, and `where` alone, so that those of different faults fit into one
    table.
    """
    named = f'label_replace({expr}, "fault", "{fault}", "", "")'
    if where:
        named = f'label_replace({named}, "where", "$1", "{where}", "(.*)")'
    return f"max by (fault, cluster, node, where) ({named})"


def _of_node(expr: str) -> str:
    """Series of an exporter, which know only its address, with the node that it is on; else with the address for it."""
    nodes = "group by (instance, cluster, node) (gpu_expected)"
    # Where several nodes have one address, it is not known which of them it is.
    nodes = f"({nodes} and on (instance) count by (instance) ({nodes}) == 1)"
    known = f"({expr}) * on (instance) group_left (cluster, node) {nodes}"
    return f'({known} or label_replace(({expr}) unless on (instance) {nodes}, "node", "$1", "instance", "(.*)"))'
