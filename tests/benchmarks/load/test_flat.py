"""What is said of a day's memory; and the day itself, 24 minutes long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.load.flat import Flatness, rows, run, words
from benchmarks.load.trend import Trend
from benchmarks.load.watching import Line

LINE = Line("exporter", "resident", "MB", 30.0, 30.1, 31.2, Trend(0.004, -0.01, 0.02))
FOUND = Flatness((LINE,), 24.0, 6.0, jobs=90, mails=30, restarts=0, snapshots=0.99, scrapes=1.0, passes=0.97)


def test_a_line_is_told_with_its_slope_in_small_units() -> None:
    assert words(LINE) == "resident 30.0 to 30.1 MB, at most 31.2; +4.0 kB an hour (-10.0 to +20.0)"


def test_what_was_not_done_is_told() -> None:
    done, exporter = rows(FOUND)
    assert "99% of the snapshots, 100% of the scrapes, 97% of the passes" in done.figure
    assert "nothing of ours grows" in done.figure
    assert "exporter, from hour 6 on" in exporter.what


def test_what_grows_is_told_unless_it_is_not_ours() -> None:
    steep = replace(LINE, trend=Trend(0.9, 0.8, 1.0))
    assert "1 quantities of ours grow" in rows(replace(FOUND, lines=(steep,)))[0].figure
    assert "nothing of ours grows" in rows(replace(FOUND, lines=(replace(steep, process="Prometheus"),)))[0].figure


def test_what_was_asked_too_seldom_tells_nothing() -> None:
    found = replace(FOUND, passes=0.56)
    assert not found.flat
    assert "cannot be told: less than 95% of what was due was done" in rows(found)[0].figure


def test_an_interval_that_allows_for_growth_tells_nothing() -> None:
    wide = replace(LINE, trend=Trend(0.07, -0.02, 0.16))
    found = replace(FOUND, lines=(LINE, wide, replace(wide, judged=False), replace(wide, process="Prometheus")))
    assert not found.flat
    assert not found.growing
    assert "cannot be told of 1 quantities" in found.verdict


def test_a_process_that_was_started_anew_tells_nothing_of_itself() -> None:
    """What it had gathered went with it; what it gathers as it begins is no growth either."""
    steep = replace(LINE, trend=Trend(0.9, 0.8, 1.0))
    found = replace(FOUND, lines=(steep,), restarts=1, anew=("exporter",))
    assert not found.flat
    assert not found.growing
    assert "**cannot be told: started anew after hour 6, exporter**" in rows(found)[0].figure


def test_what_grows_is_told_though_something_else_was_started_anew() -> None:
    steep = replace(LINE, process="alerter", trend=Trend(0.9, 0.8, 1.0))
    found = replace(FOUND, lines=(LINE, steep), anew=("exporter",))
    assert found.growing == [steep]
    assert "1 quantities of ours grow" in found.verdict


@pytest.mark.soak
def test_over_a_day_on_the_accelerated_clock_memory_is_flat(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found = run(tmp_path, hours=24.0, scale=60.0)
    for row in rows(found):
        record_property("figure", f"{row.what.partition(': ')[2]}: {row.figure}")
    assert found.jobs > 50
    assert found.flat, found.verdict
