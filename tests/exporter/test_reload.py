"""SIGHUP: what a changed file changes, what it does not, and that a wrong one changes nothing."""

from __future__ import annotations

import logging
import signal

import pytest

from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.model import GpuReading, Process
from dutycycle_exporter.ownership import NodeOwnership
from dutycycle_exporter.reload import Configuration
from tests.exporter.daemon import Daemon, eventually
from tests.exporter.published import samples
from tests.exporter.web_server import bcrypt, tls_file
from tests.fakes.cgroup import slurm_task
from tests.fakes.clock import FakeClock
from tests.fakes.proc import FakeProcess, ProcTree
from tests.fakes.slurm_prolog import PrologWriter


class Course:
    """A configuration whose next reading a test sets, and what was put in force."""

    def __init__(self):
        self.next = read_settings([])
        self.applied = []
        self.refuse = None
        self.clock = FakeClock()
        self.configuration = Configuration(self.next, read=self.read, apply=self.apply, clock=self.clock)

    def read(self):
        if isinstance(self.next, Exception):
            raise self.next
        return self.next

    def apply(self, settings):
        if self.refuse:
            raise self.refuse
        self.applied.append(settings)
        return ()


@pytest.fixture
def course():
    return Course()


def test_what_can_be_changed_is_and_what_needs_a_restart_is_named(course, caplog):
    caplog.set_level(logging.INFO)
    course.next = read_settings(["--cluster=alps", "--web.listen-address=:1", "--collect.processes", "--time-scale=2"])
    course.clock.advance(60)
    course.configuration.reload()
    (applied,) = course.applied
    assert (applied.cluster, applied.listen, applied.time_scale) == ("alps", ":9836", 1)
    assert course.configuration.settings == applied
    assert "only a restart changes --time-scale, --web.listen-address" in caplog.text
    assert "changed: --cluster, --collect" in caplog.text
    assert (course.configuration.state.successful, course.configuration.state.at) == (True, course.clock.now)


@pytest.mark.parametrize("error", [ConfigError("x.yaml: cluser: unknown key"), ZeroDivisionError("a defect")])
@pytest.mark.parametrize("where", ["read", "apply"])
def test_what_cannot_be_used_changes_nothing_until_it_is_mended(course, caplog, error, where):
    before, at = course.configuration.settings, course.configuration.state.at
    if where == "read":
        course.next = error
    else:
        course.refuse, course.next = error, read_settings(["--cluster=alps"])
    course.clock.advance(60)
    course.configuration.reload()
    assert course.configuration.settings == before
    assert (course.configuration.state.successful, course.configuration.state.at) == (False, at)
    assert str(error) in caplog.text
    course.next, course.refuse = read_settings(["--cluster=alps"]), None
    course.configuration.reload()
    assert course.configuration.state.successful
    assert course.configuration.settings.cluster == "alps"


NOW = 1_700_001_000.0
A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"


class Node:
    """A shell job on GPU A whose first process has ended, a Slurm job on GPU B, and who has them by the settings."""

    def __init__(self, tmp_path):
        self.flags = [
            "--no-kubernetes",
            "--attribution.local",
            *(f"--path.{name}={tmp_path / name}" for name in ("procfs", "cgroup")),
            f"--slurm.prolog-dir={tmp_path / 'prolog'}",
        ]
        self.processes = ProcTree(tmp_path / "procfs")
        self.processes.add(FakeProcess(100, NOW - 500, pgid=100))
        self.processes.add(FakeProcess(101, NOW - 400, pgid=100))
        self.processes.add(FakeProcess(200, NOW - 400, slurm_task(7)))
        self.ownership = NodeOwnership(read_settings(self.flags))
        self.now = NOW
        assert self.held(a=[101], b=[200]) == self.first
        self.processes.remove(100)

    first = ((A, "local/100-1700000500"), (B, "slurm/7"))

    def resolve(self, **pids):
        """GPUs that are not named do not answer."""
        self.now += 5
        gpus = {"a": A, "b": B}
        return self.ownership.resolve(
            [GpuReading(gpus[gpu], 0, "H100", processes=tuple(map(Process, pids[gpu]))) for gpu in pids], self.now
        )

    def held(self, **pids):
        return tuple((one.device, one.workload.id) for one in self.resolve(**pids).allocations)

    def reload(self, *flags):
        self.ownership.apply(read_settings([*self.flags, *flags]))


@pytest.mark.parametrize(
    "flag",
    [
        "--log-level=debug",
        "--cluster=other",
        "--collect.processes",
        "--no-collect.host",
        "--slurm.job-mapping-dir=/nonexistent",
        "--slurm.prolog-dir=/nonexistent",
    ],
)
def test_owners_keep_their_names_and_their_gpus_whatever_is_changed(tmp_path, flag):
    """Also on a GPU that has fallen off the bus, and where the process is gone by which a workload is called."""
    node = Node(tmp_path)
    for flags in ((flag,), ()):
        node.reload(*flags)
        for _ in range(3):
            assert node.held(a=[101]) == node.first


def test_an_allocation_outlives_an_empty_answer_right_after_a_reload(tmp_path):
    node = Node(tmp_path)
    node.reload("--log-level=debug")
    assert node.held(a=[101], b=[]) == node.first
    assert node.held(a=[101], b=[]) == node.first[:1]


def test_what_is_told_of_owners_changes_with_a_reload(tmp_path):
    node = Node(tmp_path)
    assert not node.resolve(a=[101], b=[200]).people
    node.reload("--collect.processes")
    assert node.resolve(a=[101], b=[200]).people.keys() == {101, 200}
    node.reload("--no-attribution.local")
    assert node.resolve(a=[101], b=[200]).pids == {200: "slurm/7"}
    PrologWriter(tmp_path / "other").start(9, [A])
    node.reload(f"--slurm.prolog-dir={tmp_path / 'other'}")
    assert node.held(a=[101], b=[200]) == ((A, "slurm/9"), (B, "slurm/7"))
    mapping = tmp_path / "mapping"
    mapping.mkdir(mode=0o755)
    (mapping / B).write_text("11\n")
    (mapping / B).chmod(0o644)
    node.reload(f"--slurm.job-mapping-dir={mapping}")
    node.resolve(a=[101], b=[200])
    assert dict(node.held(a=[101], b=[200]))[B] == "slurm/11"
    node.reload()
    node.resolve(a=[101], b=[200])
    assert dict(node.held(a=[101], b=[200]))[B] == "slurm/7"


@pytest.fixture
def daemon(nvml_driver, tmp_path):
    driver = nvml_driver()
    driver.add_gpu()
    PrologWriter(tmp_path / "prolog").start(7, [driver.gpus[0].uuid])
    (tmp_path / "exporter.yaml").write_text("cluster: before\nsample-interval: 250ms\nseries-hold: 250ms\n")
    (tmp_path / "web.yml").write_text("")
    flags = (f"--config.file={tmp_path / 'exporter.yaml'}", f"--web.config.file={tmp_path / 'web.yml'}")
    with Daemon(tmp_path, driver.start().environment, *flags) as daemon:
        eventually(lambda: daemon.total("workload_gpu_allocated_seconds_total", cluster="before") > 1)
        yield daemon


def reload(daemon, tmp_path, text):
    (tmp_path / "exporter.yaml").write_text(text)
    lines = len(daemon.log)
    daemon.signal(signal.SIGHUP)
    eventually(lambda: "configuration was" in daemon.log[lines:])
    return daemon.log[lines:]


def state(daemon):
    return daemon.values("dutycycle_exporter_config_last_reload_successful")


def test_a_reload_changes_labels_and_sampling_and_loses_no_counter(daemon, tmp_path):
    child, counted = daemon.child(), daemon.total("workload_gpu_allocated_seconds_total")
    said = reload(daemon, tmp_path, "cluster: after\nsample-interval: 300ms\nlog-level: debug\nnode-name: n9\n")
    assert "changed: --cluster, --log-level, --sample-interval, --series-hold" in said
    assert "only a restart changes --node-name" in said
    eventually(lambda: daemon.child() not in (None, child))
    assert daemon.total("workload_gpu_allocated_seconds_total", cluster="after") >= counted
    assert not daemon.values("gpu_allocation", cluster="before")
    assert daemon.values("dutycycle_exporter_child_restarts_total", reason="reload") == [1]
    assert state(daemon) == [1]
    # The time of the change itself is not lost either: ownership goes on.
    eventually(lambda: daemon.total("workload_gpu_allocated_seconds_total") > counted + 1)


def test_a_reload_warns_of_an_interval_that_is_too_long(daemon, tmp_path):
    assert "NVML's buffer holds" in reload(daemon, tmp_path, "sample-interval: 11s\n")


@pytest.mark.parametrize(
    "text", ["clutser: after\n", "cluster: [", "sample-interval: never\n", "log-level: 1\n", "", "# nothing\n"]
)
def test_an_invalid_file_keeps_the_old_configuration_and_a_metric_says_so(daemon, tmp_path, text):
    child, since = daemon.child(), daemon.values("dutycycle_exporter_config_last_reload_success_timestamp_seconds")
    said = reload(daemon, tmp_path, text)
    assert "exporter.yaml" in said
    assert said.count("\n") == 1
    assert state(daemon) == [0]
    assert daemon.values("dutycycle_exporter_config_last_reload_success_timestamp_seconds") == since
    assert daemon.values("gpu_allocation", cluster="before") == [1]
    assert daemon.child() == child
    reload(daemon, tmp_path, "cluster: mended\nsample-interval: 250ms\nseries-hold: 250ms\n")
    assert state(daemon) == [1]
    assert daemon.values("gpu_allocation", cluster="mended") == [1]


def test_a_reload_names_the_sections_of_the_web_configuration_that_changed(daemon, tmp_path, authority):
    base, secret = "cluster: before\nsample-interval: 250ms\nseries-hold: 250ms\n", bcrypt("right")
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  alice: {secret}\n")
    said = reload(daemon, tmp_path, base)
    assert "changed: --web.config.file (basic_auth_users)" in said
    certificate = authority.issue("server")
    tls = tls_file(
        certificate,
        "  client_auth_type: RequireAndVerifyClientCert",
        f"  client_ca_file: {authority.pair.cert}",
    )
    (tmp_path / "web.yml").write_text(tls)
    said += reload(daemon, tmp_path, base)
    assert "changed: --web.config.file (basic_auth_users, tls_server_config)" in said
    assert secret not in said
    assert "changed: nothing" in reload(daemon, tmp_path, base)


def test_an_invalid_web_configuration_keeps_everything_else_as_it_was(daemon, tmp_path):
    (tmp_path / "web.yml").write_text("basic_auth_user: {}")
    said = reload(daemon, tmp_path, "cluster: after\nsample-interval: 250ms\nseries-hold: 250ms\n")
    assert "did you mean basic_auth_users?" in said
    assert state(daemon) == [0]
    assert daemon.values("gpu_allocation", cluster="before") == [1]


def test_a_web_configuration_that_has_become_empty_is_a_reload_that_failed(daemon, tmp_path):
    base = "cluster: before\nsample-interval: 250ms\nseries-hold: 250ms\n"
    (tmp_path / "web.yml").write_text("http_server_config: {headers: {X-Frame-Options: deny}}")
    reload(daemon, tmp_path, base)
    assert state(daemon) == [1]
    (tmp_path / "web.yml").write_text("")
    assert "web.yml: has no key any more" in reload(daemon, tmp_path, base)
    assert state(daemon) == [0]


OWN = {
    "memory": "gpu_memory_used_bytes",
    "power": "gpu_power_watts",
    "temperature": "gpu_temperature_celsius",
    "clocks": "gpu_clock_hertz",
}


def shown(daemon):
    """Which of the metrics that are switched, and of those that are not, one page has."""
    text = daemon.get("/metrics")[1]
    return {name for name in (*OWN.values(), "gpu_utilization_ratio") if samples(text, name)}


def test_collectors_are_switched_while_it_runs(daemon, tmp_path):
    """What is off is absent, not 0; what is on goes on."""
    base = "cluster: before\nsample-interval: 250ms\nseries-hold: 250ms\n"
    every = {*OWN.values(), "gpu_utilization_ratio"}
    eventually(lambda: shown(daemon) == every)
    for switch, name in OWN.items():
        reload(daemon, tmp_path, f"{base}collect.{switch}: false\n")
        eventually(lambda name=name: shown(daemon) == every - {name})
    reload(daemon, tmp_path, base)
    eventually(lambda: shown(daemon) == every)
    assert daemon.total("dutycycle_exporter_child_restarts_total") == len(OWN) + 1
