"""Which GPUs are asked last, and which not at all, after children hung in calls about them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from dutycycle_exporter import daemon, hung, listening, pipe, supervisor
from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.hung import LEFT_OUT, LONGEST, HungGpus
from dutycycle_exporter.listening import SUSPECTED
from dutycycle_exporter.model import Asking
from dutycycle_exporter.supervisor import Supervisor
from tests.exporter.daemon import eventually

A, B = (1, 8), (2, 8)
LAST_A, LAST_B = ["--ask-last", "1", "8"], ["--ask-last", "2", "8"]
WITHOUT_A, WITHOUT_B = ["--leave-out", "1", "8"], ["--leave-out", "2", "8"]


class Child:
    """A process that hung, and is gone or not."""

    def __init__(self, *, gone=True):
        self.gone = gone

    def poll(self):
        return -9 if self.gone else None


@pytest.fixture
def now(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(hung.time, "monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def gpus(now):
    return HungGpus(lambda: None)


SILENCE = 25.0


def hang(gpus, gpu, read=0, child=None, silence=SILENCE):
    gpus.note(None if gpu is None else Asking(gpu, read), child or Child(), silence=silence)


@pytest.mark.parametrize(
    ("hangs", "arguments"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(None, 0)] * 3, [], id="in calls about no GPU"),
        pytest.param([(A, 0)], LAST_A, id="once"),
        pytest.param([(A, 7)], LAST_A, id="once, and after others: it may be the whole driver"),
        pytest.param([(A, 0), (A, 0)], LAST_A, id="twice, before any other was read"),
        pytest.param([(A, 0), (A, 1)], WITHOUT_A, id="twice, and the second time others had been read"),
        pytest.param([(A, 0), (None, 0), (A, 1)], WITHOUT_A, id="another hang meanwhile"),
        pytest.param([(A, 0), (B, 0)], [*LAST_A, *LAST_B], id="at one and then at another"),
        pytest.param([(A, 0), (B, 0), (A, 6)], [*WITHOUT_A, *LAST_B], id="two of them, one is shown"),
        pytest.param([(A, 0), (B, 0), (A, 6), (B, 6)], [*WITHOUT_A, *WITHOUT_B], id="two of them, both are shown"),
        pytest.param([(A, 0), ((1, 7), 1)], [*LAST_A, "--ask-last", "1", "7"], id="of another number: another GPU"),
    ],
)
def test_a_gpu_is_left_out_when_a_child_hung_at_it_again_that_had_read_others(gpus, hangs, arguments):
    for gpu, read in hangs:
        hang(gpus, gpu, read)
    assert gpus.arguments() == arguments


@pytest.mark.parametrize("read", [0, 7])
def test_a_driver_that_stands_still_as_a_whole_leaves_nobody_out(gpus, read):
    """Each child hangs at the first that was not suspected before, and then at the first of those that were."""
    for index in range(8):
        hang(gpus, (index, 8), read if index == 0 else 0)
    for _ in range(3):
        hang(gpus, (0, 8))
    assert "--leave-out" not in gpus.arguments()


def test_a_hang_of_long_ago_says_nothing_of_the_next(gpus, now):
    hang(gpus, A)
    now.seconds += SUSPECTED + SILENCE
    assert gpus.arguments() == LAST_A
    now.seconds += 1
    assert gpus.arguments() == []
    hang(gpus, A, 7)
    assert gpus.arguments() == LAST_A


def test_it_is_tried_again_after_ten_minutes_and_ever_later_up_to_an_hour(gpus, now, caplog):
    caplog.set_level("INFO")
    hang(gpus, A)
    for rest in (LEFT_OUT, 2 * LEFT_OUT, 4 * LEFT_OUT, LONGEST, LONGEST):
        hang(gpus, A, 7)
        now.seconds += rest - 1
        assert not gpus.turn([])
        assert gpus.arguments() == WITHOUT_A
        now.seconds += 1
        assert gpus.turn([])
        assert gpus.arguments() == LAST_A
        assert not gpus.turn([])
    minutes = ["10", "20", "40", "60", "60"]
    assert caplog.messages[::2] == [
        "the GPU of index 1, of 8, does not return from calls: it is left out, and counts as lost. "
        f"It is tried again in {each} min, if no child hangs there any more"
        for each in minutes
    ]
    assert set(caplog.messages[1::2]) == {"the GPU of index 1, of 8, is tried again"}


def test_on_a_faster_clock_it_is_tried_again_as_much_sooner(now, caplog):
    gpus = HungGpus(lambda: None, time_scale=60.0)
    hang(gpus, A)
    for rest in (LEFT_OUT, 2 * LEFT_OUT, 4 * LEFT_OUT, LONGEST, LONGEST):
        hang(gpus, A, 7)
        now.seconds += rest / 60 - 0.1
        assert not gpus.turn([])
        now.seconds += 0.2
        assert gpus.turn([])
        assert gpus.arguments() == LAST_A
    assert [message.split("again in ")[1].split(",")[0] for message in caplog.messages] == [
        f"{minutes} min" for minutes in (10, 20, 40, 60, 60)
    ]


def test_one_that_returned_when_it_was_tried_again_begins_anew(gpus, now):
    hang(gpus, A)
    hang(gpus, A, 7)
    now.seconds += LEFT_OUT
    assert gpus.arguments() == LAST_A
    now.seconds += SUSPECTED + SILENCE + 1
    assert gpus.arguments() == []
    hang(gpus, A, 7)
    assert gpus.arguments() == LAST_A
    hang(gpus, A, 7)
    now.seconds += LEFT_OUT
    assert gpus.turn([])


@pytest.mark.parametrize("which", [0, 1])
def test_it_is_not_tried_while_a_child_hangs_there_that_cannot_be_killed(gpus, now, which):
    children = [Child(gone=place != which) for place in range(2)]
    hang(gpus, A, child=children[0])
    hang(gpus, A, 7, child=children[1])
    now.seconds += 100 * LONGEST
    assert not gpus.turn([])
    assert gpus.arguments() == WITHOUT_A
    children[which].gone = True
    assert gpus.turn([])
    assert gpus.arguments() == LAST_A


@pytest.mark.parametrize("later", [(2, b"580"), (1, b"590")])
def test_another_driver_has_nothing_against_it(now, later):
    driver = [(1, b"580"), (1, b"580"), None, later]
    gpus = HungGpus(lambda: driver.pop(0))
    hang(gpus, A)
    hang(gpus, A, 7)
    assert gpus.arguments() == WITHOUT_A
    assert gpus.arguments() == WITHOUT_A, "that it could not be looked at says nothing"
    assert gpus.arguments() == []


def test_that_it_answered_once_says_nothing_of_a_child_that_hangs_there_afterwards(gpus, now):
    hang(gpus, A)
    gpus.turn([A])
    stuck = Child(gone=False)
    hang(gpus, A, 7, child=stuck)
    now.seconds += 100 * LONGEST
    assert not gpus.turn([])
    assert gpus.arguments() == WITHOUT_A
    stuck.gone = True
    assert gpus.turn([])


def test_what_is_forgotten_is_asked_as_the_others(gpus):
    hang(gpus, A)
    hang(gpus, A, 7)
    gpus.forget()
    assert (gpus.arguments(), gpus.turn([])) == ([], False)


def test_nothing_is_forgotten_of_a_gpu_at_which_a_child_still_hangs(gpus, now):
    stuck = Child(gone=False)
    hang(gpus, A, child=stuck)
    hang(gpus, B)
    gpus.forget()
    now.seconds += 100 * SUSPECTED
    assert gpus.arguments() == LAST_A
    hang(gpus, A, 7)
    gpus.forget()
    assert (gpus.arguments(), gpus.explains(stuck)) == (WITHOUT_A, True)
    stuck.gone = True
    gpus.forget()
    assert gpus.arguments() == []


def test_where_a_child_may_be_silent_for_long_the_next_hang_is_a_sequel_all_the_same(gpus, now):
    hang(gpus, A, silence=1800.0)
    now.seconds += 1860
    hang(gpus, A, 7, silence=1800.0)
    assert gpus.arguments() == WITHOUT_A


def test_that_it_returns_from_calls_again_is_told_once(gpus, now, caplog):
    caplog.set_level("INFO")
    hang(gpus, A)
    hang(gpus, A, 7)
    now.seconds += LEFT_OUT
    gpus.arguments()
    gpus.turn([B])
    caplog.clear()
    gpus.turn([A, B])
    gpus.turn([A, B])
    assert caplog.messages == ["the GPU of index 1, of 8, returns from calls again"]


def test_a_child_that_hangs_for_ever_says_nothing_of_a_gpu_that_answers_others(gpus, now):
    """As after a standstill of the whole driver, which has left one behind."""
    stuck = Child(gone=False)
    hang(gpus, A, child=stuck)
    gpus.turn([A])
    now.seconds += SUSPECTED + SILENCE + 1
    assert gpus.arguments() == []
    hang(gpus, A, 7)
    assert gpus.arguments() == LAST_A
    hang(gpus, A, 7)
    now.seconds += 100 * LONGEST
    assert gpus.arguments() == WITHOUT_A, "both are there, and it answers nobody any more"
    stuck.gone = True
    assert gpus.arguments() == LAST_A


def test_a_child_that_hangs_at_a_gpu_that_is_left_out_says_nothing_of_the_next_one(gpus):
    first, second, other = (Child(gone=False) for _ in range(3))
    hang(gpus, A, child=first)
    assert not gpus.explains(first)
    hang(gpus, A, 7, child=second)
    assert [gpus.explains(child) for child in (first, second, other)] == [True, True, False]


CALLS = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetUUID")
"""Those that hang here."""


@pytest.fixture
def node(nvml_driver, monkeypatch):
    """Starts the supervision of three GPUs. A child is silent as soon as a call of it hangs, and else never, however
    long the machine lets it wait. `later` is by how many seconds more the GPUs that hung have been left out.
    """
    driver = nvml_driver()
    for _ in range(3):
        driver.add_gpu()
    driver.start()
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.01)

    @contextmanager
    def start(time_scale=1.0):
        site = SimpleNamespace(driver=driver, snapshots=[], losses=[], later=0.0, noticed=0)
        sampling = Supervisor(
            daemon.child_command(read_settings(["--sample-interval=100ms", "--nvml.timeout=10m"]), 0.0),
            silence=600.0,
            on_snapshot=site.snapshots.append,
            on_xid=lambda xid: None,
            on_silence=lambda: None,
            on_loss=lambda reason, text: site.losses.append((reason, text)),
            time_scale=time_scale,
        )
        site.sampling = sampling

        def wait(descriptor, within):
            # Looked at before: then what the child had to say until it hung is in the pipe.
            begun = sum(driver.state.hung(call) for call in CALLS)
            found = pipe.wait(descriptor, min(within, 0.05))
            if begun > site.noticed and not found:
                site.noticed, sampling._listener._deadline = begun, 0.0
            return found

        monkeypatch.setattr(listening, "wait", wait)
        monkeypatch.setattr(hung, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + site.later))
        sampling.start()
        try:
            eventually(lambda: site.snapshots and well(site) == [0, 1, 2])
            yield site
        finally:
            sampling.stop()

    return start


def well(site):
    """The GPUs that the latest snapshot has, by index."""
    return [gpu.index for gpu in site.snapshots[-1].gpus if gpu.memory_used is not None and gpu.energy is not None]


def test_an_exporter_on_a_faster_clock_leaves_out_as_much_shorter(monkeypatch):
    told = {}
    monkeypatch.setattr(daemon, "Supervisor", lambda *_, **options: told.update(options))
    monkeypatch.setattr(daemon, "Server", lambda *_: None)
    settings = read_settings(["--time-scale=60", "--web.listen-address=127.0.0.1:0"])
    daemon.Exporter(settings, lambda: settings)
    assert told["time_scale"] == 60.0


def test_one_that_returns_again_on_a_faster_clock_is_read_again_as_much_sooner(node):
    with node(time_scale=6000.0) as site:
        site.driver.hang("nvmlDeviceGetFieldValues", gpu=1)
        eventually(lambda: site.snapshots[-1].visible == 2 and len(site.losses) == 2)
        site.driver.heal("nvmlDeviceGetFieldValues", gpu=1)
        eventually(lambda: well(site) == [0, 1, 2])


@pytest.mark.parametrize("gpu", [0, 1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_the_others_are_read_while_one_never_returns_from_a_call(node, call, gpu):
    with node() as site:
        site.driver.hang(call, gpu=gpu)
        eventually(lambda: site.snapshots[-1].visible == 2 and len(site.losses) == 2)
        before = len(site.snapshots)
        eventually(lambda: len(site.snapshots) > before + 20)
        assert well(site) == [index for index in range(3) if index != gpu]
        assert site.snapshots[-1].visible == 2
        assert [(reason, f"in calls about GPU {gpu}" in text) for reason, text in site.losses] == [("hang", True)] * 2


def test_one_that_returns_again_is_read_again_and_nothing_is_lost_by_that(node, caplog):
    caplog.set_level("INFO")
    with node() as site:
        site.driver.hang("nvmlDeviceGetFieldValues", gpu=1)
        eventually(lambda: site.snapshots[-1].visible == 2 and len(site.losses) == 2)
        site.driver.heal("nvmlDeviceGetFieldValues", gpu=1)
        site.later = LEFT_OUT
        eventually(lambda: well(site) == [0, 1, 2])
        eventually(lambda: "the GPU of index 1, of 3, returns from calls again" in caplog.messages)
        assert [reason for reason, _ in site.losses] == ["hang", "hang"]


def test_one_that_was_repaired_while_nvml_was_released_is_read_at_once(node):
    with node() as site:
        site.driver.hang("nvmlDeviceGetFieldValues", gpu=1)
        eventually(lambda: site.snapshots[-1].visible == 2 and len(site.losses) == 2)
        site.driver.heal("nvmlDeviceGetFieldValues", gpu=1)
        site.sampling.release()
        eventually(lambda: len(site.losses) == 3)
        site.sampling.release()
        eventually(lambda: well(site) == [0, 1, 2])
        assert site.losses[2][0] == "released"


def test_children_that_cannot_be_killed_and_hang_at_one_gpu_do_not_keep_the_others_from_being_read(node, monkeypatch):
    monkeypatch.setattr(supervisor, "_REAP_WITHIN", 0.1)
    monkeypatch.setattr(supervisor, "_MOST_STUCK", 2)
    stuck = []
    kill = supervisor.subprocess.Popen.kill

    def leave(process):
        if process in stuck:
            return
        if len(stuck) < 2:
            stuck.append(process)
        else:
            kill(process)

    with node() as site:
        monkeypatch.setattr(supervisor.subprocess.Popen, "kill", leave)
        site.driver.hang("nvmlDeviceGetFieldValues", gpu=1)
        try:
            eventually(lambda: site.snapshots[-1].visible == 2 and len(site.losses) >= 2)
            assert len(site.sampling._stuck) == 2
            site.sampling.release()
            eventually(lambda: site.losses[-1][0] == "released")
            site.sampling.release()
            before = len(site.snapshots)
            eventually(lambda: len(site.snapshots) > before + 5)
            assert well(site) == [0, 2]
        finally:
            monkeypatch.setattr(supervisor.subprocess.Popen, "kill", kill)
            for process in stuck:
                process.kill()
                process.wait()
    assert {reason for reason, _ in site.losses} <= {"hang", "released"}


def test_after_a_driver_that_stood_still_as_a_whole_every_gpu_is_read(node):
    with node() as site:
        site.driver.hang("nvmlDeviceGetFieldValues")
        for losses in range(1, 5):
            eventually(lambda losses=losses: len(site.losses) >= losses)
        site.driver.heal("nvmlDeviceGetFieldValues")
        eventually(lambda: well(site) == [0, 1, 2])
        assert {reason for reason, _ in site.losses} == {"hang"}
