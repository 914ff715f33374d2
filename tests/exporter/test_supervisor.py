"""The supervisor with children that misbehave in every way a process can."""

from __future__ import annotations

import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from dutycycle_exporter import listening, supervisor
from dutycycle_exporter.contract import RESTART_REASONS
from dutycycle_exporter.nvml.calls import _FATAL, error_name
from dutycycle_exporter.supervisor import Supervisor
from tests.exporter.daemon import alive, eventually

PRELUDE = """
import os, signal, struct, sys, time, zlib
from dutycycle_exporter.model import Snapshot, Unavailable, Xid
from dutycycle_exporter.pipe import send
fd = int(sys.argv[-1].removeprefix("--fd="))
snapshot = Snapshot(float(os.getpid()), ())
def send_at_once(*messages):
    read_end, write_end = os.pipe()
    for message in messages:
        send(write_end, message)
    os.write(fd, os.read(read_end, 65536))
"""
"""Between messages that are sent at once a machine that stalls lets no time pass."""


class Watch:
    """Runs children of some Python code and keeps what the supervisor tells of them."""

    def __init__(self, code, *, silence=60.0, on_snapshot=None):
        self.pids, self.xids, self.silences, self.losses = [], [], [], []
        self.supervisor = Supervisor(
            [sys.executable, "-c", PRELUDE + code],
            silence=silence,
            on_snapshot=on_snapshot or (lambda snapshot: self.pids.append(int(snapshot.t))),
            on_xid=lambda xid: self.xids.append(xid.code),
            on_silence=lambda: self.silences.append(len(self.pids)),
            on_loss=lambda reason, text: self.losses.append((reason, text)),
        )

    def __enter__(self):
        self.supervisor.start()
        return self

    def __exit__(self, *_):
        self.supervisor.stop()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "_LONGEST_PAUSE", 0.05)
    # A busy machine lets a process that was killed wait for its end.
    monkeypatch.setattr(supervisor, "_REAP_WITHIN", 60.0)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        pytest.param("send(fd, snapshot)", "exit", "ended with status 0", id="ends"),
        pytest.param("send(fd, snapshot); sys.exit(3)", "exit", "ended with status 3", id="fails"),
        pytest.param(
            "send(fd, snapshot); os.kill(os.getpid(), signal.SIGKILL)", "exit", "killed by signal 9", id="is killed"
        ),
        pytest.param(
            "send(fd, Unavailable(1.0, 'driver_not_loaded', 'no driver')); time.sleep(999)",
            "driver_not_loaded",
            "no driver",
            id="has no NVML",
        ),
        pytest.param("send(fd, snapshot); os.close(fd); time.sleep(999)", "exit", "", id="closes its pipe and stays"),
        pytest.param(
            "os.write(fd, struct.pack('!II', 3, zlib.crc32(b'abc')) + b'abc'); time.sleep(999)",
            "garbled",
            "not a message",
            id="sends garbage",
        ),
        pytest.param(
            "os.write(fd, struct.pack('!II', 3, 0) + b'abc'); time.sleep(999)",
            "garbled",
            "damaged",
            id="sends what is damaged on the way",
        ),
        pytest.param("os.write(fd, b'\\xff' * 99); time.sleep(999)", "garbled", "bytes", id="sends a giant frame"),
        pytest.param("import no_such_module", "exit", "ended with status 1", id="does not start"),
    ],
)
def test_every_end_of_a_child_is_told_by_its_reason_and_another_is_started(code, reason, said, capfd):
    with Watch(code) as watch:
        eventually(lambda: len(watch.losses) >= 3)
        assert {reason for reason, _ in watch.losses} == {reason}
        assert all(said in text for _, text in watch.losses)
        assert len(set(watch.pids)) == len(watch.pids)
    assert not any(alive(pid) for pid in watch.pids)
    capfd.readouterr()


GIVEN = re.compile(
    r'_lose\(\s*"(\w+)"|return heard, "(\w+)"|NvmlUnavailableError\(\s*"(\w+)"|Unavailable\(time\.time\(\), "(\w+)"'
)
"""Where the source of the supervisor and its child gives a reason."""


OTHERS = {"no_permission", "unknown"}
"""Of NVML's other errors, those that the documentation names."""


def test_the_documentation_explains_every_reason_that_the_code_gives_and_no_other():
    package = Path(supervisor.__file__).parent
    sources = [
        package / "supervisor.py",
        package / "listening.py",
        package / "child.py",
        *(package / "nvml").glob("*.py"),
    ]
    given = {reason for path in sources for found in GIVEN.findall(path.read_text()) for reason in found if reason}
    assert {"hang", "released", "gpu_lost", "replay"} <= given, "they are found in the source"
    table = (Path(__file__).parents[2] / "docs" / "exporter.md").read_text().partition("| reason |")[2]
    rows = [row.split("|")[1] for row in table.partition("\n\n")[0].splitlines()[2:]]
    explained = {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}
    assert explained == given | {error_name(code) for code in _FATAL} | OTHERS
    assert explained - {"replay"} - OTHERS == set(RESTART_REASONS)


@pytest.mark.parametrize(
    "silent",
    ["time.sleep(999)", "os.write(fd, b'\\0'); time.sleep(999)", "os.write(fd, b'\\0\\0\\1\\0abc'); time.sleep(999)"],
    ids=["between two messages", "in the length of one", "in the middle of one"],
)
def test_a_child_that_hangs_is_killed_and_replaced(silent):
    with Watch(f"send(fd, snapshot); {silent}", silence=0.05) as watch:
        eventually(lambda: len(watch.losses) >= 2)
        assert {reason for reason, _ in watch.losses} == {"hang"}
        assert not alive(watch.pids[0])


ASKING = "import dutycycle_exporter.model as m; ask = lambda anew: m.Asking((1, 8), 7, anew)"


def test_a_gpu_that_is_brought_up_may_take_as_long_as_a_child_that_begins():
    code = f"{ASKING}; send_at_once(snapshot, ask(True)); time.sleep(1); send(fd, snapshot); time.sleep(999)"
    with Watch(code, silence=0.5) as watch:
        eventually(lambda: watch.losses)
        assert len(watch.pids) >= 2
        assert watch.pids[0] == watch.pids[1]
        assert watch.losses[0] == ("hang", "the NVML child was silent for 0.5 s and was killed")


def test_once_it_is_brought_up_the_calls_about_it_may_take_no_longer_than_others():
    with Watch(
        f"{ASKING}; send_at_once(snapshot, ask(True)); send(fd, ask(False)); time.sleep(999)", silence=0.5
    ) as watch:
        eventually(lambda: watch.losses)
        assert watch.losses[0] == ("hang", "the NVML child was silent for 0.5 s in calls about GPU 1 and was killed")


def test_hang_after_the_last_gpu_returned_names_no_gpu():
    with Watch(f"{ASKING}; send_at_once(snapshot, ask(False), m.Returned()); time.sleep(999)", silence=0.5) as watch:
        eventually(lambda: watch.losses)
        assert watch.losses[0] == ("hang", "the NVML child was silent for 0.5 s and was killed")


def test_one_that_hangs_while_it_is_brought_up_is_named(monkeypatch):
    with Watch(
        f"{ASKING}; send_at_once(snapshot, ask(True)); time.sleep(999)",
        silence=0.5,
        # The child itself had a minute to begin.
        on_snapshot=lambda _: monkeypatch.setattr(listening, "START_UP", 1.0),
    ) as watch:
        eventually(lambda: watch.losses)
        assert watch.losses[0] == ("hang", "the NVML child was silent for 1.5 s in calls about GPU 1 and was killed")


def test_while_a_child_is_silent_that_is_told_now_and_then(monkeypatch):
    with Watch("send(fd, snapshot); time.sleep(999)", silence=2.0) as watch:
        monkeypatch.setattr(listening, "_LOOKS", 50)
        eventually(lambda: watch.losses)
        assert watch.silences.count(1) > 1


def test_a_child_that_takes_long_to_begin_is_waited_for():
    """Without persistence mode NVML brings up every GPU when it begins: seconds for each."""
    with Watch("time.sleep(0.5); send(fd, snapshot); time.sleep(999)", silence=60) as watch:
        watch.supervisor._silence = 0.01
        eventually(lambda: watch.pids)
        eventually(lambda: watch.losses)
        assert watch.losses[0][0] == "hang"


def test_children_that_cannot_be_killed_do_not_keep_others_from_starting_until_there_are_many(tmp_path, monkeypatch):
    """As those in an uninterruptible call of the driver, where the next one may hang as well."""
    monkeypatch.setattr(supervisor, "_REAP_WITHIN", 0.2)
    monkeypatch.setattr(supervisor.subprocess.Popen, "kill", lambda process: None)
    go = tmp_path / "go"
    with Watch(f"send(fd, snapshot); os.close(fd)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)") as watch:
        eventually(lambda: len(watch.supervisor._stuck) == supervisor._MOST_STUCK)
        assert watch.losses[0] == ("exit", "the NVML child hangs inside the driver")
        stuck = list(watch.supervisor._stuck)
        go.touch()
        eventually(lambda: len(watch.pids) > supervisor._MOST_STUCK)
        eventually(lambda: all(process.returncode == 0 for process in stuck), "they are reaped when they go")
    for process in watch.supervisor._stuck:
        process.wait()


def test_that_no_child_is_started_is_counted_once_as_long_as_it_lasts(monkeypatch):
    monkeypatch.setattr(supervisor, "_MOST_STUCK", 0)
    with Watch("") as watch:
        eventually(lambda: len(watch.silences) > 3)
        assert [reason for reason, _ in watch.losses] == ["stuck"]


def test_between_two_children_it_is_told_that_there_is_no_snapshot(monkeypatch):
    """Jobs begin and end all the same."""
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 999.0)
    monkeypatch.setattr(supervisor, "_LONGEST_PAUSE", 999.0)
    monkeypatch.setattr(supervisor, "_LONGEST_REST", 0.01)
    with Watch("") as watch:
        eventually(lambda: watch.losses)
        before = len(watch.silences)
        eventually(lambda: len(watch.silences) > before + 3)
        assert len(watch.losses) == 1


def test_what_goes_wrong_in_the_supervision_itself_does_not_end_it(monkeypatch, caplog):
    """Neither the descriptors nor the child of the round in which it does are left behind."""
    before = descriptors()
    watch = Watch("send(fd, snapshot); time.sleep(999)")
    listen, rounds = watch.supervisor._listener.listen, []

    def fail(*arguments):
        rounds.append(watch.supervisor._process)
        if len(rounds) > 2:
            return listen(*arguments)
        raise MemoryError

    monkeypatch.setattr(watch.supervisor._listener, "listen", fail)
    with watch:
        eventually(lambda: watch.pids)
        assert [reason for reason, _ in watch.losses] == ["exit", "exit"]
        assert all(process.returncode is not None for process in rounds[:2])
    assert caplog.text.count("could not be supervised") == 2
    assert descriptors() == before


def test_a_supervision_that_has_ended_or_stands_still_is_told(monkeypatch):
    watch, gate = Watch("send(fd, snapshot); time.sleep(999)"), threading.Event()
    assert watch.supervisor.standstill() == "", "it has not begun"
    watch.supervisor._listener._on_snapshot = lambda snapshot: gate.wait(60)
    with watch:
        assert watch.supervisor.standstill() == ""
        monkeypatch.setattr(supervisor, "_STANDSTILL", -1e9)
        assert "stood still" in watch.supervisor.standstill()
        gate.set()
    assert watch.supervisor.standstill() == "", "as it was told to"
    dead = Watch("")
    monkeypatch.setattr(dead.supervisor, "_thread", threading.Thread(target=list))
    with dead:
        dead.supervisor._thread.join()
        assert "has ended" in dead.supervisor.standstill()


def test_a_callback_that_never_returns_is_no_sign_of_life():
    watch, gate = Watch("while True: send(fd, snapshot); time.sleep(0.01)"), threading.Event()
    with watch:
        heart = watch.supervisor._heart
        eventually(lambda: len(watch.pids) > 3)
        watch.supervisor._listener._on_snapshot = lambda snapshot: gate.wait(60)
        eventually(lambda: heart.age > 0.5)
        gate.set()
        eventually(lambda: heart.age < 0.2)


def test_a_program_that_cannot_be_started_is_told_and_leaks_nothing():
    losses = []
    broken = Supervisor(
        ["/no/such/program"],
        silence=1.0,
        on_snapshot=lambda snapshot: None,
        on_xid=lambda xid: None,
        on_silence=lambda: None,
        on_loss=lambda reason, text: losses.append((reason, text)),
    )
    before = descriptors()
    broken.start()
    eventually(lambda: len(losses) >= 5)
    broken.stop()
    assert losses[0][0] == "start"
    assert "/no/such/program" in losses[0][1]
    assert descriptors() == before


def test_a_snapshot_that_cannot_be_processed_does_not_end_the_sampling(caplog):
    taken = []

    def fail_once(snapshot):
        taken.append(snapshot)
        if len(taken) == 1:
            raise ZeroDivisionError

    with Watch("while True: send(fd, snapshot); time.sleep(0.01)", on_snapshot=fail_once):
        eventually(lambda: len(taken) >= 3)
    assert "ZeroDivisionError" in caplog.text


def test_a_loss_that_cannot_be_processed_does_not_end_the_supervision(caplog):
    with Watch("send(fd, snapshot)") as watch:
        watch.supervisor._on_loss = lambda reason, text: 1 / 0
        eventually(lambda: len(watch.pids) >= 3)
    assert "ZeroDivisionError" in caplog.text


def test_an_xid_is_told_at_once_and_is_no_sign_that_the_gpus_are_read():
    """What reads them may hang because of it, and others may follow."""
    storm = "while True: send(fd, Xid('GPU-1', 79, 1.0)); time.sleep(0.001)"
    with Watch(f"send(fd, snapshot)\n{storm}", silence=10.0) as watch:
        watch.supervisor._on_loss = lambda reason, text: watch.losses.append((reason, len(watch.xids)))
        eventually(lambda: watch.losses)
        reason, told = watch.losses[0]
        assert reason == "hang"
        assert told > 10
        assert watch.silences, "and that there is no snapshot is told meanwhile"


def test_what_a_child_says_while_it_is_ended_is_heard():
    last = "send_at_once(Unavailable(1.0, 'gpu_lost', 'x'), Xid('GPU-1', 79, 1.0))"
    with Watch(f"{last}; time.sleep(999)") as watch:
        eventually(lambda: watch.losses)
        assert watch.xids
        assert watch.losses[0][0] == "gpu_lost"


@pytest.mark.parametrize("code", ["send(fd, snapshot); time.sleep(999)", "time.sleep(999)", "send(fd, snapshot)"])
def test_it_stops_at_any_moment_and_leaves_nothing_behind(code):
    """Also between its look at whether to stop and the start of another child."""
    before = descriptors()
    for pause in (0.0, 0.001, 0.005, 0.02, 0.1, 0.3):
        watch = Watch(code)
        watch.supervisor.start()
        threading.Event().wait(pause)
        watch.supervisor.stop()
        process = watch.supervisor._process
        assert process is None or process.returncode is not None
        assert not any(alive(pid) for pid in watch.pids)
    assert descriptors() == before


def test_a_stop_while_the_child_is_being_started_ends_it(monkeypatch):
    popen = supervisor.subprocess.Popen
    watch = Watch("time.sleep(999)")

    def start_slowly(*arguments, **options):
        process = popen(*arguments, **options)
        watch.supervisor._stop.set()
        return process

    monkeypatch.setattr(supervisor.subprocess, "Popen", start_slowly)
    watch.supervisor.start()
    watch.supervisor._thread.join(60)
    assert not watch.supervisor._thread.is_alive()
    assert watch.supervisor._process.returncode == -signal.SIGKILL


def test_a_supervisor_that_was_never_started_can_be_stopped():
    watch = Watch("")
    watch.supervisor.stop()
    assert watch.losses == []
