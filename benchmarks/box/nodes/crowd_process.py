"""The process in which the crowd lives: reads its nodes in turn, answers scrapes, and takes jobs as they are fed."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from multiprocessing.connection import Connection

from ..clock import Clock
from .crowd import CrowdNode
from .pages import serve
from .protocol import Assignment, Fed, Report
from .schedule import turns


def run(assignment: Assignment, control: Connection, feed: Connection) -> None:
    """A child process's whole life; see `protocol`."""
    # Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_Crowd(assignment, control, feed).run())


class _Crowd:
    def __init__(self, assignment: Assignment, control: Connection, feed: Connection) -> None:
        begin, settings = time.time(), assignment.settings
        self._nodes = {
            name: CrowdNode(name, assignment.gpus, assignment.directory, settings, begin, model)
            for name, model in assignment.models.items()
        }
        self._interval = settings.read_interval / settings.time_scale
        self._faults = assignment.faults
        self._control = control
        self._feed = feed
        self._clock: Clock | None = None
        self._report = Report()
        self._over = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for node in self._nodes.values():
            node.read(time.time())
        served = {name: await serve(node.page) for name, node in self._nodes.items()}
        self._control.send({name: f"127.0.0.1:{port}" for name, (_, port) in served.items()})
        loop.add_reader(self._control.fileno(), self._heard)
        loop.add_reader(self._feed.fileno(), self._fed)
        gc.freeze()
        reading = asyncio.create_task(self._read())
        await self._over.wait()
        reading.cancel()
        for server, _ in served.values():
            server.close()
        self._control.send(self._report)

    def _heard(self) -> None:
        """The parent says when the scenario begins, and later that it is over. Its death says that, too."""
        try:
            said = self._control.recv()
        except EOFError:
            said = None
        if not isinstance(said, Clock):
            self._over.set()
            return
        self._clock = said
        for fault in self._faults:
            self._nodes[fault.gpu[0]].afflict(fault, said)

    def _fed(self) -> None:
        try:
            fed = self._feed.recv()
        except EOFError:
            fed = None
        if not isinstance(fed, Fed):
            asyncio.get_running_loop().remove_reader(self._feed.fileno())
            return
        if self._clock is None:
            # It was sent before, over the other connection.
            self._heard()
            if self._clock is None:
                return
        late = self._clock.scenario(time.time()) - fed.job.start
        if late > 0:
            self._report.late_jobs[fed.job.number] = late
        for name in fed.job.nodes:
            if name in self._nodes:
                self._nodes[name].add(fed.job, fed.course, self._clock)

    async def _read(self) -> None:
        due = turns(self._nodes, self._interval, time.time())
        while True:
            for name, turn in due.items():
                now = time.time()
                if now < turn.due:
                    await asyncio.sleep(turn.due - now)
                    now = time.time()
                missed = turn.take(now)
                self._report.reads += 1 + missed
                self._report.late_reads += missed
                self._nodes[name].read(now)
                await asyncio.sleep(0)
