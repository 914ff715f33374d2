"""The pictures: what is drawn where, and that missing is never drawn as idle."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.views import GpuSeries, Point
from dutycycle_alerter.web import charts
from dutycycle_alerter.web.access.seen import OwnReader
from tests.alerter.web.conftest import Client
from tests.alerter.web.doubles import NOW, FixedReader, gpu_now, incident
from tests.alerter.web.html import Element, parse

GPU = Gpu("gpu1", "0", "GPU-1")
HALF_PAST_NOON = datetime(2026, 3, 1, 12, 30, tzinfo=UTC).timestamp()


def series(*values: float | None, gpu: Gpu = GPU, start: float = NOW - 3600, step: float = 60) -> GpuSeries:
    return GpuSeries(gpu, tuple(Point(start + step * (n + 1), value) for n, value in enumerate(values)))


def drawn(*many: GpuSeries, **changes: object) -> Element:
    markup = charts.gpu_rows(many, incident=incident(**changes), concerned=frozenset({GPU}), zone=UTC)
    return parse(str(markup))


def rows(picture: Element) -> list[Element]:
    return [e for e in picture.all("div") if "plot-row" in e.attributes["class"]]


def kinds(row: Element) -> list[str]:
    inner = row.all("svg")[1]
    return sorted(shape.attributes["class"] for shape in [*inner.all("rect"), *inner.all("path")])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.5, 0.6, 0.4), ["busy"]),
        ((0.0, 0.0, 0.005), ["idle"]),
        ((0.5, 0.0, 0.5), ["busy", "busy", "idle"]),
        ((0.5, None, 0.5), ["busy", "busy", "unknown"]),
        ((0.5, 0.5, None), ["busy", "unknown"]),
        ((0.0, None, 0.0), ["idle", "idle", "unknown"]),
    ],
)
def test_stretches(values: tuple[float | None, ...], expected: list[str]) -> None:
    assert kinds(rows(drawn(series(*values)))[0]) == expected


def test_nothing_measured_is_no_picture() -> None:
    assert charts.gpu_rows([], incident=incident(), concerned=frozenset(), zone=UTC) == ""
    assert charts.gpu_rows([series(None, None)], incident=incident(), concerned=frozenset(), zone=UTC) == ""


def test_the_curve_stands_at_its_height_over_its_time() -> None:
    (path,) = rows(drawn(series(0.25, 1.0)))[0].all("path")
    assert path.attributes["d"] == "M0.0 100V75.0H500.0V0.0H1000.0V100Z"


def test_the_condition_is_tinted_and_its_notice_marked() -> None:
    picture = drawn(series(*[0.5] * 60), started_at=NOW - 1800, opened_at=NOW - 900, resolved_at=NOW - 600)
    (held,) = [r for r in picture.all("rect") if r.attributes["class"] == "held"]
    assert (held.attributes["x"], held.attributes["width"]) == ("50.00%", "33.33%")
    (line,) = picture.all("line")
    assert line.attributes["x1"] == "75.00%"


def test_the_mean_is_weighted_and_not_that_of_missing_points() -> None:
    assert rows(drawn(series(0.2, None, 0.4)))[0].all("span")[-1].words == "30 %"


def test_many_gpus_are_drawn_small_and_counted_beyond_the_last_row() -> None:
    many = [series(0.5, 0.5, gpu=Gpu("n", str(n))) for n in range(70)]
    picture = drawn(*many)
    assert len(rows(picture)) == charts.MAX_ROWS
    assert picture.all("p")[0].words == "and 6 more GPUs; drawn are those concerned, then the least used"
    assert picture.all("div")[0].attributes["class"] == "plot dense"


def test_of_many_gpus_those_concerned_are_drawn_and_then_the_least_used() -> None:
    busy = [series(0.9, 0.9, gpu=Gpu(f"a{n:03}", "0")) for n in range(500)]
    unknown = [series(None, None, gpu=Gpu("b", str(n))) for n in range(8)]
    low = [series(0.2, 0.2, gpu=Gpu("y", str(n))) for n in range(3)]
    picture = drawn(*busy, *unknown, *low, series(0.95, 0.95))
    names = [row.all("span")[0].words for row in rows(picture)]
    assert names[:5] == ["gpu1:0", "y:0", "y:1", "y:2", "a000:0"]
    assert len(names) == charts.MAX_ROWS
    assert "concerned" in rows(picture)[0].attributes["class"]


def test_the_page_has_no_more_read_than_it_draws(serve: Callable[..., Client]) -> None:
    """Also for who sees their own jobs only."""
    asked: list[int | None] = []

    class Noting(FixedReader):
        def series(self, incident: Incident, *, until: float, most: int | None = None) -> Sequence[GpuSeries]:
            asked.append(most)
            return super().series(incident, until=until, most=most)

    reader = Noting(found=[incident()])
    serve(reader).page("/incidents/7")
    OwnReader(reader, "alice").series(incident(), until=NOW, most=5)
    assert asked == [charts.MAX_ROWS, 5]


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (60, ["12:30:00", "12:30:15", "12:30:30", "12:30:45", "12:31:00"]),
        (3600, ["12:30", "12:45", "13:00", "13:15", "13:30"]),
        (6 * 3600, ["14:00", "16:00", "18:00"]),
        (3 * 86400, ["02 Mar", "03 Mar", "04 Mar"]),
        (30 * 86400, ["05 Mar", "12 Mar", "19 Mar", "26 Mar"]),
    ],
)
def test_times_of_day_at_round_ones(seconds: float, labels: list[str]) -> None:
    picture = drawn(series(*[0.5] * 10, start=HALF_PAST_NOON, step=seconds / 10))
    assert [text.words for text in picture.all("text")] == labels


def test_round_times_are_round_in_the_zone_of_the_page() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    one = series(*[0.5] * 10, start=HALF_PAST_NOON, step=2160)
    markup = charts.gpu_rows([one], incident=incident(), concerned=frozenset(), zone=zone)
    assert [text.words for text in parse(str(markup)).all("text")] == ["18:00", "20:00", "22:00", "00:00"]


def test_an_axis_across_a_change_of_clocks_is_in_the_zone_that_it_names() -> None:
    before = datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp()
    one = series(*[0.5] * 8, start=before, step=3600)
    markup = charts.gpu_rows([one], incident=incident(), concerned=frozenset(), zone=ZoneInfo("Europe/Berlin"))
    picture = parse(str(markup))
    (axis,) = [e for e in picture.all("div") if e.attributes["class"] == "plot-axis"]
    assert axis.all("span")[0].words == "CET"
    # The first hour ends at 00:00 CET, which was 01:00 CEST.
    assert [text.words for text in axis.all("text")] == ["00:00", "02:00", "04:00", "06:00"]


def test_a_histogram_says_its_numbers_aloud_and_sets_off_the_low_ones() -> None:
    bins = [2, 1, 2, 0, 1, 1, 2, 0, 1, 1, 1, 3, 1, 1, 0, 0, 0, 0, 0, 2]
    picture = parse(str(charts.users_histogram(bins)))
    bars = [rect.attributes["class"] for rect in picture.all("rect")]
    assert bars.count("bar low") == 3
    assert len(bars) == sum(n > 0 for n in bins)
    spoken = picture.all("svg")[0].attributes["aria-label"]
    assert "0 to 5 %: 2 users; 5 to 10 %: 1 user;" in spoken
    assert "95 to 100 %: 2 users" in spoken
    heights = {int(g.all("text")[0].words): float(g.all("rect")[0].attributes["height"]) for g in picture.all("g")}
    assert heights[3] == pytest.approx(3 * heights[1], rel=0.01)
    assert charts.users_histogram([0] * 20) == ""


def test_cells_tell_busy_idle_free_and_unknown_apart() -> None:
    cells = parse(
        str(
            charts.gpu_cells(
                [
                    gpu_now(utilization=1.0),
                    gpu_now(utilization=0.0),
                    gpu_now(utilization=0.0, workloads=()),
                    gpu_now(utilization=None),
                    gpu_now(stale=True),
                ]
            )
        )
    ).all("rect")
    assert [cell.attributes["class"] for cell in cells] == ["busy", "idle", "free", "unknown", "unknown"]
    assert [cell.words for cell in cells] == ["0: 100 %", "0: allocated and idle", "0: 0 %", "0: unknown", "0: unknown"]


def test_no_picture_carries_styles_of_its_own() -> None:
    for markup in (
        charts.users_histogram([1] * 20),
        charts.gpu_cells([gpu_now()]),
        charts.gpu_rows([series(0.5, 0.5)], incident=incident(), concerned=frozenset(), zone=UTC),
    ):
        assert not re.search(r"style|fill=|stroke=|<script", str(markup))
