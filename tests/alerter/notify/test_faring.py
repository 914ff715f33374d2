"""How long a receiver is left alone after failures."""

from __future__ import annotations

import pytest

from dutycycle_alerter.notify.faring import Faring

NOW = 1000.0


def failed(*messages: int, retry_after: float | None = None) -> Faring:
    faring = Faring(first=10, longest=900, pause=3600)
    for message in messages:
        faring.failure(message, NOW, "refused", retry_after)
    return faring


@pytest.mark.parametrize(
    ("messages", "least", "most"),
    [((), 0, 0), ((1,), 0, 0), ((1, 1, 1), 0, 0), ((1, 2), 8, 10), ((1, 2, 1, 2), 32, 40), ((1, 2) * 20, 720, 900)],
)
def test_where_different_messages_fail_in_a_row_the_receiver_is_waited_for(
    messages: tuple[int, ...], least: float, most: float
) -> None:
    waits = failed(*messages).not_before
    assert waits == 0 if most == 0 else NOW + least <= waits <= NOW + most


def test_it_says_itself_for_how_long() -> None:
    assert failed(1, retry_after=600).not_before == NOW + 600
    assert failed(1, retry_after=86400).not_before == NOW + 3600, "within reason"
    assert failed(1, 2, retry_after=1).not_before >= NOW + 8


def test_a_clock_that_is_set_back_ends_a_wait() -> None:
    faring = failed(1, retry_after=600)
    assert faring.waits(NOW)
    assert not faring.waits(NOW + 600)
    assert not faring.waits(NOW - 7200)


def test_an_answer_ends_it() -> None:
    faring = failed(1, 2, 3)
    faring.success(4, sent=1)
    assert (faring.down, faring.not_before, faring.counts.failing_since, faring.counts.error) == (False, 0, None, "")


def test_messages_that_fail_beside_others_that_are_taken_fail_by_themselves() -> None:
    faring = failed(1, 2, 3)
    faring.success(4)
    for message in (1, 2, 3, 1, 2, 3):
        faring.failure(message, NOW, "refused", None)
    assert (faring.down, faring.not_before) == (False, 0)
    faring.failure(5, NOW, "refused", None)
    assert not faring.down
    faring.failure(6, NOW, "refused", None)
    assert faring.down
    assert 0 < faring.not_before - NOW <= 20
    faring.success(1)
    faring.failure(1, NOW, "refused", None)
    faring.failure(7, NOW, "refused", None)
    assert faring.down, "what was taken once counts again"


def test_a_message_of_no_use_says_nothing_of_the_receiver() -> None:
    faring = failed(1, 2)
    before = faring.not_before
    faring.refused(3)
    assert (faring.down, faring.not_before, faring.counts.failing_since) == (True, before, NOW)
    faring.refused(1)
    assert (faring.down, faring.counts.failing_since) == (False, NOW)
    faring.refused(2)
    assert (faring.not_before, faring.counts.failing_since) == (0, None), "nothing fails any more"


def test_what_was_taken_for_some_is_an_answer() -> None:
    faring = failed(1, 2)
    faring.partly(1, NOW, "not yet for bob", None)
    assert (faring.down, faring.counts.failing_since, faring.counts.retried) == (False, None, 3)


def test_while_it_is_down_it_gets_something_new_ever_more_rarely() -> None:
    faring = failed(1)
    assert faring.takes_new(NOW)
    faring.failure(2, NOW, "refused", None)
    given = []
    for minute in range(24 * 60):
        now = NOW + 60 * minute
        if faring.takes_new(now):
            faring.given_new(now)
            given.append(minute)
    assert given == [15, 75, 315, 1275]
    faring.success(1)
    assert faring.takes_new(now)


def test_nothing_new_is_put_together_while_it_wants_to_be_left_alone() -> None:
    faring = failed(1, retry_after=600)
    assert not faring.takes_new(NOW + 599)
    assert faring.takes_new(NOW + 600)


def test_what_became_of_messages_is_counted() -> None:
    faring = failed(1, 2)
    faring.failure(1, NOW + 60, "still refused", None, given_up=True)
    counts = faring.counts
    assert (counts.sent, counts.retried, counts.failed) == (0, 2, 1)
    assert (counts.failing_since, counts.error) == (NOW, "still refused")
    faring.refused(3)
    faring.success(2, sent=1)
    faring.success(0)
    assert (faring.counts.sent, faring.counts.retried, faring.counts.failed) == (1, 2, 2)


def test_back_off_doubles_up_to_the_longest() -> None:
    faring = failed()
    for attempts, most in ((1, 10), (2, 20), (5, 160), (50, 900), (10_000, 900)):
        assert 0.8 * most <= faring.back_off(attempts) <= most
