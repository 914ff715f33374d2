"""The database's time between its answers: never ahead of it, and back only where the database's clock goes back."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.store.clock import DatabaseClock, clock_of
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader
from tests.fakes.clock import FakeClock

DELAYS = st.floats(0, 30)


def clock_with(monotonic: FakeClock) -> DatabaseClock:
    return DatabaseClock(None, monotonic)  # type: ignore[arg-type]  # it is told, and never asks


@given(st.lists(st.tuples(DELAYS, DELAYS, DELAYS), min_size=1))
def test_it_is_never_ahead_never_goes_back_and_lags_by_no_more_than_the_quickest_answer_took(
    answers: list[tuple[float, float, float]],
) -> None:
    monotonic, apart = FakeClock(), 1e9
    clock, last, quickest = clock_with(monotonic), 0.0, float("inf")
    for pause, there, back in answers:
        monotonic.advance(pause)
        before = monotonic()
        monotonic.advance(there)
        told = monotonic() + apart
        monotonic.advance(back)
        clock._learn(told, before, monotonic())
        quickest = min(quickest, there + back)
        lag = monotonic() + apart - clock()
        assert -1e-3 <= lag <= quickest + 1e-3
        assert clock() >= last - 1e-3
        last = clock()


def test_it_follows_a_clock_that_was_set() -> None:
    monotonic = FakeClock()
    clock = clock_with(monotonic)
    for apart in (1000.0, 1500.0, 200.0, 260.0):
        before = monotonic()
        monotonic.advance(1)
        clock._learn(before + 0.5 + apart, before, monotonic())
        assert abs(clock() - (monotonic() + apart)) <= 0.5 + 1e-6
        monotonic.advance(5)


def test_it_is_the_servers_where_there_is_one_and_ours_beside_a_file(database: Database, url: str) -> None:
    def wrong() -> float:
        return 7.0

    clock = clock_of(database, wrong)
    if url.startswith("sqlite"):
        assert clock is wrong
    else:
        assert abs(clock() - time.time()) < 60


def test_what_people_do_is_timed_by_the_database(postgres_url: str) -> None:
    """Whichever replica's page or machine's command line they use, and however wrong its clock is."""
    database = open_database(postgres_url)
    reader = StoreReader(database, clock_of(database, lambda: 7.0))
    assert abs(reader.status().now - time.time()) < 60
    reader.close()
