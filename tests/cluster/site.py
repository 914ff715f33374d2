"""The site: four nodes whose GPUs are NVML doubles, a real exporter on each, real Slurm and Prometheus, one alerter."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.site import Site, wait_for
from tests.fakes.nvml import Libraries
from tests.fakes.pci import CONTROLLER_3D
from tests.slurm.cluster import GPUS, NODES
from tests.slurm.exporters import driver_information

from .accounts import Blind, Unscraped
from .cases import CASES
from .loads import Loads, PlaceInSlurm
from .prometheus import ForgetfulPrometheus
from .slurm import MortalCluster

PATIENCE = 120.0
"""Wall seconds that a machine that does much else may need for anything, beside the scenario's own time."""
INTERVAL = 30.0
"""Seconds between two scrapes of the full-length run, and between two reads of NVML."""
SAMPLE_PERIOD = 0.5
"""Seconds between two of NVML's own samples there: newer drivers take fewer, and so does a machine with few cores."""
SAMPLES = 1000
"""Samples that NVML keeps: of a time long enough for a test machine that stalls."""
MINORS = tuple((5 * slot + 3) % GPUS for slot in range(GPUS))
"""The device file of each of NVML's slots: as on many real machines not in NVML's order, and Slurm counts by files."""


class ClusterSite:
    """Everything but the alerter runs while the context lasts; what it said is printed when a test fails."""

    def __init__(self, directory: Path, libraries: Libraries, time_scale: float, cluster: MortalCluster) -> None:
        self.directory = directory
        self.time_scale = time_scale
        self.slurm = cluster
        self.site = Site(directory, libraries, time_scale)
        self.blind: list[Blind | Unscraped] = []
        """When exporters were dead, or not read: what nobody saw is not in the ledger."""

        self._dead_since: dict[str, float] = {}
        self._stack = ExitStack()
        self._uuids: dict[PlaceInSlurm, str] = {}

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.site)
            for node in NODES:
                self._add(node)
            slots = {minor: slot for slot, minor in enumerate(MINORS)}
            behaviours = {name: case.lives for name, case in CASES.items()}
            self.loads = self._stack.enter_context(
                Loads(self.slurm, self.site.nodes, slots, self._prolog_file, behaviours)
            )
            for machine in self.site.nodes.values():
                machine.start()
            for exporter in self.site.exporters.values():
                exporter.start()
            targets = [f"127.0.0.1:{exporter.port}" for exporter in self.site.exporters.values()]
            interval = f"{round(1000 * INTERVAL / self.time_scale)}ms"
            self.prometheus = self._stack.enter_context(
                ForgetfulPrometheus(self.directory / "prometheus", targets, interval=interval)
            )
            self.alerter = self.site.alerter(self._settings())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"{self.slurm.logs()}\n--- prometheus\n{self.prometheus.log[-2000:]}\n{self.story()}\n")
        self._stack.__exit__(kind, error, trace)

    @property
    def until_judged(self) -> float:
        """Wall seconds for what takes scrapes and passes: some minutes of the site's own time, and a slow machine's."""
        return PATIENCE + 300.0 / self.time_scale

    def _add(self, name: str) -> None:
        own = self.slurm.node_directory(name)
        options = (
            f"--slurm.prolog-dir={own / 'prolog'}",
            f"--sample-interval={INTERVAL:g}s",
            f"--series-hold={2 * INTERVAL:g}s",
        )
        node = self.site.add_node(name, gpus=0, options=options, capacity=SAMPLES, sample_period=SAMPLE_PERIOD)
        for minor in MINORS:
            gpu = node.driver.add_gpu(minor=minor)
            node.pci.add(gpu.bus_id, pci_class=CONTROLLER_3D)
            self._uuids[name, minor] = gpu.uuid
            entry = own / "gpus" / gpu.bus_id
            entry.mkdir(parents=True)
            (entry / "information").write_text(driver_information(gpu.uuid, gpu.bus_id, minor))

    def _prolog_file(self, gpu: PlaceInSlurm, job: int) -> Path:
        return self.slurm.node_directory(gpu[0]) / "prolog" / f"{self._uuids[gpu]}.{job}.json"

    def _settings(self) -> dict[str, Any]:
        return {
            "source": {"interval": f"{INTERVAL:g}s"},
            "prometheus": {"url": self.prometheus.url, "scrape_interval": f"{INTERVAL:g}s", "timeout": "3s"},
            "slurm": {
                "url": f"http://127.0.0.1:{self.slurm.rest_port}",
                "user": "root",
                "token": self.slurm.token("root", seconds=86_400),
            },
        }

    def uuid(self, gpu: PlaceInSlurm) -> str:
        """Of the GPU that Slurm knows by a node and a number."""
        return self._uuids[gpu]

    # What happens to it

    def sleep(self, seconds: float) -> None:
        """Let scenario time pass."""
        self.site.sleep(seconds)
        self.check()

    def check(self) -> None:
        """Raises where something failed that no incident tells of."""
        self.loads.check()
        assert "unexpectedly" not in self.alerter.log(), "a pass failed"

    def kill_exporter(self, node: str) -> None:
        """kill -9; its counters will begin at 0 again."""
        self._dead_since[node] = time.time()
        self.site.exporters[node].kill()

    def start_exporter(self, node: str) -> None:
        """Again, at the same address; returns when it has read NVML."""
        exporter = self.site.exporters[node]
        exporter.start()
        wait_for(lambda: "\ngpu_visible{" in exporter.metrics(), f"{exporter.name} has read NVML", within=PATIENCE)
        self.blind.append(Blind(node, self._dead_since.pop(node), time.time()))

    @contextmanager
    def frozen_prometheus(self) -> Iterator[None]:
        """It accepts connections, and says nothing; nor does it scrape."""
        since = time.time()
        self.prometheus.freeze()
        try:
            yield
        finally:
            self.prometheus.thaw()
            # Its next scrape is an interval away.
            self.blind.append(Unscraped(since, time.time() + INTERVAL / self.time_scale))

    # What it says

    def incidents(self) -> list[dict[str, Any]]:
        """Every incident of a job, resolved ones included."""
        self.check()
        incidents = self.alerter.get("/api/v1/incidents?limit=500")["incidents"]
        return [incident for incident in incidents if incident["kind"] == "efficiency"]

    def history(self) -> dict[int, tuple[str, ...]]:
        """Every event of every such incident, by its id."""
        found = {}
        for incident in self.incidents():
            events = self.alerter.get(f"/api/v1/incidents/{incident['id']}")["events"]
            found[incident["id"]] = (incident["subject"], *(event["kind"] for event in events))
        return found

    def away(self) -> set[str]:
        """Which sources the alerter says it cannot read."""
        return {target["url"] for target in self.status()["targets"] if target["error"]}

    def status(self) -> dict[str, Any]:
        """How the alerter itself is doing."""
        found: dict[str, Any] = self.alerter.get("/api/v1/status")
        return found

    def story(self) -> str:
        """All that is known of every incident, for a test that failed."""
        try:
            lines = [
                f"{i['id']} {i['subject']} {i['rule']} {i['diagnosis']['causes']} {i['severity']} {i['state']} "
                f"{i['resolution']} {i['user']} opened {i['opened_at']} resolved {i['resolved_at']} {i['figures']} "
                f"{[(g['node'], g['index']) for g in i['gpus']]}"
                for i in self.alerter.get("/api/v1/incidents?limit=500")["incidents"]
            ]
            return "\n".join([*lines, str(self.status())])
        except Exception as error:  # noqa: BLE001 - the alerter may be what failed
            return f"the alerter does not tell: {error}"

    def ledger(self) -> Mapping[str, float]:
        """Allocated GPU-seconds of each job in the alerter's usage ledger, wall seconds."""
        with closing(sqlite3.connect(f"file:{self.alerter.store}?mode=ro", uri=True, timeout=30)) as connection:
            rows = connection.execute("SELECT job, sum(allocated) FROM usage_hour GROUP BY job")
            return dict(rows.fetchall())
