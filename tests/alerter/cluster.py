"""A small cluster in simulated time: exporters that answer over HTTP, and the real source, engine and store over them.

Twenty GPUs, eight jobs: one each that idles, is half idle, stalls, is uneven and underused, two healthy ones, and one
that stalled and has ended. `simulate` runs the alerter over the last three hours before `now` within seconds.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store import ledger
from dutycycle_alerter.store.database import Database, open_database
from tests.alerter.rig import TIMEOUT

HOUR = 3600.0
GIB = 2.0**30
MEMORY = 79.6 * GIB
STEP = 120.0
LENGTH = 3 * HOUR


@dataclass(frozen=True)
class Work:
    """What one job does: mean utilization by GPU, and the shares of time that its signals take."""

    workload: str
    gpus: tuple[tuple[str, int], ...]
    utilization: tuple[float, ...]
    user: str
    account: str = ""
    processes: int = 1
    memory: float = 24 * GIB
    gaps: float = 0.0
    io: float = 0.0
    cores: float = 4.0
    swing: float = 0.15
    begins: float = -20 * 60
    ends: float = LENGTH + HOUR
    labels: Mapping[str, str] = field(default_factory=dict)

    def utilization_at(self, i: int, t: float) -> float:
        """Of the job's i-th GPU, `t` seconds after the simulation's start."""
        mean = self.utilization[i]
        wave = math.sin(t / 700 + 2 * i) + 0.6 * math.sin(t / 191 + i)
        return min(1.0, max(0.0, mean * (1 + self.swing * wave / 1.6)))


def _on(node: str, *indexes: int) -> tuple[tuple[str, int], ...]:
    return tuple((node, index) for index in indexes)


def jobs() -> list[Work]:
    """The cluster's jobs."""
    return [
        Work("slurm/41207", _on("gpu-a01", 0, 1, 2, 3), (0.0,) * 4, "alice", "nlp", processes=0, memory=0, cores=0),
        Work("slurm/41311", _on("gpu-a01", 4, 5, 6, 7), (0.9, 0.88, 0.0, 0.0), "bob", "vision"),
        Work("slurm/41350", _on("gpu-a02", 0, 1), (0.33, 0.31), "carol", "vision", gaps=0.52, io=0.41, cores=7.4),
        Work(
            "k8s/speech/finetune-0/5c1e8a52",
            _on("gpu-a02", 2, 3),
            (0.91, 0.36),
            "dmitri",
            labels={"scheduler": "k8s", "namespace": "speech", "pod": "finetune-0", "job_id": ""},
        ),
        Work("slurm/41355", _on("gpu-a02", 4), (0.11,), "erin", "bio", gaps=0.03, begins=70 * 60),
        Work("slurm/41360", _on("gpu-a02", 5, 6, 7), (0.94, 0.95, 0.93), "frank", "nlp", swing=0.04),
        Work("slurm/41362", _on("gpu-b01", 0, 1), (0.88, 0.9), "grace", "bio", swing=0.08),
        Work("slurm/41102", _on("gpu-b01", 2, 3), (0.42, 0.4), "heidi", "vision", gaps=0.4, ends=100 * 60),
    ]


NODES = {"gpu-a01": 8, "gpu-a02": 8, "gpu-b01": 4}


class Cluster:
    """The nodes' exporters; `now` is set by whoever drives the time."""

    def __init__(self, start: float, works: list[Work], *, replay: bool = False) -> None:
        self.start = self.now = start
        self.down: set[str] = set()
        self._works = works
        self._replay = replay
        self._totals: dict[tuple[str, str, int], dict[str, float]] = {}
        self._busy: defaultdict[tuple[str, int], float] = defaultdict(float)

    def advance(self, seconds: float) -> None:
        """Let time pass: counters grow by what the jobs do meanwhile."""
        self.now += seconds
        t = self.now - self.start
        for work in self._works:
            if not work.begins <= t - seconds < work.ends:
                continue
            for i, (node, index) in enumerate(work.gpus):
                totals = self._totals.setdefault((work.workload, node, index), dict.fromkeys(_COUNTERS, 0.0))
                utilization = work.utilization_at(i, t)
                totals["allocated"] += seconds
                totals["observed"] += seconds
                totals["busy"] += utilization * seconds
                self._busy[node, index] += utilization * seconds
                totals["lt2"] += work.gaps * 0.8 * seconds
                totals["2to30"] += work.gaps * 0.2 * seconds
                totals["30to600"] += 0
                totals["ge600"] += seconds if utilization == 0 else 0
                totals["energy"] += _watts(utilization) * seconds

    def metrics(self, node: str) -> str:
        """The node's /metrics."""
        t = self.now - self.start
        lines = [
            "dutycycle_exporter_time_scale 1",
            f"dutycycle_exporter_replay {int(self._replay)}",
            f'gpu_visible{{node="{node}"}} {NODES[node]}',
        ]
        owners = {place: (work, i) for work in self._present(t) for i, place in enumerate(work.gpus)}
        for index in range(NODES[node]):
            device = f'node="{node}",gpu="{index}",gpu_uuid="GPU-{node}-{index}",mig=""'
            work, i = owners.get((node, index), (None, 0))
            utilization = work.utilization_at(i, t) if work else 0.0
            lines += [
                f'gpu_info{{{device},model="NVIDIA H100 80GB HBM3"}} 1',
                f"gpu_utilization_ratio{{{device}}} {utilization}",
                f"gpu_busy_seconds_total{{{device}}} {self._busy[node, index]}",
                f"gpu_observed_seconds_total{{{device}}} {t}",
                f"gpu_memory_used_bytes{{{device}}} {(work.memory if work else 0) + 0.6 * GIB}",
                f"gpu_memory_total_bytes{{{device}}} {MEMORY}",
                f"gpu_power_watts{{{device}}} {_watts(utilization)}",
                f"gpu_power_limit_watts{{{device}}} 700",
                f'gpu_temperature_celsius{{{device},sensor="gpu"}} {31 + 34 * utilization}',
                f"gpu_processes{{{device}}} {work.processes if work else 0}",
                f"gpu_last_busy_timestamp_seconds{{{device}}} {self.now if utilization else self.start - HOUR}",
            ]
            if work:
                lines += self._owned(work, device, self._totals[work.workload, node, index])
        for work in self._present(t):
            if node in {place[0] for place in work.gpus}:
                lines += self._host(work, node, t)
        return "\n".join(lines) + "\n"

    def _present(self, t: float) -> list[Work]:
        return [work for work in self._works if work.begins < t <= work.ends]

    def _owned(self, work: Work, device: str, totals: Mapping[str, float]) -> list[str]:
        labels = {
            "cluster": "",
            "scheduler": "slurm",
            "workload": work.workload,
            "namespace": "",
            "pod": "",
            "job_id": work.workload.partition("/")[2],
            "user": work.user,
            "account": work.account,
            "partition": "gpu" if work.account else "",
            "model": "NVIDIA H100 80GB HBM3",
            **work.labels,
        }
        where = device + "".join(f',{name}="{_escaped(value)}"' for name, value in labels.items())
        began = self.start + work.begins
        lines = [
            f"gpu_allocation{{{where}}} 1",
            f"gpu_allocation_start_timestamp_seconds{{{where}}} {began}",
            f"workload_gpu_allocated_seconds_total{{{where}}} {totals['allocated']}",
            f"workload_gpu_observed_seconds_total{{{where}}} {totals['observed']}",
            f"workload_gpu_busy_seconds_total{{{where}}} {totals['busy']}",
            f"workload_gpu_energy_joules_total{{{where}}} {totals['energy']}",
            f"workload_gpu_memory_used_bytes{{{where}}} {work.memory}",
            f"workload_gpu_processes{{{where}}} {work.processes}",
        ]
        if work.processes:
            lines.append(f"workload_first_process_timestamp_seconds{{{where}}} {began + 20}")
        return lines + [
            f'workload_gpu_idle_gap_seconds_total{{{where},length="{length}"}} {totals[length]}'
            for length in ("lt2", "2to30", "30to600", "ge600")
        ]

    def _host(self, work: Work, node: str, t: float) -> list[str]:
        where = f'node="{node}",workload="{_escaped(work.workload)}"'
        lasted = t - work.begins
        return [
            f"workload_cpu_seconds_total{{{where}}} {work.cores * lasted}",
            f"workload_cpu_limit_cores{{{where}}} 16",
            f'workload_pressure_seconds_total{{{where},resource="io"}} {work.io * lasted}',
            f'workload_pressure_seconds_total{{{where},resource="cpu"}} {0.004 * lasted}',
        ]

    @contextmanager
    def serving(self) -> Iterator[tuple[str, ...]]:
        """The exporters' URLs; a node that is `down` answers 503."""
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                node = self.path.split("/")[1]
                body = b"" if node in cluster.down else cluster.metrics(node).encode()
                self.send_response(503 if node in cluster.down else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield tuple(f"http://127.0.0.1:{server.server_port}/{node}/metrics" for node in NODES)
            finally:
                server.shutdown()
                thread.join()


def simulate(
    path: Path, now: float, *, works: list[Work] | None = None, length: float = LENGTH, replay: bool = False
) -> None:
    """Fill the SQLite store at `path` with what the alerter finds out in the `length` seconds before `now`.

    gpu-b01's exporter falls silent in the last minutes.
    """
    cluster = Cluster(now - length, jobs() if works is None else works, replay=replay)
    with cluster.serving() as targets:
        settings = Settings.model_validate({"source": {"targets": targets, "timeout": TIMEOUT}}).scaled()
        database = open_database(f"sqlite:///{path}", time_scale=1)
        source = ScrapeSource(settings, database, lambda: cluster.now)
        engine = Engine(settings, source, database, lambda: cluster.now)
        try:
            while cluster.now < now - 1:
                cluster.advance(STEP)
                if cluster.now > now - 400:
                    cluster.down.add("gpu-b01")
                source.scrape()
                engine.run_pass()
            if length == LENGTH:
                _add_users(database, now)
        finally:
            source.close()
            database.close()


def _add_users(database: Database, now: float) -> None:
    """Colleagues whose jobs of the last days are over, so that the histogram has a shape."""
    means = (2, 4, 7, 9, 11, 13, 14, 22, 27, 31, 38, 44, 52, 57, 63, 66, 71, 74, 78, 83, 86, 88, 91, 93, 96, 97)
    with database.write() as connection:
        for n, mean in enumerate(means):
            hours = 6.0 + (n * 37) % 60
            gpu = Gpu("gpu-a01", str(n % 8))
            job = Job(
                f"slurm/{39000 + n}", (gpu,), now - 2 * 86400, user=f"user{n:02d}", account="lab", scheduler="slurm"
            )
            used = Consumption(
                "NVIDIA H100 80GB HBM3", hours * HOUR, 0.98 * hours * HOUR, mean / 100 * 0.98 * hours * HOUR
            )
            ledger.add(connection, now - 86400 * (1 + n % 5), [(job, used)])


_COUNTERS = ("allocated", "observed", "busy", "lt2", "2to30", "30to600", "ge600", "energy")


def _watts(utilization: float) -> float:
    return 70 + 560 * utilization


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
