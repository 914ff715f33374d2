"""The installer on a real Slurm of four nodes, from bare machines to the owner's mail and back: what slurmd runs, what
Prometheus finds and what is started are the installed files; afterwards nothing of ours is there, and Slurm runs jobs.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.e2e.site import wait_for
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries
from tests.fakes.smtp import MailServer
from tests.ports import AlerterAddresses, free_port
from tests.prometheus.server import PrometheusServer, program
from tests.required import lacking
from tests.slurm.accounting import lacking as lacking_for_accounting
from tests.slurm.cluster import GPUS, NODES
from tests.slurm.cluster import PROGRAMS as SLURM_PROGRAMS
from tests.slurm.exporters import driver_information

from .installed import HEAD, OURS, InstalledCluster
from .machines import PROGRAMS, Machine
from .units import Running, Unit

ROOT = Path(__file__).parents[2]
INSTALL = str(ROOT / "manifests/slurm/install.sh")
PROMETHEUS = ROOT / "manifests/slurm/prometheus.yml"
TIME_SCALE = 75.0
PATIENCE = 120.0
VERDICT = 150 * 60.0
"""Grace, the rule's window and a few passes, in seconds of the cluster."""

OWNER = "games"


@pytest.fixture
def installed_cluster() -> Iterator[InstalledCluster]:
    """Skips where Slurm or machines of their own cannot be had; in CI that is a failure."""
    if os.geteuid() != 0:
        lacking("root (for Slurm's daemons, jobs of other users and mounts)")
    missing = [name for name in (*SLURM_PROGRAMS, *PROGRAMS) if shutil.which(name) is None]
    if missing := missing + lacking_for_accounting():
        lacking(", ".join(missing))
    with InstalledCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheels` gathers, without an index: `make test` fetched the packages."""
    kept = Path(sys.prefix) / "wheels"
    if not kept.is_dir():
        lacking(f"{kept} (tools/setup.sh system-test)")
    directory = tmp_path_factory.mktemp("wheels")
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(kept)}
    command = [sys.executable, "-m", "tools.gather_wheels", "exporter", "alerter", "--to", str(directory)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return directory


def python() -> str:
    """One that every user can run, of the version that the wheels are for."""
    for candidate in ("/usr/bin/python3", str(getattr(sys, "_base_executable", sys.executable))):
        code = f"import ensurepip, sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
        probe = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", candidate, "-I", "-c", code]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return candidate
    return lacking("a Python of this version, with venv, that every user can run")


@pytest.mark.timeout(900)
def test_from_bare_machines_to_the_owners_mail_and_back(
    tmp_path: Path, nvml_libraries: Libraries, installed_cluster: InstalledCluster, wheels: Path
) -> None:
    with ExitStack() as stack:
        mail = stack.enter_context(MailServer())
        site = stack.enter_context(Site(tmp_path, nvml_libraries, installed_cluster, wheels))
        site.install_nodes()
        site.slurm.say(OURS)
        site.find_targets()
        site.start_exporters()
        site.start_prometheus()
        site.start_alerter(mail)

        job = site.slurm.submit(OWNER, "-w", "n2", "--gres=gpu:2")
        files = wait_for(site.prolog_files, "the prolog wrote the job down", within=PATIENCE)
        assert {(node, name.split(".")[1]) for node, name in files} == {("n2", str(job))}
        assert len(files) == 2

        wait_for(
            lambda: mail.messages[1:] or site.alerter.stopped(),
            "the owner is mailed",
            within=PATIENCE + VERDICT / TIME_SCALE,
        )
        told = mail.messages[1]
        assert told.recipients == (f"{OWNER}@example.org",)
        assert str(job) in told.message["Subject"] + str(told.message.get_body(("plain",)))

        site.slurm.cancel(str(job))
        wait_for(lambda: not site.prolog_files(), "the epilog took it away", within=PATIENCE)
        site.uninstall_everywhere()
        again = site.slurm.submit(OWNER, "--gres=gpu:1", script="true")
        wait_for(lambda: "COMPLETED" in site.slurm.scontrol("show", "job", str(again)), "a job runs", within=PATIENCE)
        assert site.slurm.idle() == len(NODES)


class Site:
    """What an operator does, in order. A context manager that stops what was started."""

    def __init__(self, directory: Path, libraries: Libraries, cluster: InstalledCluster, wheels: Path) -> None:
        self.slurm = cluster
        self._directory = directory
        self._options = ("--wheels", str(wheels), "--python", python())
        self._stack = ExitStack()
        # The service's user reads them, and nobody else's may read pytest's own directories.
        own = cluster.directory / "nvml"
        shutil.copytree(libraries.directory, own)
        self._libraries = replace(libraries, directory=own)
        self._nodes: dict[str, FakeNode] = {}
        self._head = cluster.machines[HEAD]
        self._port = free_port()
        for machine in cluster.machines.values():
            machine.remember()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            logs = (*self._directory.glob("*.log"), *(self.slurm.directory / "log").iterdir())
            sys.stderr.write("\n".join(f"--- {log}\n{log.read_text(errors='replace')[-2500:]}" for log in logs))
        self._stack.close()

    def _install(self, machine: Machine, *arguments: str, code: int = 0) -> str:
        return machine.run(INSTALL, *arguments, environment=self.slurm.environment, code=code)

    def install_nodes(self) -> None:
        """On all at once, as by pdsh: each says what slurm.conf lacks."""

        def install(node: str) -> None:
            machine = self.slurm.machines[node]
            would = self._install(machine, "node", "--dry-run", *self._options)
            assert "Nothing was changed: this was --dry-run." in would
            assert machine.changed() == [], node
            said = self._install(machine, "node", *self._options)
            assert "Prolog=/etc/slurm/prolog.d/*" in said, said
            assert machine.asked_of_systemd() == ["daemon-reload", "start dutycycle-exporter.service"]

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(install, NODES))

    def find_targets(self) -> None:
        """With slurm.conf as it is now, the installer has nothing to say; and the nodes are found by sinfo."""
        said = self._install(self.slurm.machines["n1"], "node", *self._options)
        assert said.startswith("Nothing to do: node is installed, and as it should be.\n")
        assert "slurm.conf" not in said
        self._install(self._head, "discovery")
        self._head.write(
            "/etc/dutycycle/slurm-sd.env",
            f"ARGUMENTS=--port {self._port}\nSLURM_CONF={self.slurm.conf}\nPATH=/usr/bin:/bin\n",
        )
        # A node that is drained is a target, too.
        self.slurm.scontrol("update", "NodeName=n3", "State=DRAIN", "Reason=test")
        Unit(self._head, "dutycycle-slurm-sd.service").run()
        self.slurm.scontrol("update", "NodeName=n3", "State=RESUME")
        groups = json.loads(self._head.read("/var/lib/dutycycle-slurm-sd/targets.json"))
        assert {group["labels"]["node"]: group["targets"] for group in groups} == {
            node: [f"{address}:{self._port}"] for node, address in self.slurm.addresses.items()
        }

    def start_exporters(self) -> None:
        for node in NODES:
            own, machine = self.slurm.node_directory(node), self.slurm.machines[node]
            fake = FakeNode(own / "machine", self._libraries, name=node, gpus=0, time_scale=TIME_SCALE, capacity=1000)
            self._nodes[node] = self._stack.enter_context(fake)
            for minor in range(GPUS):
                gpu = fake.driver.add_gpu(minor=minor)
                entry = own / "gpus" / gpu.bus_id
                entry.mkdir(parents=True)
                (entry / "information").write_text(driver_information(gpu.uuid, gpu.bus_id, minor))
            Path(fake.environment["NVML_DOUBLE_STATE"]).chmod(0o666)
            machine.write("/etc/dutycycle/prolog.conf", f"nvidia={own}/gpus\n")
            settings = {
                **fake.environment,
                "DUTYCYCLE_EXPORTER_NODE_NAME": node,
                "DUTYCYCLE_EXPORTER_WEB_LISTEN_ADDRESS": f"{self.slurm.addresses[node]}:{self._port}",
                "DUTYCYCLE_EXPORTER_TIME_SCALE": f"{TIME_SCALE:g}",
                "DUTYCYCLE_EXPORTER_SAMPLE_INTERVAL": "30s",
                "DUTYCYCLE_EXPORTER_SERIES_HOLD": "90s",
            }
            lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
            machine.write("/etc/dutycycle/exporter.env", lines)
            fake.start()
            self._start(machine, "dutycycle-exporter.service", node)

    def _start(self, machine: Machine, unit: str, name: str) -> Running:
        return self._stack.enter_context(Unit(machine, unit).start(self._directory / f"{name}.log"))

    def start_prometheus(self) -> None:
        """By the configuration that is shipped, but for the rules of the site, the file's place and the pace."""
        shipped = yaml.safe_load(PROMETHEUS.read_text())
        job = shipped["scrape_configs"][0]
        [discovery] = job["file_sd_configs"]
        discovery["files"] = [f"{self._head.upper}{path}" for path in discovery["files"]]
        config = {"global": {"scrape_interval": "600ms", "scrape_timeout": "600ms"}, "scrape_configs": [job]}
        self._prometheus = self._stack.enter_context(Configured(self._directory / "prometheus", config))
        query = f"{self._prometheus.url}/api/v1/query?query=up==1"

        def up() -> set[str]:
            with urllib.request.urlopen(query, timeout=30) as response:
                result = json.load(response)["data"]["result"]
            return {one["metric"]["node"] for one in result}

        wait_for(lambda: up() == set(NODES), "every node is up", within=PATIENCE)

    def start_alerter(self, mail: MailServer) -> None:
        said = self._install(self._head, "alerter", *self._options)
        assert "systemctl start dutycycle-alerter" in said
        assert "start dutycycle-alerter.service" not in self._head.asked_of_systemd()
        shipped = yaml.safe_load(self._head.read("/etc/dutycycle/config.yaml"))
        addresses = AlerterAddresses.free()
        sender = {"host": mail.host, "port": mail.port, "security": "none", "sender": "${MAIL_SENDER}"}
        config = {
            **shipped,
            "time_scale": TIME_SCALE,
            "prometheus": {"url": self._prometheus.url, "scrape_interval": "45s"},
            "web": {**addresses.settings, "public_url": addresses.url()},
            "notify": {
                "people": {"address": "{user}@example.org"},
                "owners": {"wasted_gpu_hours": 0},
                "receivers": [{"name": "mail", "email": {**sender, "to": ["hpc@example.org"]}}],
                "routes": [{"receiver": "mail", "audience": "owner"}],
            },
        }
        # As an editor leaves it: owner and mode are those that the installer gave.
        text = yaml.safe_dump(config)
        subprocess.run(
            self._head.command("sh", "-c", "cat > /etc/dutycycle/config.yaml"), input=text.encode(), check=True
        )
        assert self._head.run("stat", "-c", "%a %U %G", "/etc/dutycycle/config.yaml") == "640 root dutycycle-alerter\n"
        settings = f"SLURM_CONF={self.slurm.conf}\nMAIL_SENDER='gpus@example.org'\n"
        self._head.write("/etc/dutycycle/alerter.env", settings, 0o600)
        command = "/opt/dutycycle/bin/dutycycle-alerter"
        self._head.run(command, "config", "/etc/dutycycle/config.yaml")
        self._head.run(command, "notify", "test", "mail", "--config", "/etc/dutycycle/config.yaml")
        [test] = mail.messages
        assert (test.sender, test.recipients) == ("gpus@example.org", ("hpc@example.org",))
        self.alerter = self._start(self._head, "dutycycle-alerter.service", "alerter")

    def prolog_files(self) -> set[tuple[str, str]]:
        """What the prolog wrote on each node, in its own machine."""
        return {
            (node, file.name)
            for node in NODES
            for file in (self.slurm.machines[node].upper / "run/dutycycle/slurm").glob("*.json")
        }

    def uninstall_everywhere(self) -> None:
        """Not while Slurm would be left with a pattern that matches nothing; afterwards all is as it was."""
        self._stack.close()
        said = self._install(self.slurm.machines["n1"], "node", "--uninstall", "--purge", code=3)
        assert "Prolog=/etc/slurm/prolog.d/*" in said
        assert "Epilog=/etc/slurm/epilog.d/*" in said
        self.slurm.unsay(OURS)
        for name in NODES:
            self._install(self.slurm.machines[name], "node", "--uninstall", "--purge")
        for role in ("alerter", "discovery"):
            self._install(self._head, role, "--uninstall", "--purge")
        for name, machine in self.slurm.machines.items():
            machine.asked_of_systemd()
            assert machine.changed() == [], name


class Configured(PrometheusServer):
    """Prometheus with a whole configuration of a test's."""

    def __init__(self, directory: Path, config: object) -> None:
        super().__init__(directory)
        self._config.write_text(yaml.safe_dump(config))


def test_the_shipped_configuration_of_prometheus_is_one(tmp_path: Path) -> None:
    copy = tmp_path / "prometheus.yml"
    copy.write_text(PROMETHEUS.read_text())
    done = subprocess.run(
        [program("promtool"), "check", "config", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
