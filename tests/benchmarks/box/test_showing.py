"""Where a long run is, on a terminal and where there is none."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.box.showing import Showing

HOURS = 6.5 * 3600


class Wall:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


def test_without_a_terminal_each_seed_has_a_line_with_the_time_it_took_and_what_remains(wall: Wall) -> None:
    out = io.StringIO()
    with Showing(Console(file=out, width=60), 3, 60.0, wall) as showing:
        for seed, seconds in ((4, 400), (7, 440), (9, 420)):
            showing.begin(seed, 531, HOURS)
            showing.tell(HOURS / 2, "")
            wall.now += seconds
            showing.end()
    assert out.getvalue().splitlines() == [
        "seed 4 (1 of 3): 531 jobs",
        "seed 4 (1 of 3): played in 7 min, 13 min remain",
        "seed 7 (2 of 3): 531 jobs",
        "seed 7 (2 of 3): played in 7 min, 7 min remain",
        "seed 9 (3 of 3): 531 jobs",
        "seed 9 (3 of 3): played in 7 min",
    ]


def test_a_terminal_shows_the_seed_the_time_in_it_and_what_remains_of_all(wall: Wall) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with Showing(console, 2, 60.0, wall) as showing:
        showing.begin(4, 531, HOURS)
        # Nothing is known yet but how fast it is to go.
        assert shown(showing) == ("seed 4 (1 of 2)", "0:00 of 6:30, 13 min remain")
        showing.tell(-1.0, "starting the nodes")
        assert shown(showing) == ("seed 4 (1 of 2): starting the nodes", "0:00 of 6:30, 13 min remain")
        showing.tell(HOURS / 2, "")
        assert shown(showing) == ("seed 4 (1 of 2)", "3:15 of 6:30, 10 min remain")
        wall.now += 1200
        showing.end()
        showing.begin(5, 500, HOURS)
        # As long as the one before took.
        assert shown(showing) == ("seed 5 (2 of 2)", "0:00 of 6:30, 20 min remain")
    assert "seed 4 (1 of 2): played in 20 min" in out.getvalue()


def shown(showing: Showing) -> tuple[str, str]:
    task = showing._bar.tasks[0]
    return task.description, task.fields["where"]
