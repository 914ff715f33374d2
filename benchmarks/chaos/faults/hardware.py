"""What happens to GPUs, to NVML and to the kubelet."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import ClassVar, Self

import pynvml

from tests.fakes import kubelet
from tests.fakes.nvml import Driver
from tests.slurm.cluster import NODES

from .. import probes
from ..cases import FREE_SLOT
from ..happened import Effects
from ..promises.bounds import LOOK, LOOKS, SHOWN
from ..site import POD_NODE, Site
from .base import Fault
from .processes import OnMachine

_CALLS = ("nvmlDeviceGetSamples", "nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperature", "nvmlDeviceGetMemoryInfo")
_ASKED_WITHIN = 15.0
"""Wall seconds within which an exporter asks its kubelet again."""


class _OnSlurmMachine(OnMachine):
    """A fault of a node whose GPUs are Slurm's."""

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(NODES))


class GpuLost(_OnSlurmMachine):
    """A GPU falls off the bus, and comes back: operators are told of it, nobody is accused, and the others are seen."""

    name = "gpu-lost"
    lasts = (10.0, 16.0)

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(broken=frozenset({node}))

    def begin(self, site: Site) -> None:
        driver = site.machines[self.node].fake.driver
        self.effects = replace(self.effects, blinds=frozenset({driver.gpus[0].uuid}))
        self.lose(driver)

    def lose(self, driver: Driver) -> None:
        """It happens to the first one."""
        driver.lose(0)

    def in_force(self, site: Site) -> bool | None:
        [first, *_] = site.machines[self.node].nvml()["gpus"]
        return bool(first["error"] == pynvml.NVML_ERROR_GPU_IS_LOST)

    def end(self, site: Site) -> None:
        site.machines[self.node].fake.driver.restore(0)


class GpuVanished(GpuLost):
    """A GPU is gone from NVML's count, and those after it are counted anew, until it is back: operators are told."""

    name = "gpu-vanished"

    def lose(self, driver: Driver) -> None:
        driver.vanish(0)

    def in_force(self, site: Site) -> bool | None:
        machine = site.machines[self.node]
        return len(machine.nvml()["gpus"]) < machine.gpus


class MigReconfigured(Fault):
    """A free GPU is cut into MIG instances, into others, and made whole again: what there is is shown, and no more of
    what was; the others are seen all the while, and so are the instances of another GPU.
    """

    name = "mig-reconfigured"
    touches = frozenset({POD_NODE})
    lasts = (SHOWN + LOOKS * LOOK, SHOWN + LOOKS * LOOK + 4.0)

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - one GPU is free all the time
        return cls()

    def begin(self, site: Site) -> None:
        driver = site.machines[POD_NODE].fake.driver
        driver.set_mig(FREE_SLOT, ["3g.40gb", None, "1g.10gb"])
        time.sleep(1)
        made = driver.set_mig(FREE_SLOT, ["1g.10gb", "1g.10gb", "2g.20gb"])
        self.effects = Effects(instances=frozenset(made))

    def in_force(self, site: Site) -> bool | None:
        return bool(site.machines[POD_NODE].nvml()["gpus"][FREE_SLOT]["mig"])

    def end(self, site: Site) -> None:
        site.machines[POD_NODE].fake.driver.set_mig(FREE_SLOT, None)


class CallHangs(OnMachine):
    """A call of NVML never returns, on one GPU: the child is replaced, that GPU is left out and counts as lost until it
    returns, and /metrics answers all the while.
    """

    name = "nvml-call-hangs"

    def __init__(self, node: str, call: str) -> None:
        super().__init__(node)
        self._call = call
        own = frozenset({node})
        # While it is found out which GPU it is, nobody learns anything of the others either.
        self.effects = Effects(blinds=own, replaces=own, broken=own, says=frozenset({f"left-out:{node}"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(chance.choice(NODES), chance.choice(_CALLS))

    @property
    def what(self) -> str:
        return f"{self.node}, {self._call}"

    def begin(self, site: Site) -> None:
        driver = site.machines[self.node].fake.driver
        self._before = driver.state.hung(self._call)
        driver.hang(self._call, 1)

    def in_force(self, site: Site) -> bool | None:
        return site.machines[self.node].fake.driver.state.hung(self._call) > self._before

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

    def in_force(self, site: Site) -> bool | None:
        return bool(site.machines[self.node].nvml()["error"] == self.result)

    def end(self, site: Site) -> None:
        driver = site.machines[self.node].fake.driver
        driver.heal("nvmlInit")
        driver.heal("nvmlDeviceGetCount")


class DriverUpgraded(DriverReloaded):
    """The driver is upgraded under the library: only a restart of the container helps, and liveness says so."""

    name = "driver-upgraded"
    result = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH

    def __init__(self, node: str) -> None:
        super().__init__(node)
        says = self.effects.says | {f"restart:{node}"}
        self.effects = replace(self.effects, says=says, restart_helps=frozenset({node}))


class KubeletKilled(Fault):
    """The kubelet is killed; when it is back it lists no pods at first, as real ones do, until it was asked once."""

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

    def in_force(self, site: Site) -> bool | None:
        return probes.refused(site.kubelet.path)

    def end(self, site: Site) -> None:
        self.come_back(site)

    def come_back(self, site: Site) -> bool:
        """Returns whether somebody was told that there are no pods."""
        site.kubelet.starting = True
        asked = len(site.kubelet.calls)
        site.kubelet.start()
        deadline = time.monotonic() + _ASKED_WITHIN
        while len(site.kubelet.calls) == asked and time.monotonic() < deadline:
            time.sleep(0.1)
        site.kubelet.starting = False
        return len(site.kubelet.calls) > asked


class KubeletRestarted(KubeletKilled):
    """The kubelet is restarted, and lists no pods until it was asked once."""

    name = "kubelet-restarted"
    lasts = (3.0, 4.0)
    effects = replace(KubeletKilled.effects, says=frozenset())

    def begin(self, site: Site) -> None:
        site.kubelet.stop()
        self._asked = self.come_back(site)

    def in_force(self, site: Site) -> bool | None:  # noqa: ARG002 - it is back already
        return self._asked

    def end(self, site: Site) -> None:
        """It is back already."""


class KubeletHangs(KubeletKilled):
    """The kubelet takes connections, and says nothing."""

    name = "kubelet-hangs"

    def begin(self, site: Site) -> None:
        self._answered = len(site.kubelet.calls)
        site.kubelet.fault = kubelet.Fault.HANG

    def in_force(self, site: Site) -> bool | None:
        # An answer may have been under way.
        return len(site.kubelet.calls) <= self._answered + 1

    def end(self, site: Site) -> None:
        site.kubelet.fault = None
        site.kubelet.goodbye.set()
        site.kubelet.stop()
        site.kubelet.start()


HARDWARE = (
    GpuLost,
    GpuVanished,
    MigReconfigured,
    CallHangs,
    DriverReloaded,
    DriverUpgraded,
    KubeletKilled,
    KubeletRestarted,
    KubeletHangs,
)
