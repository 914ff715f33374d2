"""Scrapes that come together, or one just after another, cost the store what one costs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

import pytest
from prometheus_client.core import GaugeMetricFamily

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.web.shared import Shared


class Clock:
    """Monotonic time that goes by when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Store:
    """Counts how often it is read, and at how many places at once."""

    def __init__(self) -> None:
        self.reads, self.most, self.broken = 0, 0, False
        self._now, self._lock = 0, Lock()

    def read(self) -> list[GaugeMetricFamily]:
        with self._lock:
            self.reads += 1
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            if self.broken:
                raise StoreError("gone")
            return [GaugeMetricFamily("reads", "", value=self.reads)]
        finally:
            with self._lock:
                self._now -= 1


def test_all_who_come_at_once_share_one_read() -> None:
    store, shared, together = Store(), Shared(Clock()), Barrier(20)

    def scrape(_: int) -> object:
        together.wait(60)
        return shared.of("all", store.read)

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(scrape, range(20)))
    assert (store.reads, store.most) == (1, 1)
    assert all(one is found[0] for one in found)


def test_what_is_a_second_old_is_read_anew() -> None:
    clock, store = Clock(), Store()
    shared = Shared(clock)
    for now, reads in ((0.0, 1), (0.9, 1), (1.0, 2), (1.5, 2), (60.0, 3)):
        clock.now = now
        shared.of("all", store.read)
        assert store.reads == reads, now


def test_what_one_may_see_is_given_to_no_other() -> None:
    store, shared = Store(), Shared(Clock())
    assert shared.of(True, store.read) is not shared.of(False, store.read)
    assert shared.of(True, store.read) is shared.of(True, store.read)


def test_a_failure_is_not_kept() -> None:
    store, shared = Store(), Shared(Clock())
    store.broken = True
    with pytest.raises(StoreError):
        shared.of("all", store.read)
    store.broken = False
    assert shared.of("all", store.read)
