"""A replay in place of NVML: whose the GPUs are, what they show, and what nobody knows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import Allocation, Ownership, Snapshot, Workload
from dutycycle_exporter.replay import ReplayReader
from tests.exporter.replay.playing import EPOCH, final, gpu, play, row, write


def allocations(snapshot: Snapshot) -> tuple[Allocation, ...]:
    assert snapshot.ownership is not None
    return snapshot.ownership.allocations


def test_a_snapshot_shows_what_the_row_of_its_instant_says(tmp_path: Path) -> None:
    facts = {
        "memory_used_bytes": 4e10,
        "memory_total_bytes": 8e10,
        "power_watts": 350,
        "power_limit_watts": 700,
        "processes": 2,
        "model": "NVIDIA H200",
        "gpu_uuid": "GPU-1",
        "scheduler": "slurm",
        "user": "ann",
        "account": "lab",
    }
    path = write(tmp_path / "r.csv", [row(t, 0.5, **facts) for t in (10, 20, 30)])
    before, during = play(path, [14, 16])
    reading = gpu(during)
    assert (reading.uuid, reading.index, reading.model) == ("GPU-1", 0, "NVIDIA H200")
    assert [(span.start - EPOCH, span.end - EPOCH, span.utilization) for span in reading.spans] == [(14, 16, 0.5)]
    assert (reading.utilization, reading.memory_used, reading.memory_total) == (0.5, 4e10, 8e10)
    assert (reading.power, reading.power_limit, reading.energy) == (350, 700, 350 * 16)
    assert reading.processes is not None
    assert [(process.memory, process.utilization) for process in reading.processes] == [(2e10, 0.25), (2e10, 0.25)]
    assert [process.pid for process in reading.processes] == [process.pid for process in gpu(before).processes or ()]
    workload = Workload("slurm/7", "slurm", job_id="7", user="ann", account="lab")
    assert allocations(during) == (Allocation("GPU-1", workload, start=EPOCH, first_process=EPOCH),)


def test_processes_have_numbers_that_no_process_can_have_and_keep_them(tmp_path: Path) -> None:
    rows = [row(10 * i, 0.5, gpu=j, processes=3) for i in (1, 2, 3) for j in (0, 1)]
    path = write(tmp_path / "r.csv", rows)
    first, second = play(path, [5, 25])
    pids = [[process.pid for process in reading.processes or ()] for reading in first.gpus]
    assert pids == [[process.pid for process in reading.processes or ()] for reading in second.gpus]
    assert len({pid for of_gpu in pids for pid in of_gpu}) == 6
    assert all(pid > 2**22 for of_gpu in pids for pid in of_gpu)
    assert first.ownership is not None
    assert set(first.ownership.pids) == {pid for of_gpu in pids for pid in of_gpu}


@pytest.mark.parametrize(
    ("workload", "job_id"),
    [("slurm/123", "123"), ("slurm/123_4", "123"), ("slurm/a", ""), ("wandb/r0679", ""), ("k8s/ns/p/u", "")],
)
def test_the_workload_is_the_text_of_the_recording(tmp_path: Path, workload: str, job_id: str) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.5, workload=workload) for t in (10, 20)])
    (allocation,) = allocations(play(path, [5])[0])
    assert (allocation.workload.id, allocation.workload.job_id) == (workload, job_id)


def test_a_gpu_without_uuid_gets_one_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.5, gpu=3) for t in (10, 20)])
    assert [(reading.uuid, reading.index) for reading in play(path, [5])[0].gpus] == [("GPU-replay-n-3", 3)]


def test_gpus_that_are_not_named_by_index_are_numbered(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.5, gpu=name) for t in (10, 20) for name in ("b", "a")])
    assert [(reading.uuid, reading.index) for reading in play(path, [5])[0].gpus] == [
        ("GPU-replay-n-a", 0),
        ("GPU-replay-n-b", 1),
    ]


def test_what_nobody_measured_is_unknown_and_never_idle(tmp_path: Path) -> None:
    """A row without utilization, a gap between rows, and the time after the last row: no spans, no figures."""
    rows = [row(t, 0.5, power_watts=100, processes=1) for t in (10, 20, 30, 70, 80)]
    rows.append(row(90, None, power_watts=100, processes=1))
    path = write(tmp_path / "r.csv", rows)
    snapshots = play(path, [0, 30, 35, 55, 80, 88, 90, 95, 200])
    for now in (35, 55):
        shown = gpu(snapshots[[0, 30, 35, 55, 80, 88, 90, 95, 200].index(now)])
        assert (shown.spans, shown.utilization, shown.power, shown.processes) == ((), None, None, None)
        assert shown.energy is None
    in_hole = snapshots[3]
    assert len(allocations(in_hole)) == 1, "between its rows the workload holds its GPU"
    assert gpu(snapshots[5]).spans == ()
    assert gpu(snapshots[5]).power == 100
    for ended in snapshots[-2:]:
        assert len(ended.gpus) == 1, "the GPU is there, and nobody's"
        assert gpu(ended).spans == ()
        assert allocations(ended) == ()
    owned = final(snapshots)
    assert (owned.observed, owned.allocated) == (pytest.approx(55), pytest.approx(90))


def test_a_gpu_that_nobody_held_is_shown_and_is_nobodys(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.0, workload=None) for t in (10, 20)])
    first, second = play(path, [5, 15])
    assert allocations(second) == ()
    assert [span.utilization for span in gpu(second).spans] == [0.0, 0.0]
    assert first.ownership is not None
    assert first.ownership.hosts == ()


def test_a_first_process_is_told_when_it_has_come(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.0, processes=t // 30) for t in (10, 20, 30, 40)])
    seen = [allocations(snapshot)[0].first_process for snapshot in play(path, [5, 19, 21, 40])]
    assert seen == [None, None, EPOCH + 20, EPOCH + 20]


def test_cpu_and_pressure_are_counters_of_the_workload(tmp_path: Path) -> None:
    """Every GPU's row repeats its workload's figures: they are counted once."""
    cells = {"cpu_cores": 4, "cpu_limit_cores": 16, "io_pressure_ratio": 0.25}
    rows = [row(10 * i, 0.5, gpu=j, **cells) for i in range(1, 7) for j in (0, 1)]
    path = write(tmp_path / "r.csv", rows)
    (snapshot,) = play(path, [30], time_scale=10)
    assert snapshot.ownership is not None
    (host,) = snapshot.ownership.hosts
    assert host.cpu_seconds == pytest.approx(4 * 3, abs=1e-4), "wall seconds: cores stay cores"
    assert (host.cpu_limit, host.io_pressure) == (16, pytest.approx(0.25 * 3, abs=1e-4))
    assert (host.cpu_pressure, host.memory_pressure) == (None, None)


def test_power_stays_watts_at_any_speed(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.5, power_watts=300) for t in (10, 20, 30)])
    snapshots = play(path, [3, 15, 30], time_scale=60)
    assert gpu(snapshots[-1]).energy == pytest.approx(300 * 30 / 60)
    assert final(snapshots, time_scale=60).energy == pytest.approx(300 * 27 / 60, rel=1e-6)


def test_where_the_recording_says_nothing_of_power_none_is_shown_and_never_0(tmp_path: Path) -> None:
    """Before the first row, between rows, in a row without power, after the last; what was counted stays counted."""
    rows = [row(t, 0.5, power_watts=None if t == 90 else 300) for t in (10, 20, 30, 70, 80, 90, 100)]
    snapshots = play(write(tmp_path / "r.csv", rows), range(-5, 121, 5))
    accounts = Accounts(hold=0.0)
    power: dict[int, float | None] = {}
    energy: list[float] = []
    for t, snapshot in zip(range(-5, 121, 5), snapshots, strict=True):
        view = accounts.update(snapshot, snapshot.ownership or Ownership())
        [device] = view.devices
        power[t] = device.power
        assert (device.power is None) == (device.reading.energy is None)
        energy += [owned.energy for owned in view.owned if owned.energy is not None]
    known = {*range(5, 31, 5), *range(60, 81, 5), 95, 100}
    assert power == {t: 300 if t in known else None for t in power}
    assert energy == sorted(energy)
    assert energy[-1] == pytest.approx(300 * (25 + 20 + 5)), "between two instants at which it is known"


def test_what_is_played_is_measured_by_the_clock_that_nobody_sets(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.5) for t in range(10, 61, 10)])
    reader = ReplayReader(path, node="n", epoch=EPOCH, time_scale=1)
    reader.read(EPOCH, 100.0)
    snapshot = reader.read(EPOCH + 20, 120.0)
    assert (snapshot.t, snapshot.elapsed) == (EPOCH + 20, 120)
    assert (gpu(snapshot).spans[0].start, gpu(snapshot).spans[-1].end) == (pytest.approx(100), pytest.approx(120))


def test_workloads_that_share_a_gpu_get_their_own_back(tmp_path: Path) -> None:
    """Each row says how busy its workload's share was: 1/2 of the time each, so the device is the mean."""
    parts = (("a", 0.9, 200), ("b", 0.2, 100))
    rows = [row(10 * i, u, workload=w, processes=1, power_watts=p) for i in range(1, 7) for w, u, p in parts]
    snapshots = play(write(tmp_path / "r.csv", rows), range(0, 61, 4))
    assert (gpu(snapshots[-1]).power, gpu(snapshots[-1]).energy) == (300, 300 * 60)
    assert [round(span.utilization, 9) for span in gpu(snapshots[-1]).spans] == [0.55]
    for key, utilization in (("a@0", 0.9), ("b@0", 0.2)):
        owned = final(snapshots, key)
        assert owned.share == 0.5
        assert owned.busy / owned.observed == pytest.approx(utilization)


def test_one_job_after_the_other_never_shares(tmp_path: Path) -> None:
    first = [row(t, 1.0) for t in (10, 20)]
    second = [row(t, 0.5, workload="slurm/8") for t in (30, 40)]
    snapshots = play(write(tmp_path / "r.csv", first + second), [0, 7, 14, 20, 21, 28, 35, 40])
    assert [len(allocations(snapshot)) for snapshot in snapshots] == [0, 1, 1, 1, 1, 1, 1, 1]
    assert final(snapshots, "slurm/7@0").busy == pytest.approx(20)
    assert final(snapshots, "slurm/8@0").busy == pytest.approx(10)


def test_nodes_are_played_in_step(tmp_path: Path) -> None:
    late = [row(t, 0.5, node="m") for t in (510, 520)]
    path = write(tmp_path / "r.csv", [*late, row(10, 0.5), row(20, 0.5)])
    assert [len(allocations(s)) for s in play(path, [499, 501, 520, 521], node="m")] == [0, 1, 1, 0]


def test_before_the_epoch_nothing_has_begun(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(10, 0.5, power_watts=1), row(20, 0.5, power_watts=1)])
    early, start, later = play(path, [-100, 0, 5])
    assert gpu(early).spans == gpu(start).spans == ()
    assert (gpu(early).energy, allocations(early)) == (None, ())
    assert len(gpu(later).spans) == 1


def test_a_clock_that_is_set_back_sets_the_replay_back(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [row(t, 0.5) for t in (10, 20, 30)])
    _, _, back, on = play(path, [5, 20, 10, 15])
    assert gpu(back).spans == ()
    assert [(span.start - EPOCH, span.end - EPOCH) for span in gpu(on).spans] == [(10, 15)]


rows_of_jobs = st.lists(
    st.tuples(
        st.integers(1, 30), st.integers(0, 1), st.sampled_from(["a", "b", ""]), st.sampled_from([0, 0.04, 0.5, 1, None])
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(rows=rows_of_jobs, seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, str, float | None]], seed: int
) -> None:
    written = [row(10 * t, u, gpu=g, workload=w, power_watts=t, processes=t % 3) for t, g, w, u in rows]
    shuffled = random.Random(seed).sample(written, len(written))
    folder = tmp_path_factory.mktemp("order")
    one, other = (
        [(s.gpus, s.ownership) for s in play(write(folder / "r.csv", some), range(0, 320, 40))]
        for some in (written, shuffled)
    )
    assert one == other


@settings(deadline=None)
@given(
    rows=rows_of_jobs,
    times=st.lists(st.floats(0, 320), min_size=1, max_size=12),
    restart=st.floats(0, 320),
    scale=st.sampled_from([1.0, 60.0]),
)
def test_a_restart_loses_and_doubles_nothing_but_its_own_absence(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, str, float | None]],
    times: list[float],
    restart: float,
    scale: float,
) -> None:
    """Two readers, the second from where the first ended, together tell what one would."""
    path = write(
        tmp_path_factory.mktemp("restart") / "r.csv", [row(10 * t, u, gpu=g, workload=w) for t, g, w, u in rows]
    )
    ordered = sorted({0.0, 320.0, restart, *times})
    whole = play(path, ordered, time_scale=scale)
    halves = [
        play(path, [t for t in ordered if t <= restart], time_scale=scale),
        play(path, [t for t in ordered if t >= restart], time_scale=scale),
    ]
    assert measured(whole) == pytest.approx(sum(map(measured, halves)), abs=1e-4)
    assert [s.ownership for s in whole[-1:]] == [s.ownership for s in halves[1][-1:]]


def measured(snapshots: list[Snapshot]) -> float:
    """Busy seconds and measured seconds, in one figure."""
    spans = [span for snapshot in snapshots for reading in snapshot.gpus for span in reading.spans]
    return sum((1 + span.utilization) * (span.end - span.start) for span in spans)
