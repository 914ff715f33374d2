"""The exporter's state as metric families, built from the table in `contract`. No registry but the one that it is
given.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dutycycle_exporter.contract import FAMILIES, GAP_LENGTHS, UTILIZATION_BUCKETS, Family
from dutycycle_exporter.model import HostReading
from dutycycle_exporter.service import Service, State
from dutycycle_exporter.views import DeviceView, OwnedView


class ExporterCollector(Collector):
    """One scrape is one `collect`: it reads one state and builds every family from it."""

    def __init__(self, service: Service, *, node: str, cluster: str, time_scale: float, replay: bool) -> None:
        self._service = service
        self._node = node
        self._cluster = cluster
        self._time_scale = time_scale
        self._replay = replay

    def describe(self) -> Iterator[Metric]:
        """Every family, empty: lets the registry find duplicate names without touching hardware."""
        return (_empty(family) for family in FAMILIES.values())

    def collect(self) -> Iterator[Metric]:
        """Families that have a series now, in the order of the contract."""
        state = self._service.state()
        page = _Page()
        self._exporter(page, state)
        if state.expected is not None:
            page.add("gpu_expected", (self._node,), state.expected)
        if state.view is not None:
            if not state.stale:
                self._node_wide(page, state)
                for device in state.view.devices:
                    self._device(page, device)
            for owned in state.view.owned:
                self._owned(page, owned, stale=state.stale)
            for host in state.view.ownership.hosts:
                self._host(page, host)
        return page.families()

    def _exporter(self, page: _Page, state: State) -> None:
        page.add("dutycycle_exporter_build_info", (_version(),), 1)
        page.add("dutycycle_exporter_start_timestamp_seconds", (), state.started)
        page.add("dutycycle_exporter_time_scale", (), self._time_scale)
        page.add("dutycycle_exporter_replay", (), self._replay)
        for name, run in state.collectors.items():
            page.add("dutycycle_exporter_collector_success", (name,), run.success)
            page.add("dutycycle_exporter_collector_duration_seconds", (name,), run.duration)
            if run.last_success is not None:
                page.add("dutycycle_exporter_collector_age_seconds", (name,), max(0.0, state.now - run.last_success))
        for reason, count in state.restarts.items():
            page.add("dutycycle_exporter_child_restarts_total", (reason,), count)
        for key, count in state.read_failures.items():
            page.add("dutycycle_exporter_read_failures_total", key, count)
        for reason, count in state.dropped.items():
            page.add("dutycycle_exporter_samples_dropped_total", (reason,), count)
        for key, count in state.attribution_failures.items():
            page.add("dutycycle_exporter_attribution_failures_total", key, count)

    def _node_wide(self, page: _Page, state: State) -> None:
        assert state.view is not None  # noqa: S101 - only called where there is one
        snapshot = state.view.snapshot
        page.add("gpu_visible", (self._node,), snapshot.visible)
        versions = (snapshot.driver_version, snapshot.cuda_version, snapshot.nvml_version)
        if any(versions):
            page.add("gpu_driver_info", (self._node, *versions), 1)

    def _device(self, page: _Page, device: DeviceView) -> None:
        gpu = device.reading
        labels = (self._node, str(gpu.index), gpu.uuid, "")
        minor = "" if gpu.minor is None else str(gpu.minor)
        page.add("gpu_info", (*labels, gpu.model, minor, gpu.pci_bus_id, gpu.mig_mode, ""), 1)
        page.add("gpu_utilization_ratio", labels, gpu.utilization)
        page.add("gpu_busy_seconds_total", labels, device.busy)
        page.add("gpu_observed_seconds_total", labels, device.observed)
        page.add("gpu_last_busy_timestamp_seconds", labels, device.last_busy)
        page.add("gpu_memory_used_bytes", labels, gpu.memory_used)
        page.add("gpu_memory_total_bytes", labels, gpu.memory_total)
        page.add("gpu_memory_reserved_bytes", labels, gpu.memory_reserved)
        page.add("gpu_memory_activity_ratio", labels, gpu.memory_activity)
        page.add("gpu_power_watts", labels, device.power)
        page.add("gpu_power_limit_watts", labels, gpu.power_limit)
        page.add("gpu_energy_joules_total", labels, gpu.energy)
        for sensor, celsius in gpu.temperatures:
            page.add("gpu_temperature_celsius", (*labels, sensor), celsius)
        page.add("gpu_fan_ratio", labels, gpu.fan)
        for domain, hertz in gpu.clocks:
            page.add("gpu_clock_hertz", (*labels, domain), hertz)
        page.add("gpu_performance_state", labels, gpu.performance_state)
        page.add("gpu_processes", labels, None if gpu.processes is None else len(gpu.processes))

    def _owned(self, page: _Page, owned: OwnedView, *, stale: bool) -> None:
        work = owned.workload
        labels = (
            self._node,
            str(owned.index),
            owned.gpu_uuid,
            "",
            self._cluster,
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
        page.add("gpu_allocation", labels, owned.share)
        page.add("gpu_allocation_start_timestamp_seconds", labels, owned.start)
        page.add("workload_first_process_timestamp_seconds", labels, owned.first_process)
        page.add("workload_gpu_allocated_seconds_total", labels, owned.allocated)
        page.add("workload_gpu_observed_seconds_total", labels, owned.observed)
        page.add("workload_gpu_busy_seconds_total", labels, owned.busy)
        for length, seconds in zip(GAP_LENGTHS, owned.gaps, strict=True):
            page.add("workload_gpu_idle_gap_seconds_total", (*labels, length), seconds)
        page.add_histogram("workload_gpu_utilization_samples", labels, owned.buckets, owned.weighted_utilization)
        page.add("workload_gpu_energy_joules_total", labels, owned.energy)
        if not stale:
            page.add("workload_gpu_memory_used_bytes", labels, owned.memory)
            page.add("workload_gpu_processes", labels, owned.processes)

    def _host(self, page: _Page, host: HostReading) -> None:
        labels = (self._node, self._cluster, host.workload.scheduler, host.workload.id)
        page.add("workload_cpu_seconds_total", labels, host.cpu_seconds)
        page.add("workload_cpu_limit_cores", labels, host.cpu_limit)
        pressures = (("cpu", host.cpu_pressure), ("io", host.io_pressure), ("memory", host.memory_pressure))
        for resource, seconds in pressures:
            page.add("workload_pressure_seconds_total", (*labels, resource), seconds)


class _Page:
    """Families that have a series so far; a value of None is a series that is not there."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, name: str, labels: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            self._family(name).add_metric(labels, value)  # type: ignore[attr-defined]

    def add_histogram(self, name: str, labels: tuple[str, ...], counts: tuple[float, ...], total: float) -> None:
        """`counts` are not cumulated; the last is what lies above every bound."""
        running, buckets = 0.0, []
        for bound, count in zip((*map(str, UTILIZATION_BUCKETS), "+Inf"), counts, strict=True):
            running += count
            buckets.append((bound, running))
        self._family(name).add_metric(labels, buckets, total)  # type: ignore[attr-defined]

    def families(self) -> Iterator[Metric]:
        return (self._families[name] for name in FAMILIES if name in self._families)

    def _family(self, name: str) -> Metric:
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = _empty(FAMILIES[name])
        return found


def _empty(family: Family) -> Metric:
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
    made: Metric = kinds[family.kind](family.name.removesuffix("_total"), family.help, labels=family.labels)
    return made


def _version() -> str:
    try:
        return version("dutycycle")
    except PackageNotFoundError:
        return "unknown"
