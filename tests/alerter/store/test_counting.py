"""Who evaluates counts what becomes of incidents, once, whoever did it; and what was counted never falls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from dutycycle_alerter.counting import Counting
from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.settings import Retention
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.retention import forget
from tests.alerter.store.test_incidents import NOW, add, incident

DAY = 86400.0


class Clock:
    """Monotonic time that goes by when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Term:
    """It is over when it is told to be; with `after`, at that look at it."""

    def __init__(self, after: int | None = None) -> None:
        self.ended, self.after = False, after

    @property
    def over(self) -> bool:
        if self.after is not None:
            self.after -= 1
            return self.after < 0
        return self.ended


class Alerter:
    """One that leads when it is told to."""

    def __init__(self, database: Database, *, held: float = 0.0) -> None:
        self.term = Term()
        self.clock = Clock()
        self.counting = Counting(database, held=held, monotonic=self.clock)

    def lead(self) -> None:
        self.term = Term()
        self.counting.begin(self.term)

    def lose(self) -> None:
        self.term.ended = True

    @property
    def opened(self) -> int:
        return sum(self.counting.tally().opened.values())

    @property
    def resolved(self) -> int:
        return sum(self.counting.tally().resolved.values())


def test_what_happened_before_its_term_is_not_counted(database: Database) -> None:
    add(database, incident("before"))
    alerter = Alerter(database)
    assert alerter.opened == 0
    alerter.lead()
    assert alerter.opened == 0
    add(database, incident("a"), incident("b"))
    assert alerter.opened == 2
    assert alerter.opened == 2, "asking twice counts once"


def test_a_store_that_is_known_not_to_answer_is_not_asked(database: Database) -> None:
    alerter = Alerter(database)
    alerter.lead()
    add(database, incident("a"))
    assert sum(alerter.counting.tally(False).opened.values()) == 0
    assert alerter.opened == 1


def test_what_people_do_elsewhere_is_counted(database: Database) -> None:
    (number,) = add(database, incident("a"))
    alerter = Alerter(database)
    alerter.lead()
    StoreReader(database, lambda: NOW + 60).resolve(number, actor="alice")
    assert alerter.counting.tally().resolved["idle", "operator"] == 1


def test_of_two_alerters_only_the_one_that_leads_counts(database: Database) -> None:
    first, second = Alerter(database), Alerter(database)
    first.lead()
    add(database, incident("a"))
    assert (first.opened, second.opened) == (1, 0)
    add(database, incident("while nobody asked"))
    first.lose()
    second.lead()
    add(database, incident("b"))
    assert (first.opened, second.opened) == (1, 1), "what the first has stays as it is"
    second.lose()
    first.lead()
    add(database, incident("c"))
    assert (first.opened, second.opened) == (2, 1), "it goes on where it was"


def test_who_is_asked_while_its_new_term_is_yet_to_begin_counts_nothing_of_others(database: Database) -> None:
    """The lease is taken first; only then is it read from where to count."""
    first, second = Alerter(database), Alerter(database)
    first.lead()
    first.lose()
    second.lead()
    add(database, incident("a"))
    assert second.opened == 1
    second.lose()
    assert first.opened == 0, "the lease is its own, and the term has not begun"
    first.lead()
    assert (first.opened, second.opened) == (0, 1)


def test_one_whose_lease_ends_while_it_reads_counts_nothing(database: Database) -> None:
    counting = Counting(database, held=0)
    counting.begin(Term(after=1))
    add(database, incident("a"))
    assert sum(counting.tally().opened.values()) == 0


def test_counters_stay_at_zero_until_a_scraper_can_have_seen_them(database: Database) -> None:
    alerter = Alerter(database, held=120)
    alerter.lead()
    add(database, incident("a"))
    alerter.clock.now = 119.0
    assert alerter.opened == 0
    alerter.clock.now = 120.0
    assert alerter.opened == 1


def test_more_than_one_read_takes_are_all_counted(database: Database) -> None:
    from dutycycle_alerter.incidents.model import Event, EventKind, Step
    from dutycycle_alerter.store import incidents

    alerter = Alerter(database)
    alerter.lead()
    steps = [(None, Step(incident(f"slurm/{n}"), (Event(NOW, EventKind.OPENED, ""),))) for n in range(2500)]
    with database.write() as connection:
        incidents.save_all(connection, steps)
    assert alerter.opened == 2500


def test_what_the_store_forgets_stays_counted(database: Database) -> None:
    alerter = Alerter(database)
    alerter.lead()
    (number, _) = add(database, incident("a", opened_at=NOW - 900 * DAY), incident("b"))
    StoreReader(database, lambda: NOW - 899 * DAY).resolve(number, actor="alice")
    assert (alerter.opened, alerter.resolved) == (2, 1)
    # Something newer, so that this one may go.
    add(database, incident("c"))
    forget(database, Retention(), NOW)
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM incident")).scalar() == 2
    assert (alerter.opened, alerter.resolved) == (3, 1)


def test_while_the_store_does_not_answer_the_sums_stay(sqlite_url: str) -> None:
    store = Broken(open_database(sqlite_url))
    alerter = Alerter(store)  # type: ignore[arg-type]
    alerter.lead()
    add(store.database, incident("a"))
    assert alerter.opened == 1
    store.broken = True
    add(store.database, incident("b"))
    assert alerter.opened == 1
    store.broken = False
    assert alerter.opened == 2
    store.database.close()


class Broken:
    """A database that answers when it wants to."""

    def __init__(self, database: Database) -> None:
        self.database, self.broken = database, False

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        if self.broken:
            raise StoreError("gone")
        with self.database.read() as connection:
            yield connection
