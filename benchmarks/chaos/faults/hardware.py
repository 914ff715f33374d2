"""What happens to GPUs, to NVML and to the kubelet."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import ClassVar, Self

import pynvml

from tests.fakes import kubelet
from tests.slurm.cluster import NODES

from ..cases import POD_GPUS
from ..record import Effects
from ..site import POD_NODE, Site
from .base import Fault
from .processes import OnMachine

FREE_SLOT = POD_GPUS - 1
"""Of the Kubernetes node: a GPU that is free all the time."""
_CALLS = ("nvmlDeviceGetSamples", "nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperature", "nvmlDeviceGetMemoryInfo")


class _OnSlurmMachine(OnMachine):
    """A fault of a node whose GPUs are Slurm's."""

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(NODES))


class GpuLost(_OnSlurmMachine):
    """A GPU falls off the bus, and comes back: operators are told of it, and nobody is accused."""

    name = "gpu-lost"
    lasts = (10.0, 16.0)

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(blinds=frozenset({node}), broken=frozenset({node}))

    def begin(self, site: Site) -> None:
        site.machines[self.node].fake.driver.lose(0)

    def end(self, site: Site) -> None:
        site.machines[self.node].fake.driver.restore(0)


class MigReconfigured(Fault):
    """A free GPU is cut into MIG instances, into others, and made whole again."""

    name = "mig-reconfigured"
    touches = frozenset({POD_NODE})
    effects = Effects(blinds=frozenset({POD_NODE}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - one GPU is free all the time
        return cls()

    def begin(self, site: Site) -> None:
        driver = site.machines[POD_NODE].fake.driver
        driver.set_mig(FREE_SLOT, ["3g.40gb", None, "1g.10gb"])
        time.sleep(1)
        driver.set_mig(FREE_SLOT, ["1g.10gb", "1g.10gb", "2g.20gb"])

    def end(self, site: Site) -> None:
        site.machines[POD_NODE].fake.driver.set_mig(FREE_SLOT, None)


class CallHangs(OnMachine):
    """A call of NVML never returns, on one GPU: the child is replaced, and /metrics answers all the while."""

    name = "nvml-call-hangs"
    lasts = (12.0, 18.0)

    def __init__(self, node: str, call: str) -> None:
        super().__init__(node)
        self._call = call
        own = frozenset({node})
        self.effects = Effects(blinds=own, replaces=own, says=frozenset({f"nvml:{node}"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(NODES), chance.choice(_CALLS))

    @property
    def what(self) -> str:
        return f"{self.node}, {self._call}"

    def begin(self, site: Site) -> None:
        site.machines[self.node].fake.driver.hang(self._call, 1)

    def end(self, site: Site) -> None:
        site.machines[self.node].fake.driver.heal(self._call, 1)


class DriverReloaded(OnMachine):
    """The driver is unloaded and loaded again: meanwhile every call of NVML fails."""

    name = "driver-reloaded"
    result: ClassVar[int] = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    lasts = (10.0, 14.0)

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(blinds=frozenset({node}), says=frozenset({f"nvml:{node}"}))

    def begin(self, site: Site) -> None:
        driver = site.machines[self.node].fake.driver
        driver.fail("nvmlDeviceGetCount", self.result)
        driver.fail("nvmlInit", self.result)

    def end(self, site: Site) -> None:
        driver = site.machines[self.node].fake.driver
        driver.heal("nvmlInit")
        driver.heal("nvmlDeviceGetCount")


class DriverUpgraded(DriverReloaded):
    """The driver is upgraded under the library: only a restart of the container helps, and liveness may say so."""

    name = "driver-upgraded"
    result = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = replace(self.effects, restart_helps=frozenset({node}))


class KubeletKilled(Fault):
    """The kubelet is killed; when it is back it lists no pods for a second, as real ones do."""

    name = "kubelet-killed"
    touches = frozenset({POD_NODE})
    # After ten minutes of the full-length run whose the GPUs are is unknown.
    effects = Effects(
        blinds=frozenset({POD_NODE}), halts=frozenset({"kubernetes"}), says=frozenset({f"kubelet:{POD_NODE}"})
    )

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one
        return cls()

    def begin(self, site: Site) -> None:
        site.kubelet.stop()

    def end(self, site: Site) -> None:
        self._come_back(site)

    def _come_back(self, site: Site) -> None:
        pods, site.kubelet.pods = site.kubelet.pods, []
        site.kubelet.start()
        time.sleep(1)
        site.kubelet.pods = pods


class KubeletRestarted(KubeletKilled):
    """The kubelet is restarted, and lists no pods for a second."""

    name = "kubelet-restarted"
    lasts = (3.0, 4.0)
    effects = replace(KubeletKilled.effects, says=frozenset())

    def begin(self, site: Site) -> None:
        site.kubelet.stop()
        self._come_back(site)

    def end(self, site: Site) -> None:
        """It is back already."""


class KubeletHangs(KubeletKilled):
    """The kubelet takes connections, and says nothing."""

    name = "kubelet-hangs"

    def begin(self, site: Site) -> None:
        site.kubelet.fault = kubelet.Fault.HANG

    def end(self, site: Site) -> None:
        site.kubelet.fault = None
        site.kubelet.goodbye.set()
        site.kubelet.stop()
        site.kubelet.start()


HARDWARE = (
    GpuLost,
    MigReconfigured,
    CallHangs,
    DriverReloaded,
    DriverUpgraded,
    KubeletKilled,
    KubeletRestarted,
    KubeletHangs,
)
