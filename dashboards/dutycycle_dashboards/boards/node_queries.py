"""PromQL about one node: its GPUs, whose they are and were, and the exporter that runs on it."""

from __future__ import annotations

from dutycycle_dashboards.building import promql

RATE = "[$__rate_interval]"
RANGE = "[$__range]"
ROW = ("node", "gpu", "gpu_uuid", "mig", "mig_profile", "model", "cluster", "workload", "user")
"""A row of the table of GPUs: a GPU or MIG instance and one that holds it, or nobody."""

UNREAD = "NVML cannot be read: see the exporter's health"
NO_UTILIZATION = "MIG without GPM has no utilization"
STEPS = "every step"
"""A device and owner of `owners()` that is none: it is there at every step, also where nobody answered."""

_ON = "on (node, gpu_uuid, mig)"


def here(metric: str, *more: str) -> str:
    """A series of this node."""
    return promql.selector(metric, (), 'node="$node"', *more)


def allocations() -> str:
    """Who holds which GPU of this node."""
    return promql.allocations((), 'node="$node"')


def of_exporter(metric: str, window: str = "") -> str:
    """A metric of the exporter on this node (`window`: what it grew by in it), which has no label of the node's: told
    by what Prometheus adds to all that it scrapes. Its instance is known beforehand: else all exporters would be read.
    """
    series = promql.selector(metric, (), 'instance=~"$instances"')
    grown = f"increase({series}{window})" if window else series
    scraped = f"{here('gpu_expected')} or {here('gpu_visible')}"
    return f"{grown} and on ({', '.join(promql.TARGET_LABELS)}) ({scraped})"


def utilization(window: str, by: tuple[str, ...] = ()) -> str:
    """Mean utilization in percent: busy over measured time."""
    group = f"sum by ({', '.join(by)})" if by else "sum"
    busy = f"{group} (rate({here('gpu_busy_seconds_total')}{window}))"
    return f"100 * {busy} / ({group} (rate({here('gpu_observed_seconds_total')}{window})) > 0)"


def assignable() -> str:
    """GPUs and MIG instances that a job can hold: a GPU that is cut into instances cannot be."""
    instances = here("gpu_info", 'mig!=""')
    whole = here("gpu_info", 'mig=""', 'mig_mode!="enabled"')
    held = here("gpu_allocation", 'mig!=""')
    return f"({instances} or {whole} unless on (gpu_uuid) {held})"


def free() -> str:
    """GPUs and instances that nobody holds. Just after an exporter's start there may be holders of whom it does not
    know yet: it shows GPUs then, and no `gpu_visible`.
    """
    return f"({assignable()} unless {_ON} {here('gpu_allocation')} and on (node) {here('gpu_visible')})"


def rows() -> str:
    """1 for each of `ROW`: every GPU and instance with each that holds it, or with nobody who is known to; also GPUs
    that are cut.
    """
    info = f"group by (node, gpu_uuid, mig, mig_profile) ({here('gpu_info')})"
    unowned = f"({here('gpu_info')} unless {_ON} {here('gpu_allocation')})"
    group = f"group by ({', '.join(name for name in ROW if name != 'mig_profile')})"
    return f"({group} ({allocations()} or {unowned}) * {_ON} group_left (mig_profile) {info})"


def in_rows(value: str) -> str:
    """A device series on every row of its device."""
    return placed(f"0 * {rows()} + {_ON} group_left () max by (node, gpu_uuid, mig) ({value})")


def placed(expr: str) -> str:
    """Rows that a table can merge: a GPU says that it is `whole`. Where all of a query's rows had an empty label, its
    answer would have no such column, and Grafana would put a GPU's power on its instances' rows.
    """
    return f'label_replace({expr}, "mig", "whole", "mig", "")'


def devices(expr: str) -> str:
    """GPUs (series with gpu and mig) with a label `device` that people can read: its index, and for a MIG instance the
    beginning of its UUID.
    """
    whole = f'label_replace({expr}, "whole", "GPU $1", "gpu", "(.*)")'
    slices = f'label_replace({whole}, "slice", " MIG $1", "mig", "MIG-(.{{1,8}}).*")'
    return f'label_join({slices}, "device", "", "whole", "slice")'


def owners() -> str:
    """Who holds each GPU and instance: one series per device and `owner`, which is a user and a job, or how many jobs
    share it, or `free`. Where nothing was scraped there is none: not known is not free. Of a node that was there in
    the range `STEPS` is told, too.
    """
    held, by = allocations(), "(gpu, gpu_uuid, mig)"
    shared = f"(count by {by} ({held}) > 1)"
    alone = f"group by (gpu, gpu_uuid, mig, user, workload) ({held}) unless on {by} {shared}"
    one = f'label_join({alone}, "owner", " ", "user", "workload")'
    several = f'label_replace(count_values by {by} ("owner", {shared}), "owner", "$1 jobs", "owner", "(.+)")'
    nobody = f'label_replace(group by {by} {free()}, "owner", "free", "", "")'
    steps = f"vector(1) and on () last_over_time({here('gpu_info')}{RANGE} @ end())"
    for label in ("device", "owner"):
        steps = f'label_replace({steps}, "{label}", "{STEPS}", "", "")'
    return f"group by (device, owner) ({devices(f'({one} or {several} or {nobody})')} or {steps})"
