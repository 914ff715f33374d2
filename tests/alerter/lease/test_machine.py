"""Two holders in any order of taking, renewing, writing, ending and letting go: a lease is one's, or nobody's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from dutycycle_alerter.errors import LeaseLostError
from dutycycle_alerter.store.database import Database, get_meta, set_meta
from dutycycle_alerter.store.lease import Lease, Term, load_evaluating
from dutycycle_alerter.store.schema import lease as table

LONG = 3600.0
holders = st.sampled_from("ab")


class Holders(RuleBasedStateMachine):
    """What must hold is what this model says: `owner` is who has the lease, if it has not expired."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        with database.write() as connection:
            connection.execute(sa.delete(table))
            set_meta(connection, "written", 0)
        self.leases = {name: Lease(database, name, LONG) for name in "ab"}
        self.terms: list[tuple[str, Term]] = []
        self.owner: Term | None = None
        self.epoch = 0
        self.written = 0

    @rule(name=holders)
    def look(self, name: str) -> None:
        seen, free = self.leases[name].look()
        assert free == (self.owner is None)
        assert (0 if seen is None else seen.epoch) == self.epoch

    @rule(name=holders)
    def take(self, name: str) -> None:
        term = self.leases[name].take()
        assert (term is not None) == (self.owner is None)
        if term is not None:
            self.epoch += 1
            assert term.epoch == self.epoch
            self.owner = term
            self.terms.append((name, term))

    @precondition(lambda self: self.terms)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        term = self.some_term(data)
        self.try_in(term, term.renew)

    @precondition(lambda self: self.terms)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        term = self.some_term(data)

        def write() -> None:
            with term.write() as connection:
                set_meta(connection, "written", self.written + 1)

        if self.try_in(term, write):
            self.written += 1

    @precondition(lambda self: self.terms)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        term = self.some_term(data)
        term.release()
        assert term.over
        if term is self.owner:
            self.owner = None

    @precondition(lambda self: self.owner is not None)
    @rule()
    def expire(self) -> None:
        """Time goes by; nobody tells the holder."""
        with self.database.write() as connection:
            connection.execute(sa.update(table).values(expires_at=table.c.expires_at - LONG - 1))
        self.owner = None

    @invariant()
    def what_was_written_was_written_by_the_owner(self) -> None:
        with self.database.read() as connection:
            assert get_meta(connection, "written") == self.written
            known = load_evaluating(connection)
        assert (0 if known is None else known.epoch) == self.epoch

    def some_term(self, data: st.DataObject) -> Term:
        """The newest are the likeliest to matter."""
        return data.draw(st.sampled_from([term for _, term in self.terms[-3:]]))

    def try_in(self, term: Term, action: Callable[[], None]) -> bool:
        """Does it where the term is the owner's, and is refused elsewhere."""
        if term is self.owner:
            action()
            return True
        with pytest.raises(LeaseLostError):
            action()
        assert term.over
        return False


def test_any_sequence_of_two_holders_agrees_with_the_model(database: Database, url: str) -> None:
    examples = 25 if url.startswith("sqlite") else 5
    few = settings(max_examples=examples, stateful_step_count=20)
    run_state_machine_as_test(lambda: Holders(database), settings=few)
