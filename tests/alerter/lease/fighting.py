"""Alerters in processes of their own that take the evaluator's lease from each other, stop and die in the middle of
passes; every pass that is committed leaves a row that says in which epoch.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.engine import STEPS, Engine
from dutycycle_alerter.errors import LeaseLostError, StoreError
from dutycycle_alerter.model import Consumption, Evidence
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.clock import DatabaseClock
from dutycycle_alerter.store.database import get_meta, open_database
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.store.status import WATERMARK
from dutycycle_alerter.views import TargetStatus
from tests.alerter.cases import evidence

LENGTH = 0.5
"""Wall seconds of the lease: a pass on a busy machine takes less."""

TIME_SCALE = 3600.0
"""A window of half an hour is half a second: the job's incident opens and ends many times."""

PHASE = 1.0
"""Seconds for which the one job idles, and then works."""

KILLED, STOPPED, PASSES = 0.025, 0.08, 0.3
"""How many of the terms have a pass that is killed at one of its steps, is stopped there, or is a pass at all."""

ABANDONED, RENEWED, AGAIN = 0.03, 0.1, 0.5
"""How many of them are not released, or renewed, or followed by another of the same alerter."""

PATIENCE = 120.0

metadata = sa.MetaData()
commits = sa.Table(
    "commits",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("holder", sa.String, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)


class Recorded:
    """The store as the term allows; each transaction that commits is in `commits`, in the order of commits."""

    def __init__(self, term: Term, holder: str) -> None:
        self._term = term
        self._holder = holder

    def read(self) -> AbstractContextManager[sa.Connection]:
        return self._term.read()

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        with self._term.write() as connection:
            yield connection
            last = connection.execute(sa.select(sa.func.coalesce(sa.func.max(commits.c.number), 0))).scalar_one()
            row = {"number": last + 1, "epoch": self._term.epoch, "holder": self._holder}
            connection.execute(sa.insert(commits).values(at=get_meta(connection, WATERMARK), **row))


class OneJob:
    """A job that idles and works in turn, and has always consumed what went by since the last pass."""

    def __init__(self, store: Recorded) -> None:
        self._store = store

    @contextmanager
    def evidence(self, at: float) -> Iterator[Evidence]:
        with self._store.read() as connection:
            since = get_meta(connection, WATERMARK)
        went_by = 0.0 if since is None else at - since
        utilization = 0.0 if int(at / PHASE) % 2 else 0.9
        recent = (Consumption("H200", went_by, went_by, utilization * went_by),)
        yield Evidence(jobs=[evidence([utilization], at=at, recent=recent)])

    def targets(self) -> tuple[TargetStatus, ...]:
        return ()

    def replaying(self) -> bool:
        return False


class Fighter:
    """One alerter's turns, until the lease has had so many epochs."""

    def __init__(self, url: str, holder: str, seed: int, turns: int, refused: Any) -> None:
        self._chance = random.Random(seed)
        self._turns = turns
        self._holder = holder
        self._refused = refused
        self._database = open_database(url, time_scale=TIME_SCALE)
        self._clock = DatabaseClock(self._database)
        self._settings = Settings(time_scale=TIME_SCALE).scaled()
        # One of them does not notice by itself that its term is over: then it is the database that refuses.
        notices = holder == "a"
        self._lease = Lease(
            self._database, holder, LENGTH, clock=self._clock, monotonic=time.monotonic if notices else lambda: 0.0
        )

    def fight(self) -> None:
        while True:
            try:
                seen, free = self._lease.look()
                if seen is not None and seen.epoch >= self._turns:
                    break
                term = self._lease.take() if free else None
                if term is None:
                    time.sleep(LENGTH / 10)
                while term is not None:
                    term = self._evaluate(term)
            except LeaseLostError:
                self._refused[0] += 1
            except StoreError:
                self._refused[1] += 1
        self._database.close()

    def _evaluate(self, term: Term) -> Term | None:
        """One term; returns the next one where nobody else was quicker."""
        store = Recorded(term, self._holder)
        self._end_at, self._fate = self._chance.choice(STEPS), self._chance.random()
        if self._fate < PASSES:
            Engine(self._settings, OneJob(store), store, self._clock, reached=self._reached).run_pass()
        else:
            with store.write():
                pass
        if self._chance.random() < ABANDONED:
            return None
        if self._chance.random() < RENEWED:
            term.renew()
        term.release()
        return self._lease.take() if self._chance.random() < AGAIN else None

    def _reached(self, step: str) -> None:
        if step == self._end_at:
            if self._fate < KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
            elif self._fate < STOPPED:
                os.kill(os.getpid(), signal.SIGSTOP)


def _fight(url: str, holder: str, seed: int, turns: int, refused: Any, ahead: float) -> None:
    true = time.time
    time.time = lambda: true() + ahead
    Fighter(url, holder, seed, turns, refused).fight()


class Ring:
    """Starts the fighters, has those that stopped go on after their lease is over, and replaces those that died.

    `apart` is by how many seconds their machines' clocks differ.
    """

    def __init__(self, url: str, turns: int, holders: Sequence[str] = ("a", "b"), apart: float = 300.0) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._url, self._turns, self._apart = url, turns, apart
        self._chance = random.Random()
        self._refused = {holder: self._context.RawArray("i", 2) for holder in holders}
        self._fighters = {holder: self._start(holder) for holder in holders}
        self.stops = self.kills = 0

    @property
    def refused(self) -> int:
        """How often a term was found to be over."""
        return sum(counts[0] for counts in self._refused.values())

    @property
    def ended(self) -> int:
        """How often the database ended a connection, or did not give a lock."""
        return sum(counts[1] for counts in self._refused.values())

    def run(self) -> None:
        stopped: dict[str, float] = {}
        try:
            while self._fighters:
                time.sleep(LENGTH / 30)
                if self._chance.random() < STOPPED / 10:
                    # At any moment, also within a statement or a commit.
                    self._signal(self._chance.choice(list(self._fighters)), signal.SIGSTOP)
                for holder, fighter in list(self._fighters.items()):
                    state = _state(fighter)
                    if state == "T":
                        if time.monotonic() - stopped.setdefault(holder, time.monotonic()) > 1.3 * LENGTH:
                            self.stops += 1
                            del stopped[holder]
                            self._signal(holder, signal.SIGCONT)
                    elif state in ("Z", ""):
                        fighter.join()
                        if fighter.exitcode == 0:
                            del self._fighters[holder]
                        else:
                            assert fighter.exitcode == -signal.SIGKILL, f"{holder} ended with {fighter.exitcode}"
                            self.kills += 1
                            self._fighters[holder] = self._start(holder)
        finally:
            for fighter in self._fighters.values():
                fighter.kill()
                fighter.join()

    def _start(self, holder: str) -> BaseProcess:
        ahead = 0.0 if holder == "a" else self._apart
        values = (self._url, holder, self._chance.randrange(2**32), self._turns, self._refused[holder], ahead)
        fighter = self._context.Process(target=_fight, args=values, daemon=True)
        fighter.start()
        return fighter

    def _signal(self, holder: str, number: signal.Signals) -> None:
        pid = self._fighters[holder].pid
        assert pid is not None
        # It may have killed itself since it was looked at; the next look finds that.
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _state(process: BaseProcess) -> str:
    """R, S, T (stopped), Z (dead), ... as the kernel says; empty where there is no such process."""
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
