"""The site: Slurm and Kubernetes nodes, Prometheus, PostgreSQL, two alerters, and the links between all of them.

Everything listens on loopback. Doubles are GPUs, kubelet, API server, mail server, Slack and the program that is told
by webhook; the rest is real.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dutycycle_alerter
import dutycycle_exporter
from tests.cluster.site import MINORS
from tests.cluster.slurm import MortalCluster
from tests.e2e.site import wait_for
from tests.fakes import alertmanager, kubelet
from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes import node as node_object
from tests.fakes.kubernetes.access import ALL
from tests.fakes.nvml import build
from tests.fakes.pci import CONTROLLER_3D
from tests.postgres.server import PASSWORD
from tests.slurm.accounting import lacking
from tests.slurm.cluster import NODES, PROGRAMS
from tests.slurm.exporters import driver_information

from . import clocks
from .alerters import Replica
from .cases import CUT, CUT_SLOT, INSTANCE_CASES, NOTEBOOKS, POD_CASES, POD_GPUS, SLURM_CASES
from .certificates import Authority
from .clocks import SteppedClock
from .databases import Database
from .disks import mountable
from .links import Link
from .machines import INTERVAL, Machine
from .processes import Program
from .prometheus import Prometheus
from .promises.bounds import NOTICED
from .receivers import Receivers
from .workload import Place, Workload

_COMES_UP = 120.0
"""Wall seconds until something that has to come up is given up."""
POD_NODE = "k1"
_TOKEN_LIFE = 4 * 3600
_KUBERNETES_TOKEN = "one-that-no-page-may-show-5b1f0c"


def missing() -> list[str]:
    """What a site needs and this machine lacks."""
    programs = (*PROGRAMS, "sacct", "openssl", "gcc", "mount")
    absent = [program for program in programs if shutil.which(program) is None] + lacking() + alertmanager.missing()
    if os.geteuid():
        return ["root", *absent]
    return absent if absent or mountable() else ["the right to mount a tmpfs"]


class _Slurm(MortalCluster):
    """One whose jobs nobody waits for at the end: what is left of them is killed."""

    def _end_jobs(self) -> None:
        """They end with their steps. To cancel them would take two minutes where a Ctrl-C, which all of Slurm gets, has
        ended the controller already, or the dead are buried late.
        """


class Site:
    """A context manager; everything runs within it, and what it said is in `directory`."""

    def __init__(self, directory: Path, time_scale: float) -> None:
        self.directory = directory
        self.time_scale = time_scale
        self._stack = ExitStack()
        self.machines: dict[str, Machine] = {}
        self.replicas: dict[str, Replica] = {}

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            self.keep_logs()
        finally:
            self._stack.close()

    def _build(self) -> None:
        enter = self._stack.enter_context
        libraries = build(self.directory / "nvml")
        self._copy_programs()
        self._clock_library = clocks.build(self.directory)
        issuing = enter(SteppedClock(self.directory / "clock-of-the-authority", self._clock_library))
        authority = Authority(self.directory / "certificates", issuing)
        # Short, as the paths of sockets have to be.
        sockets = Path(enter(tempfile.TemporaryDirectory(prefix="chaos-")))
        self.slurm = enter(_Slurm())
        for name in NODES:
            self._add_slurm_node(name, libraries, authority)
        self.kubelet = kubelet.FakeKubelet(sockets / "kubelet.sock").start()
        self._stack.callback(self.kubelet.stop)
        self.kubelet_link = enter(Link("kubelet", self.kubelet.path, at=sockets / "link.sock"))
        self._add_machine(POD_NODE, libraries, authority, POD_GPUS, (f"--kubernetes.socket={sockets / 'link.sock'}",))
        self._api_certificate = authority.certificate("kubernetes")
        self.kubernetes = enter(KubernetesServer(tls=self._api_certificate.pair))
        self.kubernetes.add_user("dutycycle", _KUBERNETES_TOKEN, ALL)
        group, version = NOTEBOOKS[0].split("/")
        self.kubernetes.install(group, version, NOTEBOOKS[1], "notebooks")
        self.kubernetes.put(node_object(POD_NODE, POD_GPUS))
        self.kubernetes_link = enter(Link("kubernetes", int(self.kubernetes.url.rpartition(":")[2])))
        self.slurm_link = enter(Link("slurmrestd", self.slurm.rest_port))
        self.receivers = enter(Receivers(self.directory, authority))
        self.database = enter(Database())
        prologs = {name: self.slurm.node_directory(name) / "prolog" for name in NODES}
        fakes = {name: machine.fake for name, machine in self.machines.items()}
        self.workload = Workload(self.slurm, fakes, prologs, SLURM_CASES, self.time_scale)
        targets = [f"127.0.0.1:{machine.scraped_through.port}" for machine in self.machines.values()]
        interval = INTERVAL / self.time_scale
        self.prometheus = enter(Prometheus(self.directory / "prometheus", targets, authority, interval))
        for name in ("a", "b"):
            replica = Replica(name, self.directory, self.database.server.port, self._clock_library, self._programs)
            self.replicas[name] = enter(replica)
        self.authority = authority.chain

    def _copy_programs(self) -> None:
        """What runs is what there was at the beginning: a child that is replaced later is of the same program."""
        self._programs = self.directory / "programs"
        for package in (dutycycle_exporter, dutycycle_alerter):
            source = Path(package.__file__).parent
            shutil.copytree(source, self._programs / source.name, ignore=shutil.ignore_patterns("__pycache__"))

    def _add_slurm_node(self, name: str, libraries: Any, authority: Authority) -> None:
        own = self.slurm.node_directory(name)
        machine = self._add_machine(name, libraries, authority, 0, (f"--slurm.prolog-dir={own / 'prolog'}",))
        for minor in MINORS:
            gpu = machine.fake.driver.add_gpu(minor=minor)
            machine.fake.pci.add(gpu.bus_id, pci_class=CONTROLLER_3D)
            entry = own / "gpus" / gpu.bus_id
            entry.mkdir(parents=True)
            (entry / "information").write_text(driver_information(gpu.uuid, gpu.bus_id, minor))

    def _add_machine(
        self, name: str, libraries: Any, authority: Authority, gpus: int, options: tuple[str, ...]
    ) -> Machine:
        machine = Machine(
            name,
            self.directory,
            libraries,
            authority,
            self._clock_library,
            gpus=gpus,
            time_scale=self.time_scale,
            options=options,
            programs=self._programs,
        )
        self.machines[name] = self._stack.enter_context(machine)
        return machine

    def start(self) -> None:
        """Exporters first, then the alerters, then the jobs; returns when everything answers."""
        for machine in self.machines.values():
            machine.start()
        self._pods()
        settings = self._settings()
        for replica in self.replicas.values():
            replica.configure(settings, self.database.url, self.time_scale)
        first, second = self.replicas.values()
        first.program.begin()
        wait_for(lambda: self._judges(first), "the first alerter judges", within=_COMES_UP)
        self.database.audit()
        second.program.begin()
        wait_for(lambda: second.json("/api/v1/status"), "the second one answers", within=_COMES_UP)
        self._stack.enter_context(self.workload)

    @staticmethod
    def _judges(replica: Replica) -> bool:
        if replica.program.ended_by_itself():
            raise RuntimeError(f"the alerter ended: {replica.program.log()}")
        return bool(replica.json("/api/v1/status")["last_pass"])

    def _pods(self) -> None:
        driver, first = self.machines[POD_NODE].fake.driver, 0
        for name, case in POD_CASES.items():
            places: dict[Place, str] = {slot: driver.gpus[slot].uuid for slot in range(first, first + case.gpus)}
            self.workload.run_pods(name, case, self.kubernetes, self.kubelet, places)
            first += case.gpus
        cut = driver.set_mig(CUT_SLOT, list(CUT))
        self.instances = {POD_NODE: frozenset(cut)}
        for name, (profile, case) in INSTANCE_CASES.items():
            index = list(CUT).index(profile)
            places = {(CUT_SLOT, index): cut[index]}
            self.workload.run_pods(name, case, self.kubernetes, self.kubelet, places, f"nvidia.com/mig-{profile}")

    def _settings(self) -> dict[str, Any]:
        self._slurm_token = self.slurm.token("root", _TOKEN_LIFE)
        kubeconfig = self.directory / "kubeconfig.json"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(self._kubeconfig()))
        return {
            "prometheus": {
                "url": self.prometheus.url,
                "ca_file": str(self.authority),
                "scrape_interval": f"{INTERVAL:g}s",
                "timeout": "3s",
                # One that falls silent in the midst of a pass is asked all that is left of it, one time-out each.
                "pass_timeout": f"{NOTICED:g}s",
            },
            "slurm": {
                "url": f"http://127.0.0.1:{self.slurm_link.port}",
                "user": "root",
                "token": self._slurm_token,
                "timeout": "3s",
            },
            "kubernetes": [{"kubeconfig": str(kubeconfig), "timeout": "3s"}],
            "notify": self.receivers.settings(),
        }

    def _kubeconfig(self) -> dict[str, Any]:
        server = f"https://127.0.0.1:{self.kubernetes_link.port}"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "site", "cluster": {"server": server, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "dutycycle", "user": {"token": _KUBERNETES_TOKEN}}],
            "contexts": [{"name": "site", "context": {"cluster": "site", "user": "dutycycle"}}],
            "current-context": "site",
        }

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be in no log and on no page."""
        return (*self.receivers.secrets, PASSWORD, self._slurm_token, _KUBERNETES_TOKEN)

    @property
    def programs(self) -> tuple[Program, ...]:
        """Ours."""
        return (
            *(machine.exporter for machine in self.machines.values()),
            *(replica.program for replica in self.replicas.values()),
        )

    def logs(self) -> tuple[Path, ...]:
        """Of our own programs."""
        return tuple(sorted(self.directory.glob("exporter-*.log")) + sorted(self.directory.glob("alerter-*.log")))

    def keep_logs(self) -> None:
        """Those of the other parts beside ours."""
        said = self.directory / "others"
        said.mkdir(exist_ok=True)
        if hasattr(self, "slurm"):
            for log in (self.slurm.directory / "log").glob("*"):
                shutil.copy(log, said / f"slurm-{log.name}")
        if hasattr(self, "database"):
            (said / "postgresql.log").write_text(self.database.server.log)

    def replace_kubernetes_certificate(self, *, expired: bool) -> None:
        """New connections to the API server get the one that there is now."""
        context = self.kubernetes.tls
        assert context is not None
        self._api_certificate.replace(context, expired=expired)

    def leader(self) -> Replica | None:
        """Who says that it evaluates; None where nobody answers that they do."""
        for replica in self.replicas.values():
            try:
                _, text = replica.get("/metrics", timeout=2)
            except OSError:
                continue
            if "\ndutycycle_alerter_leader 1" in text:
                return replica
        return None

    def supervise(self) -> None:
        """As systemd does: what ended and should run is started again."""
        for program in self.programs:
            if program.ended_by_itself():
                program.start()

    def sleep(self, minutes: float) -> None:
        """Let so many minutes of the full-length run pass."""
        time.sleep(60 * minutes / self.time_scale)
