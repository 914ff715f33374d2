"""What a row says comes out again when the exporter integrates the replay, however reads are spaced."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Snapshot, Span, Workload
from tests.exporter.replay.playing import EPOCH, START, Row, account, final, play, row, write

SECONDS = 2e-3
"""Rounding: Unix times in floating point, and bounds of gaps that the replay keeps away from."""


@st.composite
def rows_of_their_own(draw: st.DrawFn) -> list[tuple[float, float, float]]:
    """Rows whose gaps lie inside them: (utilization, share under 2 s, share of 2 to 30 s) of 15 s."""
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        utilization = draw(st.floats(0.06, 1.0))
        room = 1 - utilization
        long = draw(st.one_of(st.just(0.0), st.floats(0.15, 0.94)))
        long = long if long <= room else 0.0
        short = draw(st.floats(0.0, 1.0)) * (room - long)
        rows.append((utilization, short, long))
    return rows


cuts = st.lists(st.floats(0.0, 1.0), max_size=20)
scales = st.sampled_from([1.0, 30.0, 240.0])


@settings(deadline=None)
@given(rows=rows_of_their_own(), cuts=cuts, scale=scales)
@example(rows=[(0.17, 0.83, 0.0), (1.0, 0.0, 0.0)], cuts=[], scale=60.0)
def test_every_row_has_its_mean_and_its_gaps(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[float, float, float]],
    cuts: list[float],
    scale: float,
) -> None:
    path = write(
        tmp_path_factory.mktemp("rows") / "r.csv",
        [
            row(15 * (i + 1), utilization, idle_gap_lt2_ratio=short, idle_gap_2to30_ratio=long)
            # One more, full of work, lets the file say how long a row is and ends the last gap.
            for i, (utilization, short, long) in enumerate([*rows, (1.0, 0.0, 0.0)])
        ],
    )
    whole = 15.0 * (len(rows) + 1)
    ends = [15.0 * i for i in range(len(rows) + 2)]
    times = sorted({*ends, *(cut * whole for cut in cuts)})
    shown = dict(zip(times, account(play(path, times, time_scale=scale), scale), strict=True))
    before = (0.0, 0.0, 0.0, 0.0)
    for (begin, end), (utilization, short, long) in zip(pairwise(ends), rows, strict=False):
        owned = shown[end]["slurm/7@0"]
        now = (owned.busy * scale, owned.observed * scale, owned.gaps[0] * scale, owned.gaps[1] * scale)
        busy, observed, shorts, longs = (a - b for a, b in zip(now, before, strict=True))
        assert observed == pytest.approx(end - begin, abs=SECONDS)
        assert busy == pytest.approx(utilization * 15, abs=SECONDS)
        assert shorts == pytest.approx(short * 15, abs=SECONDS)
        assert longs == pytest.approx(long * 15, abs=0.05)
        assert owned.gaps[2:] == (0.0, 0.0)
        before = now


patterns = st.one_of(
    # A starved job: the same step again and again.
    st.tuples(st.sampled_from([(0.25, 0.05), (0.5, 0.5), (1.66, 0.34), (4.0, 3.0), (11.0, 2.0), (60.0, 90.0)])).map(
        list
    ),
    # Stretches of any length.
    st.lists(
        st.tuples(st.sampled_from([0.4, 1.2, 3.0, 12.0, 27.0, 70.0]), st.floats(2.0, 20.0)), min_size=1, max_size=5
    ),
)


@settings(deadline=None)
@given(pattern=patterns, interval=st.sampled_from([1, 5, 10, 15, 30]), number=st.integers(8, 40), cuts=cuts)
def test_a_recording_of_a_replay_is_the_recording(
    tmp_path_factory: pytest.TempPathFactory,
    pattern: list[tuple[float, float]],
    interval: int,
    number: int,
    cuts: list[float],
) -> None:
    """A course that was sampled at 6 Hz and recorded: played again it is as busy, and has its idle gaps by length.

    Gaps that reach over rows cannot always be told from their neighbours: their sum may be off by a few of them.
    """
    recorded = recording(pattern, interval, number)
    path = write(tmp_path_factory.mktemp("again") / "r.csv", recorded)
    whole = float(interval * number)
    got = final(play(path, sorted({0.0, whole, *(cut * whole for cut in cuts)})))
    assert got.observed == pytest.approx(whole, abs=SECONDS)
    assert got.busy == pytest.approx(sum(float(str(one["utilization_ratio"])) for one in recorded) * interval, abs=0.05)
    for place, name in enumerate(("idle_gap_lt2_ratio", "idle_gap_2to30_ratio")):
        seconds = sum(float(str(one[name])) for one in recorded) * interval
        assert got.gaps[place] == pytest.approx(seconds, abs=max(0.15 * seconds, 30.0 if place else 6.0))


def recording(pattern: list[tuple[float, float]], interval: int, number: int) -> list[Row]:
    """What the exporter's accounting makes of (idle, busy) stretches that are sampled at 6 Hz."""
    edges, t = [], 0.0
    while t < interval * number:
        for idle, busy in pattern:
            edges.append((t + idle, t + idle + busy))
            t += idle + busy
    accounts = Accounts(hold=0.0)
    owner = Ownership((Allocation("g", Workload("w", "slurm"), START),))
    accounts.update(Snapshot(START, (GpuReading("g", 0, ""),)), owner)
    found: list[Row] = []
    before = (0.0, 0.0, 0.0)
    for i in range(number):
        spans = []
        for sample in range(6 * interval * i, 6 * interval * (i + 1)):
            start, end = sample / 6, (sample + 1) / 6
            busy = sum(max(0.0, min(end, b) - max(start, a)) for a, b in edges if a < end and b > start)
            spans.append(Span(START + start, START + end, min(1.0, round(6 * busy, 2))))
        snapshot = Snapshot(START + interval * (i + 1), (GpuReading("g", 0, "", spans=tuple(spans)),))
        (owned,) = accounts.update(snapshot, owner).owned
        now = (owned.busy, *owned.gaps[:2])
        ratios = [round((a - b) / interval, 6) for a, b in zip(now, before, strict=True)]
        before = now
        names = ("idle_gap_lt2_ratio", "idle_gap_2to30_ratio")
        found.append(row(interval * (i + 1), ratios[0], **dict(zip(names, ratios[1:], strict=True))))
    return found


@pytest.mark.parametrize(
    ("rows", "gaps", "why"),
    [
        ([(1, 0, 0), (0, 0, 0), (1, 0, 1.0), (1, 0, 0)], (0, 10, 0), "one idle row is a gap of its length"),
        ([(1, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 2.0), (1, 0, 0)], (0, 20, 0), "idle rows join"),
        ([(1, 0, 0), *[(0, 0, 0)] * 5, (1, 0, 0)], (0, 0, 50), "and outgrow what rows report"),
        ([(0.6, 0, 0), (0, 0, 0), (0.5, 0, 1.7), (1, 0, 0)], (0, 17, 0), "a gap reaches into the rows on both sides"),
        ([(0.4, 0, 0), (0, 0, 0), (0, 0, 0), (0.3, 0, 0), (1, 0, 0)], (0, 0, 30), "no gap was reported: it was longer"),
        ([(0.17, 0.8, 0), (0.17, 0.86, 0), (1, 0, 0)], (16.6, 0, 0), "more gaps than idle time: one began before"),
        ([(0.04, 0.02, 0), (1, 0, 0), (1, 0, 0)], (0.2, 9.4, 0), "a blip ends a gap, the rest is idle"),
        ([(0.03, None, None), (1, 0, 0)], (0, 10, 0), "an idle row without gaps is one stretch"),
        ([(0.3, None, None), (1, 0, 0)], (0, 0, 0), "without columns of gaps a row is even"),
        ([(0.3, 0, 0), (1, 0, 0)], (0, 0, 0), "as one without gaps is"),
        ([(0.05, 0, 0), (0.05, 0, 0), (1, 0, 2)], (0, 20, 0), "5 % is idle"),
        ([(0, 0.5, 0), (1, 0, 0)], (0, 10, 0), "nothing ends a gap where nothing was busy"),
    ],
)
def test_gaps_over_the_borders_of_rows(
    tmp_path: Path, rows: list[tuple[float, float | None, float | None]], gaps: tuple[float, ...], why: str
) -> None:
    """(utilization, share under 2 s, share of 2 to 30 s) of rows of 10 s -> seconds of gaps by length."""
    path = write(
        tmp_path / "r.csv",
        [
            row(10 * (i + 1), utilization, idle_gap_lt2_ratio=short, idle_gap_2to30_ratio=long)
            for i, (utilization, short, long) in enumerate([*rows, (1, 0, 0)])
        ],
    )
    got = final(play(path, [0, *range(3, 10 * len(rows) + 10, 3)]))
    assert got.gaps[:3] == pytest.approx(gaps, abs=0.05), why


def test_a_row_is_the_same_whoever_reads_it(tmp_path: Path) -> None:
    """Spans come from the file alone: two readers with different pasts give the same."""
    rows = [row(10 * i, 0.3, idle_gap_lt2_ratio=0.4, idle_gap_2to30_ratio=0.25) for i in range(1, 20)]
    path = write(tmp_path / "r.csv", rows)
    (_, one), (*_, other) = play(path, [100, 115]), play(path, [0, 33, 71, 100, 115])
    assert one.gpus == other.gpus
    assert one.t == EPOCH + 115
