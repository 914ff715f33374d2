"""NVML released on demand: no child until the driver was exchanged, in the supervisor and in the real process."""

from __future__ import annotations

import signal
import sys
import threading

import pytest

from dutycycle_exporter import supervisor
from dutycycle_exporter.driver import loaded_driver
from dutycycle_exporter.supervisor import Supervisor
from tests.exporter.daemon import Daemon, alive, eventually
from tests.exporter.test_supervisor import PRELUDE, Watch

SAMPLE = "while True: send(fd, snapshot); time.sleep(0.01)"


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "_DRIVER_LOOK", 0.01)
    # A busy machine lets a process that was killed wait for its end.
    monkeypatch.setattr(supervisor, "_REAP_WITHIN", 60.0)


class Kernel:
    """Which driver it has, and whether anybody looked."""

    def __init__(self, driver):
        self.driver, self.looks = driver, 0

    def __call__(self):
        self.looks += 1
        return self.driver

    def seen(self):
        """Wait until the present driver was looked at for certain."""
        before = self.looks
        eventually(lambda: self.looks > before + 1)


@pytest.fixture
def released():
    """A supervisor whose child has been released, and what its kernel has."""
    watches = []

    def make(driver, timeout=600.0):
        kernel = Kernel(driver)
        watch = Watch(SAMPLE)
        watch.supervisor._driver, watch.supervisor._release_timeout = kernel, timeout
        watch.__enter__()
        watches.append(watch)
        eventually(lambda: watch.pids)
        watch.supervisor.release()
        eventually(lambda: watch.losses)
        assert watch.losses[0][0] == "released"
        assert "another SIGUSR1" in watch.losses[0][1]
        assert not alive(watch.pids[-1])
        del watch.pids[:]
        return watch, kernel

    yield make
    for watch in watches:
        watch.__exit__()


OLD, NEW = (1, b"570"), (2, b"570")


@pytest.mark.parametrize(
    ("before", "course"),
    [
        pytest.param(OLD, [None, NEW], id="it goes and comes back"),
        pytest.param(OLD, [None, OLD], id="it goes and comes back the same"),
        pytest.param(OLD, [(1, b"580")], id="it was exchanged between two looks"),
        pytest.param(None, [NEW], id="there was none"),
    ],
)
def test_the_next_child_is_started_when_the_driver_has_come_back(released, before, course):
    watch, kernel = released(before)
    for driver in course:
        kernel.seen()
        assert watch.pids == [], "not before"
        kernel.driver = driver
    eventually(lambda: watch.pids)
    assert [reason for reason, _ in watch.losses] == ["released"]


def test_a_second_call_takes_nvml_up_again(released):
    watch, kernel = released(OLD)
    kernel.seen()
    watch.supervisor.release()
    eventually(lambda: watch.pids)


def test_it_is_not_released_for_ever(released):
    watch, _ = released(OLD, timeout=0.1)
    eventually(lambda: watch.pids)


def test_meanwhile_jobs_begin_and_end(released):
    """They are told of silence, in which ownership is looked at."""
    watch, _ = released(OLD)
    before = len(watch.silences)
    eventually(lambda: len(watch.silences) > before + 2)


def test_it_can_be_stopped_and_released_once_more(released):
    watch, kernel = released(OLD)
    watch.supervisor.release()
    eventually(lambda: watch.pids)
    watch.supervisor.release()
    eventually(lambda: len(watch.losses) == 2)
    kernel.seen()
    watch.supervisor.stop()
    assert not any(alive(pid) for pid in watch.pids)


def test_a_release_at_any_moment_of_a_failing_child_is_obeyed():
    """Also in the pause before the next, and while one is being started."""
    kernel = Kernel(OLD)
    with Watch("send(fd, snapshot)") as watch:
        watch.supervisor._driver = kernel
        for _ in range(5):
            eventually(lambda: watch.pids)
            watch.supervisor.release()
            kernel.seen()
            process = watch.supervisor._process
            assert process is None or not alive(process.pid)
            assert watch.losses[-1][0] == "released"
            del watch.pids[:]
            watch.supervisor.release()


def test_another_command_is_used_at_once_and_counted_as_a_reload():
    with Watch(SAMPLE) as watch:
        eventually(lambda: watch.pids)
        first = watch.pids[-1]
        command = [watch.supervisor._command[0], "-c", PRELUDE + SAMPLE + " # another"]
        watch.supervisor.replace(command, silence=60.0, release_timeout=1.0)
        eventually(lambda: watch.pids[-1] != first)
        assert [reason for reason, _ in watch.losses] == ["reload"]
        second = watch.pids[-1]
        watch.supervisor.replace(command, silence=61.0, release_timeout=1.0)
        taken = len(watch.pids)
        eventually(lambda: len(watch.pids) > taken + 5)
        assert watch.pids[-1] == second, "the same command needs no other child"


DEAF = """
signal.signal(signal.SIGTERM, lambda *_: told())
send(fd, snapshot)
while True: time.sleep(999)
"""


def test_a_child_that_is_to_end_may_finish_what_it_is_at(monkeypatch):
    """What it has found goes to nobody else."""
    monkeypatch.setattr(supervisor, "_END_WITHIN", 60.0)
    last = "def told(): send(fd, Xid('GPU-1', 79, 1.0)); os._exit(0)\n"
    with Watch(last + DEAF) as watch:
        eventually(lambda: watch.pids)
        watch.supervisor.release()
        eventually(lambda: watch.losses)
        assert (watch.xids, watch.losses[0][0]) == ([79], "released")
    watch.supervisor._killer.cancel()


def test_a_child_that_is_to_end_and_hangs_is_killed(monkeypatch):
    monkeypatch.setattr(supervisor, "_END_WITHIN", 0.05)
    with Watch("def told(): pass\n" + DEAF) as watch:
        eventually(lambda: watch.pids)
        watch.supervisor.release()
        eventually(lambda: watch.losses)
        assert not alive(watch.pids[0])


def killers():
    return {thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)}


def test_however_often_it_is_asked_one_thread_waits_for_a_child_to_end(monkeypatch):
    """The unit has few of them."""
    monkeypatch.setattr(supervisor, "_END_WITHIN", 60.0)
    before = killers()
    with Watch("def told(): pass\n" + DEAF) as watch:
        eventually(lambda: watch.pids)
        for _ in range(50):
            watch.supervisor.release()
        assert len(killers() - before) == 1
    watch.supervisor._killer.cancel()


def test_for_a_child_that_has_ended_no_thread_waits(monkeypatch):
    monkeypatch.setattr(supervisor, "_END_WITHIN", 60.0)
    before = killers()
    with Watch(SAMPLE) as watch:
        for _ in range(5):
            eventually(lambda: watch.pids)
            watch.supervisor.release()
            eventually(lambda: watch.losses)
            del watch.pids[:], watch.losses[:]
            watch.supervisor.release()
        eventually(lambda: len(killers() - before) <= 1)
    watch.supervisor._killer.cancel()


def test_where_the_system_has_no_thread_a_child_that_is_to_end_is_killed(monkeypatch):
    monkeypatch.setattr(supervisor, "_END_WITHIN", 999.0)
    with Watch("def told(): pass\n" + DEAF) as watch:
        eventually(lambda: watch.pids)

        def refuse(_):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Timer, "start", refuse)
            watch.supervisor.release()
        eventually(lambda: watch.losses)
        assert watch.losses[0][0] == "released"
        assert not alive(watch.pids[0])


def test_another_command_does_not_end_a_release(released):
    watch, kernel = released(OLD)
    watch.supervisor.replace([*watch.supervisor._command, "x", "--"], silence=60.0, release_timeout=600.0)
    kernel.seen()
    assert watch.pids == []


@pytest.mark.parametrize("stir", ["replace", "_hurry"])
def test_a_released_supervisor_rests_between_its_looks_whatever_woke_it(released, stir):
    """A wake-up that is never done with would make it look at the driver without a pause."""
    watch, kernel = released(OLD)
    if stir == "replace":
        watch.supervisor.replace([*watch.supervisor._command, "x", "--"], silence=60.0, release_timeout=600.0)
    else:
        watch.supervisor._hurry()
    kernel.seen()
    assert not watch.supervisor._wake.is_set()
    assert watch.pids == []


def test_a_supervisor_that_was_never_started_can_be_asked_for_anything():
    made = Supervisor(
        ["/no/such"],
        silence=1.0,
        on_snapshot=print,
        on_xid=print,
        on_silence=lambda: None,
        on_loss=lambda reason, text: None,
    )
    made.release()
    made.replace(["/other"], silence=1.0, release_timeout=1.0)
    made.stop()


def version_file(procfs):
    return procfs / "driver" / "nvidia" / "version"


def test_the_driver_is_told_from_proc_alone(tmp_path):
    assert loaded_driver(tmp_path) is None
    path = version_file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15\n")
    first = loaded_driver(tmp_path)
    assert first == loaded_driver(tmp_path)
    path.write_bytes(b"\xff" * 10**6)
    second = loaded_driver(tmp_path)
    assert second not in (None, first)
    assert len(second[1]) <= 4096
    path.unlink()
    path.mkdir()
    assert loaded_driver(tmp_path) is None


def test_sigusr1_lets_go_of_the_driver_until_it_was_reloaded(nvml_driver, tmp_path):
    """The process itself: nothing holds the library, /metrics answers, and sampling comes back by itself."""
    driver = nvml_driver()
    driver.add_gpu()
    procfs = tmp_path / "proc"
    version = version_file(procfs)
    version.parent.mkdir(parents=True)
    version.write_text("570.86.15")
    flags = ("--sample-interval=250ms", "--series-hold=250ms", f"--path.procfs={procfs}")
    with Daemon(tmp_path, driver.start().environment, *flags) as daemon:
        eventually(lambda: daemon.values("gpu_visible") == [1])
        child = daemon.child()
        daemon.signal(signal.SIGUSR1)
        eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="released") == 1)
        assert not alive(child)
        eventually(lambda: not daemon.values("gpu_visible"))
        assert "NVML is released, so that the driver can be unloaded" in daemon.log
        assert daemon.get("/-/healthy")[0] == 200
        assert daemon.child() is None
        version.unlink()
        # The next look is within a second; a look that missed the gap sees another inode.
        fresh = version.with_suffix(".new")
        fresh.write_text("580.65.06")
        fresh.rename(version)
        eventually(lambda: daemon.values("gpu_visible") == [1])
        assert daemon.total("dutycycle_exporter_child_restarts_total") == 1
        assert "the driver came back" in daemon.log


BROKEN = (
    "from dutycycle_exporter.supervisor import Supervisor\n"
    "from dutycycle_exporter.reload import Configuration\n"
    "from dutycycle_exporter.cli import main\n"
    "def fail(_): raise RuntimeError('cannot start new thread')\n"
    "Supervisor.release = Configuration.reload = fail\n"
    "main()\n"
)


def test_a_signal_that_cannot_be_obeyed_does_not_end_the_exporter(nvml_driver, tmp_path):
    program = (sys.executable, "-c", BROKEN)
    with Daemon(tmp_path, nvml_driver().environment, "--no-kubernetes", program=program) as daemon:
        for number in (signal.SIGUSR1, signal.SIGHUP):
            daemon.signal(number)
            eventually(lambda name=number.name: f"{name} could not be obeyed" in daemon.log)
        assert daemon.log.count("RuntimeError: cannot start new thread") == 2
        assert daemon.get("/metrics")[0] == 200
        daemon.signal(signal.SIGTERM)
        assert daemon.process.wait(60) == 0
