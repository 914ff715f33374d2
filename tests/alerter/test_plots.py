"""Pictures: the same bytes for the same data, whatever the data, and no text that acts as markup."""

import io
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dutycycle_alerter.analysis import Analysis, analyze
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.plots import fleet_picture
from dutycycle_alerter.plots.canvas import BUSY, IDLE, Canvas, Place, cut, drawable, width_of
from dutycycle_alerter.plots.spans import MOST, row_of, runs
from dutycycle_alerter.plots.ticks import ticks
from dutycycle_alerter.plots.timeline import Band, Timeline
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.views import GpuSeries, Point
from tests.alerter.recordings.rows import START, recording, steady


def fleet(gpus: int = 2, **fields: str) -> Analysis:
    """One job, half of it idle: it has a finding."""
    rows = [
        row
        for gpu in range(gpus)
        for row in steady(0.9 if gpu < gpus // 2 else 0.0, 60, gpu=str(gpu), every=30, **fields)
    ]
    return analyze(recording(rows), Settings())


def size(png: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return image.size


def series(index: int, values: list[float | None], *, step: float = 60) -> GpuSeries:
    points = tuple(Point(START + step * (i + 1), value) for i, value in enumerate(values))
    return GpuSeries(Gpu("n1", str(index)), points)


def test_the_picture_grows_with_what_there_is_to_show():
    nothing = analyze(recording([]), Settings())
    healthy = analyze(recording(steady(0.9, 60)), Settings())
    heights = [size(fleet_picture(one, timezone=UTC))[1] for one in (nothing, healthy, fleet())]
    assert heights == sorted(set(heights))


@pytest.mark.parametrize("gpus", [1, 3, 8, 9, 20, 40])
def test_a_finding_of_any_size_is_drawn(gpus):
    assert fleet(gpus).findings
    assert size(fleet_picture(fleet(gpus), timezone=UTC))[0] == 2240


def test_without_a_known_user_there_is_a_picture():
    assert size(fleet_picture(fleet(user=""), timezone=UTC))


def test_the_same_data_gives_the_same_bytes_also_from_several_threads():
    made = fleet(4)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: fleet_picture(made, timezone=UTC), range(4)))) == 1


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=10, deadline=None)
def test_any_name_is_drawn(node, user):
    assert size(fleet_picture(fleet(node=node, user=user, workload=f"w{node}"), timezone=UTC))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("gpu-a01", "gpu-a01"), ("$x^2$", "$x^2$"), ("a\x1b[31m", "a�[31m"), ("Zürich", "Zürich"), ("节点", "��")],
)
def test_what_the_font_cannot_draw_is_shown_as_missing(name, shown):
    assert drawable(name) == shown


def test_a_long_name_keeps_both_ends():
    assert cut("node-with-a-long-name:17", 12) == "node-w…me:17"
    assert cut("short", 12) == "short"


def test_the_width_of_a_text_is_known_before_it_is_drawn():
    assert width_of("WWW", 12) > width_of("iii", 12)
    assert width_of("figure", 24) == pytest.approx(2 * width_of("figure", 12), rel=0.1)
    assert width_of("figure", 12, bold=True) > width_of("figure", 12)


def colors(png: bytes) -> set[tuple[int, ...]]:
    with Image.open(io.BytesIO(png)) as image:
        return {color for _, color in image.convert("RGB").getcolors(2**24)}


def test_idle_busy_and_unknown_are_told_apart():
    """Measured idle time has a colour of its own; time that was not measured has none."""

    def drawn(value: float | None) -> set[tuple[int, ...]]:
        timeline = Timeline([series(0, [value] * 10)], Band(START, START + 60, ""), UTC)
        canvas = Canvas(600, timeline.height)
        timeline._areas(canvas.axes(Place(0, 0, 600, 90)))
        return colors(canvas.png(title=""))

    def rgb(color: str) -> tuple[int, ...]:
        return tuple(bytes.fromhex(color[1:]))

    assert rgb(IDLE) in drawn(0.0)
    assert rgb(IDLE) not in drawn(0.9)
    assert rgb(BUSY) in drawn(0.9)
    assert not {rgb(IDLE), rgb(BUSY)} & drawn(None)


# What is drawn of a series


def test_all_marks_of_an_axis_are_in_the_zone_that_its_corner_names():
    """Clocks were changed within it, at 03:00 CEST."""

    class Noting(Canvas):
        def text(self, x: float, y: float, text: str, **how) -> None:
            said.append(text)
            super().text(x, y, text, **how)

    said: list[str] = []
    start = datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp()
    points = tuple(Point(start + 3600 * hour, 0.5) for hour in range(9))
    band = Band(start + 3600, start + 7200, "the condition began")
    timeline = Timeline([GpuSeries(Gpu("n1", "0"), points)], band, ZoneInfo("Europe/Berlin"))
    timeline.draw(Noting(600, timeline.height), 0, 0, 600)
    assert [text for text in said if text.endswith(":00")] == ["22:00", "02:00", "04:00", "06:00"]
    assert said[-4].endswith(", CET")


def test_a_gap_in_the_data_stays_a_gap():
    """A point stands for three median intervals at most; what it does not stand for was not measured."""
    points = [Point(60.0 * i, 0.5) for i in (*range(1, 11), *range(100, 111))]
    row = row_of(GpuSeries(Gpu("n", "0"), tuple(points)))
    first, second = runs(row.spans)
    assert (first[0].start, first[-1].end) == (0.0, 600.0)
    assert (second[0].start, second[-1].end) == (99 * 60.0, 6600.0)


def test_an_unmeasured_point_is_a_gap_of_its_own_interval():
    row = row_of(series(0, [0.5, None, 0.7], step=10))
    assert [len(run) for run in runs(row.spans)] == [1, 1]
    assert row.mean == pytest.approx(0.6)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=4000))
@settings(deadline=None)
def test_thinning_keeps_the_mean_and_the_ends(values):
    row = row_of(series(0, list(values), step=10))
    assert len(row.spans) <= MOST + 1
    assert row.spans[-1].end - row.spans[0].start == pytest.approx(10 * len(values))
    area = sum(span.value * (span.end - span.start) for span in row.spans)
    assert area == pytest.approx(10 * sum(values), abs=1e-3)


def test_points_out_of_order_are_left_out():
    points = (Point(10, 0.5), Point(20, 0.5), Point(15, 1.0), Point(20, 1.0), Point(30, 0.5))
    assert row_of(GpuSeries(Gpu("n", "0"), points)).mean == 0.5


# Marks of a time axis


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (40, ["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40"]),
        (1800, ["12:00", "12:05", "12:10", "12:15", "12:20", "12:25", "12:30"]),
        (14 * 3600, ["12:00", "14:00", "16:00", "18:00", "20:00", "22:00", "22 Nov", "02:00"]),
        (5 * 86400, ["22 Nov", "23 Nov", "24 Nov", "25 Nov", "26 Nov"]),
    ],
)
def test_time_marks_are_round_local_times(span, expected):
    noon = datetime(2026, 11, 21, 12, tzinfo=ZoneInfo("Europe/Oslo")).timestamp()
    assert [text for _, text in ticks(noon, noon + span, ZoneInfo("Europe/Oslo"))] == expected


@given(st.floats(0, 4e9), st.floats(0.001, 2e9))
def test_time_marks_are_few_and_within_the_axis(start, span):
    marks = ticks(start, start + span, UTC)
    assert len(marks) <= 8
    assert all(start - 1e-6 <= t <= start + span + 1e-6 for t, _ in marks)
