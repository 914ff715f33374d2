"""Pauses between passes, as the store remembers them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dutycycle_alerter.incidents.unknown import Pauses
from dutycycle_alerter.store import pauses
from dutycycle_alerter.store.database import Database, get_meta, set_meta
from dutycycle_alerter.store.status import STATUS


def passes(database: Database, times: Sequence[float]) -> Pauses:
    found: Pauses = ()
    for now in times:
        with database.write() as connection:
            found = pauses.noted(connection, now, longest=180)
            set_meta(connection, STATUS, (get_meta(connection, STATUS) or {}) | {"last_pass": now})
    return found


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([1000], []),
        ([1000, 1060, 1240], []),
        ([1000, 1060, 1241, 1300], [(1060, 1241)]),
        ([1000, 5000, 5060, 9000], [(1000, 5000), (5060, 9000)]),
        pytest.param([1000, 90_000, 1060, 1120], [(1000, 1060)], id="the clock was ahead and was set back"),
        pytest.param([1000, 90_000, 1060, 95_000], [(1000, 1060), (1060, 95_000)], id="and ahead again"),
        pytest.param([1000, 97_200, 90_060], [(1000, 90_060)], id="back from a pause with a clock that is ahead"),
        pytest.param([5000, 90_000, 1060, 1120], [], id="set back to before the pause"),
    ],
)
def test_pauses_between_passes_are_remembered(
    database: Database, times: list[float], found: list[tuple[float, float]]
) -> None:
    assert list(passes(database, times)) == found


def test_a_bounded_number_of_pauses_is_remembered(database: Database) -> None:
    found = passes(database, [200.0 * number for number in range(110)])
    assert list(found) == [(200.0 * number, 200.0 * (number + 1)) for number in range(9, 109)]
