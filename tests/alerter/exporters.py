"""A node's exporter in simulated time: jobs come, work, end; counters grow and restart; the page says so.

Only the page matters: what is tested reads it as any scraper does, from text or over HTTP.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GIB = 2.0**30
MODEL = "NVIDIA H200"
_GAPS = ("lt2", "2to30", "30to600", "ge600")


@dataclass
class Allocation:
    """One workload on one GPU. Counters are seconds (and joules); `present` ends before the page forgets it."""

    workload: str
    gpu: int
    labels: dict[str, str]
    start: float | None
    first_process: float | None
    share: float = 1.0
    present: bool = True
    counters: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("allocated", "observed", "busy", "energy", "low", *_GAPS), 0.0)
    )
    memory_used: float | None = 30 * GIB
    processes: float | None = 1

    def work(self, seconds: float, utilization: float | None, gaps: Mapping[str, float]) -> None:
        self.counters["allocated"] += self.share * seconds
        self.counters["energy"] += 70 * seconds
        if utilization is None:
            return
        self.counters["observed"] += self.share * seconds
        self.counters["busy"] += self.share * seconds * utilization
        self.counters["energy"] += 600 * seconds * utilization
        self.counters["low"] += self.share * seconds * (utilization <= 0.15)
        for length, part in gaps.items():
            self.counters[length] += self.share * seconds * part


@dataclass
class FakeGpu:
    """What a GPU says of itself; None is not shown. `throttled` is seconds by reason, `links` bytes both ways by kind,
    `active` shares of busy time by unit; `xids` are the times at which each was last reported.
    """

    memory_used: float | None = 31 * GIB
    processes: float | None = None
    power: float | None = 300.0
    utilization: float | None = 0.5
    busy: float = 0.0
    observed: float = 0.0
    recovery_action: float | None = None
    remap_failed: float | None = None
    throttled: dict[str, float] = field(default_factory=dict)
    links: dict[str, float] = field(default_factory=dict)
    active: dict[str, float] = field(default_factory=dict)
    xids: dict[int, float] = field(default_factory=dict)
    shown: bool = True

    def free(self) -> None:
        """Nobody uses it."""
        self.memory_used, self.processes, self.power, self.utilization = 0.5 * GIB, 0, 65.0, 0.0


class FakeExporter:
    """One node with `gpus` GPUs. `visible` is whether its NVML child lives; without it no GPU is vouched for.

    `devices[n]` is what GPU n says of itself; `expected` is how many the bus shows.
    """

    def __init__(self, node: str = "gpu01", gpus: int = 8, *, time_scale: float = 1, replay: bool = False) -> None:
        self.node, self.gpus, self.time_scale, self.replay = node, gpus, time_scale, replay
        self.visible = True
        self.devices = [FakeGpu() for _ in range(gpus)]
        self.expected: int | None = None
        self.allocations: dict[tuple[str, int], Allocation] = {}
        self.host: dict[str, dict[str, float]] = {}

    def allocate(
        self, workload: str, *gpus: int, start: float | None = 0.0, first_process: float | None = None, **labels: str
    ) -> list[Allocation]:
        """Give GPUs to a workload; its counters begin at 0."""
        owner = {
            "cluster": "",
            "scheduler": workload.partition("/")[0],
            "workload": workload,
            "namespace": "",
            "pod": "",
            "job_id": workload.partition("/")[2],
            "user": "alice",
            "account": "lab",
            "partition": "gpu",
            "model": MODEL,
        }
        for gpu in gpus:
            self.allocations[workload, gpu] = Allocation(workload, gpu, owner | labels, start, first_process)
        self.host.setdefault(workload, {"cpu": 0.0, "io": 0.0, "stalled": 0.0, "limit": 16.0})
        return [self.allocations[workload, gpu] for gpu in gpus]

    def run(
        self,
        seconds: float,
        utilization: Mapping[str, float | None] | float | None = 0.5,
        *,
        gaps: Mapping[str, float] | None = None,
        cores: float = 4.0,
    ) -> None:
        """Let time pass: every present allocation works at this duty cycle (by workload, or all the same)."""
        for item in self.allocations.values():
            if item.present:
                level = utilization.get(item.workload) if isinstance(utilization, Mapping) else utilization
                item.work(seconds, level, gaps or {})
        for one in self.devices:
            if one.utilization is not None:
                one.busy += one.utilization * seconds
                one.observed += seconds
        for host in self.host.values():
            host["cpu"] += cores * seconds

    def end(self, workload: str, *gpus: int) -> None:
        """The allocation is over; the page keeps its final counters until `forget`."""
        for (name, gpu), item in self.allocations.items():
            if name == workload and (not gpus or gpu in gpus):
                item.present = False

    def forget(self, workload: str) -> None:
        """The page no longer shows the workload at all."""
        for key in [key for key in self.allocations if key[0] == workload]:
            del self.allocations[key]
        self.host.pop(workload, None)

    def restart(self) -> None:
        """The process started again: every counter is 0, what had ended is unknown to it."""
        self.allocations = {key: item for key, item in self.allocations.items() if item.present}
        for item in self.allocations.values():
            item.counters = dict.fromkeys(item.counters, 0.0)
        for one in self.devices:
            one.busy = one.observed = 0.0
        for host in self.host.values():
            host["io"] = host["stalled"] = 0.0  # CPU time is the cgroup's and goes on

    def page(self) -> str:
        """The exposition, in the text format."""
        lines = []
        if self.expected is not None:
            lines.append(sample("gpu_expected", {"node": self.node}, self.expected))
        if self.visible:
            shown = [gpu for gpu in range(self.gpus) if self.devices[gpu].shown]
            lines.append(sample("gpu_visible", {"node": self.node}, len(shown)))
            for gpu in shown:
                lines += self._device(gpu)
        for gpu, one in enumerate(self.devices):
            where = self.device(gpu) | ({} if one.shown else {"gpu": ""})
            for xid, t in one.xids.items():
                labels = where | {"xid": str(xid), "class": "critical"}
                lines += [
                    sample("gpu_xid_errors_total", labels, 1),
                    sample("gpu_xid_last_timestamp_seconds", labels, t),
                ]
        for item in self.allocations.values():
            lines += self._owned(item)
        for workload, host in self.host.items():
            where = {"node": self.node, "workload": workload}
            lines += [
                sample("workload_cpu_seconds_total", where, host["cpu"]),
                sample("workload_cpu_limit_cores", where, host["limit"]),
                sample("workload_pressure_seconds_total", where | {"resource": "io"}, host["io"]),
                sample("workload_pressure_seconds_total", where | {"resource": "cpu"}, host["stalled"]),
            ]
        lines.append(sample("dutycycle_exporter_time_scale", {}, self.time_scale))
        lines.append(sample("dutycycle_exporter_replay", {}, int(self.replay)))
        return "\n".join(lines) + "\n"

    def _device(self, gpu: int) -> list[str]:
        device, one = self.device(gpu), self.devices[gpu]
        lines = [
            sample("gpu_info", device | {"model": MODEL, "minor": str(gpu), "mig_profile": ""}, 1),
            sample("gpu_memory_total_bytes", device, 141 * GIB),
            sample("gpu_power_limit_watts", device, 700),
            sample("gpu_temperature_celsius", device | {"sensor": "gpu"}, 45),
            sample("gpu_temperature_celsius", device | {"sensor": "memory"}, 60),
        ]
        for name, value in (
            ("gpu_utilization_ratio", one.utilization),
            ("gpu_busy_seconds_total", one.busy),
            ("gpu_observed_seconds_total", one.observed),
            ("gpu_memory_used_bytes", one.memory_used),
            ("gpu_power_watts", one.power),
            ("gpu_processes", one.processes),
            ("gpu_recovery_action", one.recovery_action),
            ("gpu_row_remap_failed", one.remap_failed),
        ):
            if value is not None:
                lines.append(sample(name, device, value))
        lines += [
            sample("gpu_throttle_seconds_total", device | {"reason": reason}, seconds)
            for reason, seconds in one.throttled.items()
        ]
        lines += [
            sample(f"gpu_{kind}_bytes_total", device | {"direction": direction}, sent / 2)
            for kind, sent in one.links.items()
            for direction in ("rx", "tx")
        ]
        return lines

    def device(self, gpu: int) -> dict[str, str]:
        """The device labels of a GPU."""
        return {"node": self.node, "gpu": str(gpu), "gpu_uuid": f"GPU-{self.node}-{gpu}", "mig": ""}

    def _owned(self, item: Allocation) -> list[str]:
        where = self.device(item.gpu) | item.labels
        lines = []
        if item.present:
            lines.append(sample("gpu_allocation", where, item.share))
            if item.start is not None:
                lines.append(sample("gpu_allocation_start_timestamp_seconds", where, item.start))
            if item.first_process is not None:
                lines.append(sample("workload_first_process_timestamp_seconds", where, item.first_process))
            if item.memory_used is not None:
                lines.append(sample("workload_gpu_memory_used_bytes", where, item.memory_used))
            if item.processes is not None:
                lines.append(sample("workload_gpu_processes", where, item.processes))
        for name in ("allocated", "observed", "busy"):
            lines.append(sample(f"workload_gpu_{name}_seconds_total", where, item.counters[name]))
        lines.append(sample("workload_gpu_energy_joules_total", where, item.counters["energy"]))
        lines += [
            sample("workload_gpu_idle_gap_seconds_total", where | {"length": length}, item.counters[length])
            for length in _GAPS
        ]
        lines += [
            sample("workload_gpu_utilization_samples_bucket", where | {"le": bound}, item.counters[name])
            for bound, name in (("0.15", "low"), ("+Inf", "observed"))
        ]
        one = self.devices[item.gpu] if item.gpu < len(self.devices) else FakeGpu()
        lines += [
            sample("workload_gpu_active_seconds_total", where | {"unit": unit}, share * item.counters["busy"])
            for unit, share in one.active.items()
        ]
        return lines + [
            sample("workload_gpu_throttle_seconds_total", where | {"reason": reason}, item.share * seconds)
            for reason, seconds in one.throttled.items()
        ]


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line of the text format."""
    escaped = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    return f"{name}{{{escaped}}} {value!r}" if labels else f"{name} {value!r}"


def escape(text: str) -> str:
    """A label value as the text format writes it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


Answer = tuple[int, bytes]


@contextmanager
def serving(*pages: Callable[[], str | Answer]) -> Iterator[tuple[str, ...]]:
    """A real HTTP server; one URL for each page, which is asked at every request for its text or (status, body)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            answer = pages[int(self.path.split("/")[1])]()
            status, body = (200, answer.encode()) if isinstance(answer, str) else answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True  # a connection that is kept open must not hold up the end
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield tuple(f"http://127.0.0.1:{server.server_port}/{i}/metrics" for i in range(len(pages)))
        finally:
            server.shutdown()
            thread.join()
