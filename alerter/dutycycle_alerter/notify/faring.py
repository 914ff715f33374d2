"""How a receiver fares: what became of its messages, and when it is to be asked again after failures."""

from __future__ import annotations

import random
from dataclasses import replace

from dutycycle_alerter.views import DeliveryCounts

_RARER = 4.0


class Faring:
    """Back-off doubles from `first` to `longest` (wall seconds). `not_before` is when the receiver may be asked again,
    `pause` how long it may ask to be left alone.

    One message that fails is waited for by itself. Where two different ones fail in a row the receiver does: then it is
    probed with one message at a time, until one succeeds. Then those that failed still are known to fail by themselves:
    whatever becomes of them says nothing of the receiver.
    """

    def __init__(self, *, first: float, longest: float, pause: float) -> None:
        self.counts = DeliveryCounts()
        self.not_before = 0.0
        self._first = first
        self._longest = longest
        self._pause = pause
        self._failures = 0
        self._failed: set[int] = set()
        self._by_themselves: set[int] = set()
        self._new_at = self._new_wait = 0.0

    @property
    def down(self) -> bool:
        """Whether it fails as a whole."""
        return len(self._failed - self._by_themselves) > 1

    def waits(self, now: float) -> bool:
        """Whether it is left alone. What is further ahead than any wait is from before the clock was set."""
        return now < self.not_before <= now + self._pause

    def heeded(self, retry_after: float | None) -> float:
        """For how long it is left alone that asks for so many wall seconds."""
        return 0.0 if retry_after is None else min(retry_after, self._pause)

    def takes_new(self, now: float) -> bool:
        """Whether something new is to be put together. While it is down that is one message now and then, ever more
        rarely: those that failed may be the only ones that do.
        """
        return not self.waits(now) and (not self.down or now >= self._new_at)

    def given_new(self, now: float) -> None:
        """While it is down, something new was put together."""
        self._new_at = now + self._new_wait
        self._new_wait *= _RARER

    def success(self, message: int, *, sent: int = 0) -> None:
        """It took something."""
        self._gone(message)
        self._answered()
        self.counts = replace(self.counts, sent=self.counts.sent + sent)

    def refused(self, message: int) -> None:
        """A message is of no use, which tells little of the receiver: perhaps it was not even asked."""
        waited = message in self._failed
        self._gone(message)
        if waited and not self._failed:
            self._answered()
        self.counts = replace(self.counts, failed=self.counts.failed + 1)

    def partly(self, message: int, now: float, reason: str, retry_after: float | None) -> None:
        """A message was taken for some, and is to be tried again for others. `retry_after` as in `failure`."""
        self._answered()
        self.not_before = now + self.heeded(retry_after)
        self._by_themselves.add(message)
        self.counts = replace(self.counts, retried=self.counts.retried + 1, error=reason)

    def failure(
        self, message: int, now: float, reason: str, retry_after: float | None, *, given_up: bool = False
    ) -> None:
        """A message could not be delivered. `retry_after` are wall seconds, where the receiver says so."""
        was_down = self.down
        self._failed.add(message)
        if message not in self._by_themselves:
            self._failures += 1
            if self.down:
                self.not_before = now + self.back_off(self._failures - 1)
        if self.down and not was_down:
            self._new_at, self._new_wait = now + self._longest, self._longest * _RARER
        if retry_after is not None:
            self.not_before = max(self.not_before, now + self.heeded(retry_after))
        counts = self.counts
        self.counts = replace(
            counts,
            failed=counts.failed + given_up,
            retried=counts.retried + (not given_up),
            failing_since=now if counts.failing_since is None else counts.failing_since,
            error=reason,
        )

    def back_off(self, attempts: int) -> float:
        """Wall seconds until the next attempt: some more or less, so that not all come back at once."""
        doubled = self._first * 2.0 ** min(attempts - 1, 30)
        return min(doubled, self._longest) * random.uniform(0.8, 1.0)  # noqa: S311 - no secret

    def _answered(self) -> None:
        self._failures, self.not_before = 0, 0.0
        self._by_themselves |= self._failed
        self._failed.clear()
        self.counts = replace(self.counts, failing_since=None, error="")

    def _gone(self, message: int) -> None:
        self._failed.discard(message)
        self._by_themselves.discard(message)
