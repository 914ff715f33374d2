"""Periodic work goes on whatever one turn does, never overlaps itself, and has ended when it is said to have ended."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.scheduler import Scheduler

OFTEN = 0.01
PATIENCE = 60.0


class Turns:
    """Counts the turns of a job, and lets a test wait for a number of them."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_for(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= number, PATIENCE)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler()
    yield made
    made.stop()


@pytest.mark.parametrize("error", [StoreError("disk is full"), ValueError("a bug"), KeyError("x"), MemoryError()])
def test_a_job_that_raises_is_logged_and_goes_on(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    turns = Turns()

    def fails() -> None:
        turns()
        raise error

    scheduler.every(OFTEN, "scrape", fails)
    scheduler.start()
    turns.wait_for(3)
    scheduler.stop()
    records = [record for record in caplog.records if record.name == "dutycycle_alerter.scheduler"]
    assert len(records) == turns.count
    assert all(record.levelno == logging.ERROR and "scrape failed" in record.getMessage() for record in records)
    # What is expected to happen is a message; what is not is a trace that says where.
    assert all((record.exc_info is None) == isinstance(error, StoreError) for record in records)


def test_a_slow_job_never_overlaps_itself_and_holds_up_no_other(scheduler: Scheduler) -> None:
    other, slow, release = Turns(), Turns(), threading.Event()

    def blocks() -> None:
        slow()
        assert release.wait(PATIENCE)

    scheduler.every(OFTEN, "slow", blocks)
    scheduler.every(OFTEN, "other", other)
    scheduler.start()
    slow.wait_for(1)
    other.wait_for(other.count + 20)
    assert slow.count == 1
    release.set()
    slow.wait_for(2)


def test_turns_that_were_missed_are_made_up_for_by_one(scheduler: Scheduler) -> None:
    """A machine that slept for an hour does not scrape two hundred times when it wakes up."""
    late, other = Turns(), Turns()
    scheduler.every(OFTEN, "late", late, delay=-3600)
    scheduler.every(OFTEN, "other", other)
    scheduler.start()
    other.wait_for(20)
    assert 1 <= late.count < other.count + 1000 < 3600 / OFTEN


def test_the_first_turn_is_at_once_or_after_the_delay(scheduler: Scheduler) -> None:
    at_once, later, other = Turns(), Turns(), Turns()
    scheduler.every(3600, "at once", at_once)
    scheduler.every(3600, "later", later, delay=3600)
    scheduler.every(OFTEN, "other", other)
    scheduler.start()
    at_once.wait_for(1)
    other.wait_for(10)
    assert (at_once.count, later.count) == (1, 0)


def test_stop_waits_for_what_runs_and_starts_nothing_more(scheduler: Scheduler) -> None:
    begun, release, ended, turns = threading.Event(), threading.Event(), threading.Event(), Turns()

    def blocks() -> None:
        begun.set()
        assert release.wait(PATIENCE)
        ended.set()

    scheduler.every(3600, "blocks", blocks)
    scheduler.every(OFTEN, "often", turns)
    scheduler.start()
    assert begun.wait(PATIENCE)
    turns.wait_for(1)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    stopping.join(0.2)
    assert stopping.is_alive(), "it waits"
    release.set()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert ended.is_set()
    stopped_at = turns.count
    assert not threading.Event().wait(20 * OFTEN)
    assert turns.count == stopped_at


def test_stop_is_harmless_before_start_and_twice() -> None:
    scheduler = Scheduler()
    scheduler.every(OFTEN, "never", Turns())
    scheduler.stop()
    scheduler.start()
    scheduler.stop()
    scheduler.stop()


def test_no_thread_stays_behind(scheduler: Scheduler) -> None:
    before = set(threading.enumerate())
    turns = Turns()
    scheduler.every(OFTEN, "often", turns)
    scheduler.start()
    turns.wait_for(2)
    scheduler.stop()
    assert set(threading.enumerate()) <= before


def test_a_clock_that_is_set_back_makes_nothing_wait_for_the_length_of_the_step() -> None:
    """Everything is planned by the wall clock: what was due at the old three o'clock would wait for the new one."""
    step = threading.Event()
    scheduler = Scheduler(wall=lambda: time.time() - (7200 if step.is_set() else 0))
    turns = Turns()
    scheduler.every(3600, "scrape", turns, delay=3600)
    scheduler.start()
    try:
        assert turns.count == 0
        step.set()
        turns.wait_for(1)
    finally:
        scheduler.stop()
    assert turns.count == 1


def test_runs_and_failures_of_each_task_are_counted(scheduler: Scheduler) -> None:
    good, bad = Turns(), Turns()

    def fails() -> None:
        bad()
        raise StoreError("disk is full")

    scheduler.every(OFTEN, "good", good)
    scheduler.every(OFTEN, "bad", fails)
    assert {name: task.runs for name, task in scheduler.tasks().items()} == {"good": 0, "bad": 0}
    scheduler.start()
    good.wait_for(3)
    bad.wait_for(3)
    scheduler.stop()
    done, failed = scheduler.tasks()["good"], scheduler.tasks()["bad"]
    assert (done.runs, done.failures) == (good.count, 0)
    assert (failed.runs, failed.failures) == (bad.count, bad.count)
    assert done.seconds is not None
    assert done.last_success is not None
    assert failed.last_success is None


def test_a_cancelled_task_runs_no_more_and_can_be_made_again(scheduler: Scheduler) -> None:
    former, other, again = Turns(), Turns(), Turns()
    task = scheduler.every(OFTEN, "pass", former)
    scheduler.every(OFTEN, "other", other)
    scheduler.start()
    former.wait_for(3)
    scheduler.cancel(task)
    scheduler.cancel(task)
    count = former.count
    other.wait_for(other.count + 20)
    assert former.count == count
    runs = scheduler.tasks()["pass"].runs
    assert runs == count
    scheduler.every(OFTEN, "pass", again)
    again.wait_for(2)
    assert former.count == count
    assert scheduler.tasks()["pass"].runs > runs, "it goes on counting"


def test_cancelling_waits_for_the_run_that_is_in_progress(scheduler: Scheduler) -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks() -> None:
        begun.set()
        assert release.wait(PATIENCE)
        ended.set()

    task = scheduler.every(OFTEN, "pass", blocks)
    scheduler.start()
    assert begun.wait(PATIENCE)
    cancelling = threading.Thread(target=scheduler.cancel, args=(task,))
    cancelling.start()
    cancelling.join(0.1)
    assert cancelling.is_alive()
    release.set()
    cancelling.join(PATIENCE)
    assert not cancelling.is_alive()
    assert ended.is_set()
    assert scheduler.tasks()["pass"].runs == 1


def test_a_task_can_be_made_due(scheduler: Scheduler) -> None:
    turns = Turns()
    scheduler.every(3600, "lease", turns, delay=3600)
    scheduler.soon("no such task")
    scheduler.start()
    scheduler.soon("lease")
    turns.wait_for(1)


def test_more_tasks_may_hang_than_an_alerter_has(scheduler: Scheduler) -> None:
    release, lease = threading.Event(), Turns()
    for name in ("scrape", "pass", "housekeeping"):
        scheduler.every(OFTEN, name, lambda: release.wait(PATIENCE) and None)
    scheduler.every(OFTEN, "lease", lease)
    scheduler.start()
    try:
        lease.wait_for(5)
    finally:
        release.set()


def test_a_task_is_made_again_while_the_last_run_of_its_former_hangs(scheduler: Scheduler) -> None:
    """All that are cancelled together run no more, also where the first of them hangs; those of the name go on."""
    begun, release, former, again = threading.Event(), threading.Event(), Turns(), Turns()

    def hangs() -> None:
        begun.set()
        assert release.wait(PATIENCE)

    tasks = [scheduler.every(OFTEN, "scrape", hangs), scheduler.every(OFTEN, "pass", former)]
    scheduler.start()
    assert begun.wait(PATIENCE)
    former.wait_for(1)
    cancelling = threading.Thread(target=scheduler.cancel, args=tasks)
    cancelling.start()
    scheduler.every(OFTEN, "scrape", again)
    again.wait_for(20)
    count = former.count
    again.wait_for(40)
    assert former.count == count
    assert cancelling.is_alive()
    runs = scheduler.tasks()["scrape"].runs
    release.set()
    cancelling.join(PATIENCE)
    assert scheduler.tasks()["scrape"].runs > runs, "a run that ends late takes none back"


def test_a_clock_set_back_while_a_task_is_cancelled_is_noticed_the_next_time_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back = 0.0
    scheduler = Scheduler(wall=lambda: time.time() - back)
    turns = Turns()
    cancelled = scheduler.every(3600, "cancelled", Turns(), delay=3600)
    scheduler.every(3600, "scrape", turns, delay=3600)
    jobs_of = scheduler._scheduler.get_jobs

    def get_jobs() -> list[Any]:
        jobs: list[Any] = jobs_of()
        scheduler.cancel(cancelled)
        return jobs

    monkeypatch.setattr(scheduler._scheduler, "get_jobs", get_jobs)
    scheduler.start()
    try:
        for step in (1, 2):
            back += 7200
            turns.wait_for(step)
    finally:
        scheduler.stop()
