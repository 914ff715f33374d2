"""Users who want no more of a receiver."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.mutes import mute, muted, unmute
from dutycycle_alerter.store.reader import StoreReader
from tests.alerter.store.conftest import text, undone


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(receiver=text(60), user=text(60))
def test_of_that_receiver_and_user_alone(database: Database, receiver: str, user: str) -> None:
    with undone(database) as connection:
        for at in (1.0, 2.0):
            mute(connection, receiver, user, at=at)
            assert muted(connection, receiver, user)
        assert not muted(connection, receiver + "x", user)
        assert not muted(connection, receiver, user + "x")
        for _ in range(2):
            unmute(connection, receiver, user)
            assert not muted(connection, receiver, user)


def test_as_people_say_it(database: Database) -> None:
    store = StoreReader(database)
    store.mute("mail", "alice")
    store.mute("mail", "alice")
    assert store.muted("mail", "alice")
    store.unmute("mail", "alice")
    store.unmute("mail", "alice")
    assert not store.muted("mail", "alice")
    assert len(store.key()) == 32
