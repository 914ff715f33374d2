"""An exporter on each node of the cluster, and the comparison of what they publish with what Slurm says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.exporter.daemon import Daemon, eventually
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries

from .cluster import GPUS, NODES, Cluster
from .truth import Owner, Owners, published_owners, slurm_owners


class Exporters:
    """Real exporters on NVML doubles, whose GPUs are those of the Slurm nodes. A context manager.

    As on many real machines, NVML's order is not that of the device files, by which Slurm counts.
    """

    def __init__(self, cluster: Cluster, libraries: Libraries) -> None:
        self._cluster = cluster
        self._libraries = libraries
        self._stack = ExitStack()
        self._environments: dict[str, Mapping[str, str]] = {}
        self._daemons: dict[str, Daemon] = {}
        self._running: dict[str, ExitStack] = {}
        self._gpus: dict[str, dict[str, int]] = {}
        self._agreed: Owners = {}

    def __enter__(self) -> Self:
        try:
            for node in NODES:
                self._add(node)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for running in self._running.values():
            running.close()
        self._stack.close()

    def _add(self, node: str) -> None:
        directory = self._cluster.node_directory(node)
        machine = self._stack.enter_context(FakeNode(directory / "machine", self._libraries, name=node, gpus=0))
        self._gpus[node] = {}
        for slot in range(GPUS):
            minor = (5 * slot + 3) % GPUS
            gpu = machine.driver.add_gpu(minor=minor)
            self._gpus[node][gpu.uuid] = minor
            entry = directory / "gpus" / gpu.bus_id
            entry.mkdir(parents=True)
            (entry / "information").write_text(driver_information(gpu.uuid, gpu.bus_id, minor))
        self._environments[node] = machine.environment
        self._start(node)

    def _start(self, node: str) -> None:
        flags = (f"--node-name={node}", "--sample-interval=300ms", "--series-hold=1s")
        with ExitStack() as stack:
            daemon = Daemon(self._cluster.node_directory(node), self._environments[node], *flags)
            self._daemons[node] = stack.enter_context(daemon)
            self._running[node] = stack.pop_all()

    def restart(self, node: str) -> None:
        """Kills a node's exporter and starts it again."""
        self._running.pop(node).close()
        self._start(node)

    def metrics(self, node: str) -> str:
        status, text = self._daemons[node].get("/metrics")
        assert status == 200
        return text

    def slurm(self) -> Owners:
        return slurm_owners(self._cluster.scontrol("--oneliner", "show", "job", "-d"))

    def published(self) -> Owners:
        owners: dict[tuple[str, int], frozenset[Owner]] = {}
        for node in NODES:
            owners.update(published_owners(self.metrics(node), node, self._gpus[node]))
        return owners

    def agree(self, condition: Callable[[Owners], bool], what: str) -> Owners:
        """Waits until Slurm's owners meet the condition and the exporters publish just these.

        Meanwhile nobody is published who neither was an owner when they last agreed nor is one now, and an owner who
        stays is published all the time.
        """
        [self._agreed] = eventually(lambda: self._compare(condition), what)
        return self._agreed

    def _compare(self, condition: Callable[[Owners], bool]) -> tuple[Owners] | None:
        before = self.slurm()
        published = self.published()
        after = self.slurm()
        nobody: frozenset[Owner] = frozenset()
        for gpu in {*self._agreed, *before, *published, *after}:
            known = [owners.get(gpu, nobody) for owners in (self._agreed, before, after)]
            said = published.get(gpu, nobody)
            assert said <= frozenset.union(*known), f"{gpu}: {said} published, where Slurm says {known}"
            assert said >= frozenset.intersection(*known), f"{gpu}: {said} published, where Slurm says {known}"
        return (before,) if before == published == after and condition(before) else None


def driver_information(uuid: str, bus_id: str, minor: int) -> str:
    """/proc/driver/nvidia/gpus/BUS/information, as the driver writes it."""
    return (
        f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.74.00.01\n"
        "Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {bus_id}\nDevice Minor: \t {minor}\nGPU Firmware: \t 535.183.01\nGPU Excluded:\t No\n"
    )
