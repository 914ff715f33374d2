"""How long a child may be silent, where the process that listens does not run all the time."""

from __future__ import annotations

import pytest

from dutycycle_exporter import listening
from dutycycle_exporter.listening import START_UP, Listener
from dutycycle_exporter.model import Snapshot
from dutycycle_exporter.pipe import PipeClosedError, PipeSilentError

SILENCE = 25.0


class Pipe:
    """Messages by when they come, and a time for which nobody runs; the clock goes on only in waits."""

    def __init__(self, monkeypatch, messages, frozen=(float("inf"), 0.0)):
        self.now, self.messages, (self.frozen_at, self.frozen_for) = 0.0, list(messages), frozen
        monkeypatch.setattr(listening.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(listening, "wait", self.wait)
        monkeypatch.setattr(listening, "receive", self.receive)

    def wait(self, _pipe, seconds):
        if not self.messages:
            return True  # it is closed
        until = self.now + max(0.0, seconds)
        if self.messages and self.messages[0][0] <= until:
            until = max(self.now, self.messages[0][0])
        if self.frozen_at <= until:
            # The child does not run meanwhile, either.
            self.messages = [(at + self.frozen_for, message) for at, message in self.messages]
            until, self.frozen_at = self.frozen_at + self.frozen_for, float("inf")
        self.now = until
        return self.messages[0][0] <= self.now

    def receive(self, _pipe, *, within):
        if not self.messages:
            raise PipeClosedError
        at, message = self.messages[0]
        if at > self.now + within:
            self.now += within
            raise PipeSilentError
        self.now = max(self.now, at)
        self.messages.pop(0)
        return message


@pytest.fixture
def listen(monkeypatch):
    def run(*args, **kwargs):
        pipe = Pipe(monkeypatch, *args, **kwargs)
        listener = Listener(
            lambda call, *arguments: call(*arguments),
            on_snapshot=lambda _: None,
            on_xid=lambda _: None,
            on_silence=lambda: None,
        )
        _, reason, _ = listener.listen(0, lambda: SILENCE, lambda _: False)
        return reason, pipe.now

    return run


def snapshots(*times):
    return [(at, Snapshot(at, ())) for at in times]


def test_a_child_that_is_silent_for_too_long_hangs(listen):
    assert listen(snapshots(5, 29)) == ("exit", 29)
    assert listen(snapshots(5, 31)) == ("hang", 30)
    assert listen(snapshots(START_UP + SILENCE + 1)) == ("hang", START_UP + SILENCE)


@pytest.mark.parametrize("frozen_at", [6.0, 12.0, 20.0, 24.0, 27.5])
def test_time_in_which_both_stood_still_is_no_silence(listen, frozen_at):
    """Whenever in the child's turn: also in the last part of what it may take."""
    assert listen(snapshots(5, 29), frozen=(frozen_at, 300.0)) == ("exit", 329)


def test_a_child_that_hangs_is_found_after_that_all_the_same(listen):
    reason, at = listen(snapshots(5, 1e6), frozen=(20.0, 300.0))
    assert reason == "hang"
    assert 329 <= at <= 331
