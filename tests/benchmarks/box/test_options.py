"""What the command line takes, and what it refuses at once."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.box.options import options, seeds, unplayable
from benchmarks.box.play import BoxSettings


def test_seeds_are_ranges_and_lists() -> None:
    assert seeds("1-3,7") == [1, 2, 3, 7]
    for wrong in ("", "3-1", "a", "1-", "-2"):
        with pytest.raises(argparse.ArgumentTypeError):
            seeds(wrong)


def test_twenty_seeds_are_played_unless_it_is_to_be_quick() -> None:
    assert options([], "").seeds == list(range(1, 21))
    assert options(["--quick"], "").seeds == [1]


def test_the_usual_settings_can_be_played() -> None:
    usual = BoxSettings()
    assert unplayable(usual.interval, usual.time_scale) == ""
    assert options([], "").time_scale == usual.time_scale


@pytest.mark.parametrize(
    ("interval", "scale", "nearest"),
    [
        (30.0, 45.0, "666.667 ms, and it must be whole milliseconds: take --time-scale 40 or 48"),
        (30.0, 0.7, "take --time-scale 1"),
        (30.0, 50_000.0, "take --time-scale 1000"),
        (0.0305, 7.0, "take another interval"),
    ],
)
def test_scrapes_are_whole_milliseconds_apart(
    interval: float, scale: float, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        options(["--time-scale", str(scale), "--interval", str(interval)], "")
    assert ended.value.code == 2
    assert nearest in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "-1", "inf", "nan", "fast"])
def test_durations_and_scales_are_above_zero(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options([f"--time-scale={wrong}"], "")
    assert "is no number above 0" in capsys.readouterr().err


def test_scoring_needs_outcomes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(["--score"], "")
    assert "--score needs --resume" in capsys.readouterr().err
