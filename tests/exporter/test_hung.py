"""Which GPUs are left alone after children hung in calls about them, and for how long."""

from __future__ import annotations

import pytest

from dutycycle_exporter import daemon, hung, listening, supervisor
from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.hung import LEFT_OUT, HungGpus
from dutycycle_exporter.model import Asking
from dutycycle_exporter.supervisor import Supervisor
from tests.exporter.daemon import eventually

A, B = Asking(1, 8), Asking(2, 8)


@pytest.fixture
def now(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(hung.time, "monotonic", lambda: now[0])
    return now


def told(*hangs, stuck=False):
    gpus = HungGpus()
    for asked in hangs:
        gpus.note(asked)
    return gpus.arguments(stuck=stuck)


LEAVE_A = ["--leave-out", "1", "8", str(LEFT_OUT)]


@pytest.mark.parametrize(
    ("hangs", "arguments"),
    [
        pytest.param([A], [], id="once: it may be the whole driver"),
        pytest.param([A, A], LEAVE_A, id="twice in a row"),
        pytest.param([A, B, A], [], id="another one meanwhile"),
        pytest.param([A, None, A], [], id="a call about no GPU meanwhile"),
        pytest.param([None, None], [], id="no GPU's call"),
        pytest.param([A, A, B, B], [*LEAVE_A, "--leave-out", "2", "8", str(LEFT_OUT)], id="two"),
    ],
)
def test_a_gpu_is_left_out_after_the_second_hang_in_a_row(now, hangs, arguments):
    assert told(*hangs) == arguments


def test_it_is_asked_again_after_ten_minutes_and_left_out_at_once_if_it_hangs_then(now, caplog):
    gpus = HungGpus()
    gpus.note(A)
    gpus.note(A)
    now[0] += 400
    assert gpus.arguments(stuck=False) == ["--leave-out", "1", "8", "200.0"]
    now[0] += 200
    assert gpus.arguments(stuck=False) == []
    gpus.note(None)
    gpus.note(A)
    assert gpus.arguments(stuck=False) == LEAVE_A
    assert caplog.messages == ["GPU 1 of 8 does not return from a call: it is left out for 10 min"] * 2


@pytest.mark.parametrize(("before", "arguments"), [(1, []), (2, LEAVE_A)])
def test_a_hang_of_long_ago_tells_nothing_of_the_next(now, before, arguments):
    gpus = HungGpus()
    for _ in range(before):
        gpus.note(A)
    assert gpus.arguments(stuck=False) == arguments
    now[0] += LEFT_OUT + 3601
    gpus.note(A)
    assert gpus.arguments(stuck=False) == []
    gpus.note(A)
    assert gpus.arguments(stuck=False) == LEAVE_A


def test_no_child_is_sent_after_one_that_cannot_be_killed(now):
    assert float(told(A, A, stuck=True)[-1]) > 10 * LEFT_OUT


def test_the_others_are_read_while_one_never_returns_from_a_call(nvml_driver, monkeypatch):
    driver = nvml_driver()
    for _ in range(3):
        driver.add_gpu()
    driver.start()
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(listening, "START_UP", 2.0)
    snapshots, losses = [], []
    sampling = Supervisor(
        daemon.child_command(read_settings(["--sample-interval=100ms"]), 0.0),
        silence=1.0,
        on_snapshot=snapshots.append,
        on_xid=lambda xid: None,
        on_silence=lambda: None,
        on_loss=lambda reason, text: losses.append((reason, text)),
    )
    sampling.start()
    try:
        eventually(lambda: snapshots and snapshots[-1].visible == 3)
        driver.hang("nvmlDeviceGetFieldValues", gpu=1)
        eventually(lambda: snapshots[-1].visible == 2)
        before = len(snapshots)
        eventually(lambda: len(snapshots) > before + 5)
    finally:
        sampling.stop()
    assert [gpu.index for gpu in snapshots[-1].gpus] == [0, 2]
    assert all(gpu.memory_used is not None for gpu in snapshots[-1].gpus)
    assert [reason for reason, _ in losses] == ["hang", "hang"]
    assert all("in calls about GPU 1" in text for _, text in losses)
