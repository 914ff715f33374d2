"""A node whose every GPU has another owner at every scrape, for as many scrapes as one likes.

    python -m tests.exporter.churn SCRAPES

Runs in a process of its own, whose memory is the exporter's parts' alone: the real service, attribution and collector
in this one process, snapshots made up, and a fake /proc, prolog and job mapping files and a kubelet's answers by which
at every turn a Slurm job, a pod and a login's process group end and others begin, each by another user. A MIG instance
is another one each time, too. For each hundred scrapes it writes a line, and another when all owners have ended and
their series with them: scrapes, resident bytes, blocks of memory that Python objects have, workloads with series of
their own on the last page.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.attribution.kubernetes.holders import Holders, PodClaim
from dutycycle_exporter.attribution.kubernetes.messages import ContainerDevices, ContainerResources, PodResources
from dutycycle_exporter.collector import ExporterCollector
from dutycycle_exporter.contract import ACTIVITY
from dutycycle_exporter.model import (
    Activity,
    FinishedProcess,
    GpuReading,
    Process,
    Snapshot,
    Span,
    Workload,
    Xid,
)
from dutycycle_exporter.service import Service
from tests.exporter.attribution.kubernetes.usual import SELECTION
from tests.fakes.cgroup import pod_container, slurm_task
from tests.fakes.proc import FakeProcess, ProcTree

INTERVAL = 5.0
HOLD = 5.0
SLURM, POD, LOCAL = "GPU-slurm", "GPU-pod", "GPU-local"
_DAEMON = PodResources("exporter", "monitoring")
"""Every node has a pod without a device."""
_TURNS_TO_END = 2 + round(2 * HOLD / INTERVAL) + 1
"""Two without an owner's processes, the hold time of a workload that is new and that of one that has ended."""


class ListedPods:
    """What KubernetesPods tells of a kubelet's answers, at once and without its threads; time is the node's."""

    def __init__(self) -> None:
        self.now = 0.0
        self._holders = Holders(SELECTION, api=False)
        self._listed: tuple[PodResources, ...] = ()

    def list(self, *pods: PodResources, ago: float = 0.0) -> None:
        """An answer of the kubelet, so many seconds ago."""
        self._listed = pods
        self._holders.listed(pods, self.now - ago, self.now - ago, self.now - ago)

    def allocations(
        self, gpus: Sequence[GpuReading], processes: Mapping[str, Collection[str]], inner: Collection[str] = ()
    ) -> tuple[PodClaim, ...]:
        claims, _ = self._holders.claims(gpus, processes, {}, self.now, inner)
        if self._holders.asks():
            # It says the same again, once a process came.
            self.now += 0.1
            self.list(*self._listed)
            claims, _ = self._holders.claims(gpus, processes, {}, self.now, inner)
        return claims

    def workload_of(self, uid: str) -> Workload | None:
        return self._holders.workload_of(uid, self.now)

    def settling(self) -> bool:
        return False

    def labels(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        return self._holders.labels()

    def take_failures(self) -> Mapping[tuple[str, str], int]:
        return {}


class Churn:
    """The exporter's parts on such a node."""

    def __init__(self, directory: Path) -> None:
        self._now = 1.8e9
        self._prolog = directory / "prolog"
        self._prolog.mkdir(mode=0o755)
        self._processes = ProcTree(directory / "proc")
        self._pids: list[int] = []
        self._turn = 0
        self._mapping = directory / "mapping"
        self._mapping.mkdir(mode=0o755)
        self._pods = ListedPods()
        attribution = Attribution(
            slurm_prolog_dir=self._prolog,
            job_mapping_dir=self._mapping,
            procfs=self._processes.root,
            cgroup=directory,
            local=True,
            people=True,
            pods=self._pods,
        )
        service = Service(attribution, interval=INTERVAL, hold=HOLD, sysfs=directory, clock=lambda: self._now)
        self._service = service
        self._collector = ExporterCollector(
            service, node="node1", cluster="lab", time_scale=1, replay=False, processes=True
        )

    def turn(self) -> str:
        """Other owners, a snapshot, a scrape: its page."""
        self._pass()
        self._turn += 1
        self._replace_owners()
        self._service.on_snapshot(self._snapshot())
        return self._collector.text()

    def end(self) -> str:
        """All owners end, and nobody comes, for as long as their series are held: the page after that."""
        self._remove_owners()
        page = ""
        for _ in range(_TURNS_TO_END):
            self._pass()
            self._service.on_snapshot(self._snapshot())
            page = self._collector.text()
        return page

    def _pass(self) -> None:
        self._now += INTERVAL
        self._pods.now = self._now

    def _pod_uid(self) -> str:
        return f"11111111-2222-3333-4444-{self._turn:012d}"

    def _remove_owners(self) -> None:
        for pid in self._pids:
            self._processes.remove(pid)
        self._pids = []
        for directory in (self._prolog, self._mapping):
            for path in directory.iterdir():
                path.unlink()
        for ago in (2.5, 0.0):
            # It takes two answers of the kubelet to end a pod.
            self._pods.list(_DAEMON, ago=ago)

    def _replace_owners(self) -> None:
        turn = self._turn
        self._remove_owners()
        self._pids = [first + turn for first in (1_000_000, 2_000_000, 3_000_000)]
        groups = (slurm_task(turn), pod_container(self._pod_uid(), f"c{turn}"), "/user.slice/session-1.scope")
        for pid, group in zip(self._pids, groups, strict=True):
            self._processes.add(FakeProcess(pid, self._now - 1, group, comm=f"train{turn}", uid=100_000 + turn))
        if turn % 2:
            entry = {"job_id": turn, "uid": 100_000 + turn, "user": f"user{turn}", "start": self._now - 1}
            (self._prolog / f"{SLURM}.json").write_text(json.dumps(entry))
        else:
            (self._mapping / SLURM).write_text(f"{turn}\n")
        devices = ContainerDevices("nvidia.com/gpu", (POD,))
        pod = PodResources(f"pod-{turn}", "lab", (ContainerResources("main", (devices,)),))
        self._pods.list(pod, _DAEMON)

    def _snapshot(self) -> Snapshot:
        now = self._now
        pids = self._pids or [0, 0, 0]
        gpus = tuple(
            GpuReading(
                uuid,
                index,
                "NVIDIA H100 80GB HBM3",
                spans=tuple(Span(now - 5 + second, now - 4 + second, second / 5) for second in range(5)),
                utilization=0.5,
                memory_used=1e9 + self._turn,
                energy=self._turn * 400.0,
                processes=(Process(pid, 1e9, 0.5, 0.25),) if self._pids else (),
                throttle=(("thermal", self._turn / 7),),
                activity=Activity(now - 5, now, tuple((unit, 0.5) for unit in ACTIVITY)),
                finished=(FinishedProcess(pid - 1, now - 5, 5.0, 0.5, 0.5, 1e9),) if self._turn % 50 == 0 else (),
            )
            for index, (uuid, pid) in enumerate(zip((SLURM, POD, LOCAL), pids, strict=True))
        )
        # And an instance that is cut anew each time.
        instance = GpuReading(
            SLURM, 0, "NVIDIA H100 80GB HBM3", mig=f"MIG-{self._turn}", mig_profile="1g.10gb", slices=1 / 7, energy=1.0
        )
        readings = (gpus[0], instance, *gpus[1:])
        return Snapshot(now, readings, visible=len(gpus), xids=(Xid(SLURM, 1000 + self._turn % 4, now),))


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def workloads(page: str) -> set[str]:
    """The workloads that a page has ownership series of."""
    return set(re.findall(r'^(?:gpu_allocation|workload_)\w*{.*\bworkload="([^"]+)"', page, re.MULTILINE))


def main(scrapes: int) -> None:
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="churn-", dir=memory if os.access(memory, os.W_OK) else None)
    try:
        churn = Churn(Path(folder))
        for scrape in range(1, scrapes + 1):
            page = churn.turn()
            if scrape % 100 == 0:
                _report(scrape, page)
        _report(scrapes, churn.end())
    finally:
        shutil.rmtree(folder)


def _report(scrapes: int, page: str) -> None:
    gc.collect()
    print(scrapes, resident(), sys.getallocatedblocks(), len(workloads(page)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
