"""Drives the alerter's periodic work: the only module that knows APScheduler.

Jobs live in memory, since the schedule comes from the configuration. A job that is late runs once and not for every
turn it missed, and never twice at the same time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from dutycycle_alerter.errors import AlerterError

log = logging.getLogger(__name__)


_THREADS = 12
"""More than there are tasks, also with those of former terms that hang: none of them keeps another from its turn. Of
those that a site has besides there are two terms', too.
"""

_STEP = 1.0
"""Seconds by which the wall clock may lag behind the monotonic one before it counts as set back."""


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """How a periodic task fared since the start: `seconds` is how long its last run took, `last_success` wall time."""

    runs: int = 0
    failures: int = 0
    seconds: float | None = None
    last_success: float | None = None


@dataclass(slots=True, eq=False)
class Task:
    """One function from `every` to `cancel`. `number` tells it from others of its name."""

    number: str
    name: str
    function: Callable[[], None]
    running: bool = False
    cancelled: bool = False


class Scheduler:
    """Runs functions at fixed intervals on a small pool of threads.

    APScheduler waits for instants of the wall clock: where that is set back, everything would wait for as long as the
    step. So it is watched, and after a step everything is due at once. `further` is how many tasks there may be beside
    the alerter's own few.
    """

    def __init__(self, wall: Callable[[], float] = time.time, *, further: int = 0) -> None:
        self._wall = wall
        self._runs: dict[str, TaskRuns] = {}
        self._tasks: dict[str, Task] = {}
        self._numbers = count(1)
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._watch = threading.Thread(target=self._watch_clock, name="clock", daemon=True)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(_THREADS + 2 * further)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def every(self, seconds: float, name: str, function: Callable[[], None], *, delay: float = 0.0) -> Task:
        """Run a function every `seconds`, the first time after `delay`. An AlerterError of it is logged, and it goes
        on. Another of the name may still be running, where it was cancelled.
        """
        self._runs.setdefault(name, TaskRuns())
        self._tasks[name] = task = Task(f"{name} {next(self._numbers)}", name, function)
        self._scheduler.add_job(
            partial(self._run, task),
            "interval",
            seconds=seconds,
            id=task.number,
            name=name,
            next_run_time=datetime.now(UTC) + timedelta(seconds=delay),
        )
        return task

    def cancel(self, *tasks: Task) -> None:
        """Run them no more, and return when the last run of each is over. Harmless where that was done."""
        with self._changed:
            for task in tasks:
                # One that is due is with the executor already, and finds that it is cancelled.
                task.cancelled = True
        for task in tasks:
            with suppress(JobLookupError):
                self._scheduler.remove_job(task.number)
        with self._changed:
            self._changed.wait_for(lambda: not any(task.running for task in tasks))

    def soon(self, name: str) -> None:
        """Make the newest task of that name due now. Harmless where there is none."""
        task = self._tasks.get(name)
        if task is not None:
            with suppress(JobLookupError):
                self._scheduler.modify_job(task.number, next_run_time=datetime.now(UTC))

    def tasks(self) -> Mapping[str, TaskRuns]:
        """Every task's runs so far, by its name; also of those that were cancelled."""
        return dict(self._runs)

    def start(self) -> None:
        """Begin."""
        self._scheduler.start()
        self._watch.start()

    def stop(self) -> None:
        """Let what runs finish, and start nothing more."""
        self._stopped.set()
        if self._scheduler.running:
            self._watch.join()
            self._scheduler.shutdown(wait=True)

    def _watch_clock(self) -> None:
        ahead = self._wall() - time.monotonic()
        while not self._stopped.wait(_STEP):
            before, ahead = ahead, self._wall() - time.monotonic()
            if ahead < before - _STEP:
                log.warning("the clock was set back by %.0f s", before - ahead)
                for job in self._scheduler.get_jobs():
                    with suppress(JobLookupError):  # it was cancelled meanwhile
                        job.modify(next_run_time=datetime.now(UTC))

    def _run(self, task: Task) -> None:
        with self._changed:
            if task.cancelled:
                return
            task.running = True
        try:
            self._run_once(task.name, task.function)
        finally:
            with self._changed:
                task.running = False
                self._changed.notify_all()

    def _run_once(self, name: str, function: Callable[[], None]) -> None:
        began = time.monotonic()
        succeeded = False
        try:
            function()
            succeeded = True
        except AlerterError as error:
            log.error("%s failed: %s", name, error)  # noqa: TRY400 - the message is for people; a trace adds nothing
        except Exception:
            # Whatever else goes wrong in one turn must not end the schedule; the trace says where.
            log.exception("%s failed unexpectedly", name)
        seconds, last_success = time.monotonic() - began, self._wall() if succeeded else None
        with self._changed:
            before = self._runs[name]
            self._runs[name] = replace(
                before,
                runs=before.runs + 1,
                failures=before.failures + (not succeeded),
                seconds=seconds,
                last_success=last_success if succeeded else before.last_success,
            )
