"""What the ledger may lack of a GPU's hold, as the cluster's test reckons."""

from pathlib import Path

import pytest

from .accounts import Blind, Unscraped
from .loads import Hold

INTERVAL = 0.4


@pytest.mark.parametrize(
    ("lost", "hold", "unseen"),
    [
        (Blind("n1", 20, 30), (0, 100), 10.4),
        (Blind("n1", 20, 30), (0, 25), 5.4),
        (Blind("n2", 20, 30), (0, 100), 0),  # another node's
        (Unscraped(20, 30), (0, 100), 0),  # read afterwards
        (Unscraped(20, 30), (0, 25), 5.4),  # what it ended with was read by nobody
        (Unscraped(20, 30), (22, 25), 3.4),
        (Unscraped(20, 30), (0, 15), 0),
        (Unscraped(20, 30), (40, 50), 0),
    ],
)
def test_what_nobody_saw_of_a_hold(lost: Blind | Unscraped, hold: tuple[float, float], unseen: float) -> None:
    since, until = hold
    assert lost.of("n1", Hold(Path("file"), since=since, until=until), INTERVAL) == pytest.approx(unseen)
