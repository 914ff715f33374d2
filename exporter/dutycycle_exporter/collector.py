"""The exporter's state as a page of metrics: one scrape reads one state and writes all families of `contract`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from dutycycle_exporter import device_series
from dutycycle_exporter.compat import dcgm
from dutycycle_exporter.contract import (
    DEVICE,
    FAMILIES,
    GAP_LENGTHS,
    NODE,
    OWNERSHIP,
    RESTART_REASONS,
    UTILIZATION_BUCKETS,
    WORKLOAD,
)
from dutycycle_exporter.exposition import Page, extended, heads, labels
from dutycycle_exporter.model import HostReading, Ownership
from dutycycle_exporter.service import Service, State
from dutycycle_exporter.views import OwnedView, View, XidView
from dutycycle_exporter.xid import xid_class

_HEADS = heads(FAMILIES.values())
_BOUNDS = tuple(map(str, UTILIZATION_BUCKETS))


def _version() -> str:
    try:
        return version("dutycycle")
    except PackageNotFoundError:
        return "unknown"


_BUILD = labels(("version",), (_version(),))


@dataclass(frozen=True, slots=True)
class Operation:
    """How the daemon around the measuring fares: scrapes that it had to reject, and the last reading of its
    configuration, `reloaded_at` (Unix seconds) being that of the last one without an error.
    """

    rejected: int = 0
    reload_successful: bool = True
    reloaded_at: float | None = None


class ExporterCollector:
    """Writes pages. `processes` are shown one by one, and everything under dcgm-exporter's names too, where that was
    asked for; `operation` tells of the daemon.
    """

    def __init__(
        self,
        service: Service,
        *,
        node: str,
        cluster: str,
        time_scale: float,
        replay: bool,
        processes: bool = False,
        like_dcgm: bool = False,
        operation: Callable[[], Operation] = Operation,
    ) -> None:
        self._service = service
        self._operation = operation
        self._node = node
        self._in_node = labels(NODE, (node,))
        self._time_scale = time_scale
        self._replay = replay
        self.cluster = cluster
        self.processes = processes
        self.like_dcgm = like_dcgm

    def text(self) -> str:
        """What a scrape shows now, in the text format."""
        return self.page(self._service.state()).text()

    def page(self, state: State) -> Page:
        """Families that have a series in a state, in the order of the contract."""
        # A reload may change it meanwhile.
        like_dcgm = self.like_dcgm
        page = Page({**_HEADS, **dcgm.HEADS} if like_dcgm else _HEADS)
        self._exporter(page, state)
        page.add("gpu_expected", self._in_node, state.expected)
        if state.view is not None:
            if not state.stale:
                self._devices(page, state.view)
            self._xids(page, state.view)
            for owned in state.view.owned:
                self._owned(page, owned, stale=state.stale)
            self._workloads(page, state.view.ownership)
            if like_dcgm:
                dcgm.add(page, state.view, node=self._node, stale=state.stale)
        return page

    def _exporter(self, page: Page, state: State) -> None:
        page.add("dutycycle_exporter_build_info", _BUILD, 1)
        page.add("dutycycle_exporter_start_timestamp_seconds", "", state.started)
        page.add("dutycycle_exporter_time_scale", "", self._time_scale)
        page.add("dutycycle_exporter_replay", "", self._replay)
        operation = self._operation()
        page.add("dutycycle_exporter_scrapes_rejected_total", "", operation.rejected)
        page.add("dutycycle_exporter_config_last_reload_successful", "", operation.reload_successful)
        page.add("dutycycle_exporter_config_last_reload_success_timestamp_seconds", "", operation.reloaded_at)
        for name, run in state.collectors.items():
            block = labels(("collector",), (name,))
            page.add("dutycycle_exporter_collector_success", block, run.success)
            page.add("dutycycle_exporter_collector_duration_seconds", block, run.duration)
            if run.last_success is not None:
                page.add("dutycycle_exporter_collector_age_seconds", block, max(0.0, state.elapsed - run.last_success))
        restarts = {**dict.fromkeys(RESTART_REASONS, 0), **state.restarts}
        page.add_each("dutycycle_exporter_child_restarts_total", "", "reason", restarts.items())
        for key, count in state.read_failures.items():
            page.add("dutycycle_exporter_read_failures_total", labels(("call", "error"), key), count)
        page.add_each("dutycycle_exporter_samples_dropped_total", "", "reason", state.dropped.items())
        page.add_each("dutycycle_exporter_values_clamped_total", "", "unit", state.clamped.items())
        for key, count in state.attribution_failures.items():
            page.add("dutycycle_exporter_attribution_failures_total", labels(("source", "reason"), key), count)

    def _devices(self, page: Page, view: View) -> None:
        snapshot = view.snapshot
        if not view.ownership.settling:
            # Who sees it and no allocation takes the GPUs for free.
            page.add("gpu_visible", self._in_node, snapshot.visible)
        versions = (snapshot.driver_version, snapshot.cuda_version, snapshot.nvml_version)
        if any(versions):
            names = ("driver_version", "cuda_version", "nvml_version")
            page.add("gpu_driver_info", extended(self._in_node, *zip(names, versions, strict=True)), 1)
        for device in view.devices:
            block = self._device_labels(device.reading.index, device.reading.uuid, device.reading.mig)
            device_series.add(page, block, device)
            if self.processes:
                device_series.add_processes(page, block, device.reading, view.ownership)

    def _xids(self, page: Page, view: View) -> None:
        for xid in view.xids:
            self._xid(page, xid, view.indexes)

    def _xid(self, page: Page, xid: XidView, indexes: Mapping[str, int]) -> None:
        # A GPU that fell off the bus keeps the index that it had: this is how one learns why it did.
        block = self._device_labels(indexes.get(xid.gpu_uuid, ""), xid.gpu_uuid, "")
        block = extended(block, ("xid", str(xid.code)), ("class", xid_class(xid.code)))
        page.add("gpu_xid_errors_total", block, xid.count)
        page.add("gpu_xid_last_timestamp_seconds", block, xid.last)

    def _device_labels(self, index: int | str, uuid: str, mig: str) -> str:
        return labels(DEVICE, (self._node, str(index), uuid, mig))

    def _owned(self, page: Page, owned: OwnedView, *, stale: bool) -> None:
        work = owned.workload
        values = (
            self._node,
            "" if owned.index is None else str(owned.index),
            owned.gpu_uuid,
            owned.mig,
            self.cluster,
            work.scheduler,
            work.id,
            work.namespace,
            work.pod,
            work.job_id,
            work.user,
            work.account,
            work.partition,
            owned.model,
        )
        block = labels(OWNERSHIP, values)
        page.add("gpu_allocation", block, owned.share)
        page.add("gpu_allocation_start_timestamp_seconds", block, owned.start)
        page.add("workload_first_process_timestamp_seconds", block, owned.first_process)
        page.add("workload_gpu_allocated_seconds_total", block, owned.allocated)
        page.add("workload_gpu_observed_seconds_total", block, owned.observed)
        page.add("workload_gpu_busy_seconds_total", block, owned.busy)
        page.add_each("workload_gpu_active_seconds_total", block, "unit", owned.active)
        gaps = zip(GAP_LENGTHS, owned.gaps, strict=True)
        page.add_each("workload_gpu_idle_gap_seconds_total", block, "length", gaps)
        page.add_histogram(
            "workload_gpu_utilization_samples", block, _BOUNDS, owned.buckets, owned.weighted_utilization
        )
        page.add("workload_gpu_energy_joules_total", block, owned.energy)
        page.add_each("workload_gpu_throttle_seconds_total", block, "reason", owned.throttle)
        if not stale:
            page.add("workload_gpu_memory_used_bytes", block, owned.memory)
            page.add("workload_gpu_processes", block, owned.processes)

    def _workloads(self, page: Page, ownership: Ownership) -> None:
        for host in ownership.hosts:
            self._host(page, host)
        for workload, scheduler, name, value in _pod_labels(ownership):
            block = labels(WORKLOAD, (self._node, self.cluster, scheduler, workload))
            page.add("workload_label", extended(block, ("label", name), ("value", value)), 1)

    def _host(self, page: Page, host: HostReading) -> None:
        block = labels(WORKLOAD, (self._node, self.cluster, host.workload.scheduler, host.workload.id))
        page.add("workload_cpu_seconds_total", block, host.cpu_seconds)
        page.add("workload_cpu_limit_cores", block, host.cpu_limit)
        pressures = (("cpu", host.cpu_pressure), ("io", host.io_pressure), ("memory", host.memory_pressure))
        page.add_each("workload_pressure_seconds_total", block, "resource", pressures)


def _pod_labels(ownership: Ownership) -> list[tuple[str, str, str, str]]:
    """Each allocated workload's labels, once: (workload, scheduler, label, value)."""
    schedulers = {allocation.workload.id: allocation.workload.scheduler for allocation in ownership.allocations}
    return [
        (workload, schedulers[workload], name, value)
        for workload, found in ownership.labels.items()
        if workload in schedulers
        for name, value in found
    ]
