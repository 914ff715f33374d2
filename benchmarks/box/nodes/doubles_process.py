"""The process in which the NVML doubles live: plays jobs on them at their times; the exporters are its children."""

from __future__ import annotations

import heapq
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import count
from multiprocessing.connection import Connection, wait
from typing import cast

from tests.e2e.site import wait_for
from tests.fakes.nvml import build

from ..clock import Clock
from ..model import Fault
from .double import Action, DoubleNode
from .protocol import Assignment, Fed, Report

PATIENCE = 240.0
_LATE = 0.25
"""Wall seconds by which something may be done late and still count as done in time."""


def run(assignment: Assignment, control: Connection, feed: Connection) -> None:
    """A child process's whole life; see `protocol`."""
    # Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory, settings = assignment.directory, assignment.settings
    libraries = build(directory / "library")
    with ExitStack() as stack:
        nodes = {
            name: stack.enter_context(DoubleNode(name, assignment.gpus, directory, libraries, settings, model))
            for name, model in assignment.models.items()
        }
        for node in nodes.values():
            wait_for(
                lambda node=node: "\ngpu_visible{" in node.exporter.metrics(),
                f"{node.exporter.name} has read NVML",
                within=PATIENCE,
            )
        control.send({name: f"127.0.0.1:{node.exporter.port}" for name, node in nodes.items()})
        clock = control.recv()
        if isinstance(clock, Clock):
            control.send(_Player(nodes, clock).play(assignment.faults, control, feed))


class _Player:
    def __init__(self, nodes: dict[str, DoubleNode], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._numbers = count()
        self._waiting: list[tuple[float, int, int, Action]] = []
        self._report = Report()

    def play(self, faults: Iterable[Fault], control: Connection, feed: Connection) -> Report:
        """Until it is told that the run is over."""
        for fault in faults:
            self._schedule(0, self._nodes[fault.gpu[0]].trouble(fault, self._clock))
        open_ends = [control, feed]
        while True:
            pause = max(0.0, self._waiting[0][0] - time.time()) if self._waiting else 1.0
            for end in cast(list[Connection], wait(open_ends, pause)):
                try:
                    said = end.recv()
                except EOFError:
                    said = None
                if end is control:
                    return self._report
                if isinstance(said, Fed):
                    for name in said.job.nodes:
                        if name in self._nodes:
                            actions = self._nodes[name].actions(said.job, said.course, self._clock)
                            self._schedule(said.job.number, actions)
                else:
                    open_ends.remove(feed)
            self._act()

    def _schedule(self, job: int, actions: Iterable[Action]) -> None:
        for action in actions:
            heapq.heappush(self._waiting, (action[0], next(self._numbers), job, action))

    def _act(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.time():
            due, _, job, (_, act) = heapq.heappop(self._waiting)
            late = time.time() - due
            if late > _LATE:
                worst = self._report.late_jobs.get(job, 0.0)
                self._report.late_jobs[job] = max(worst, late * self._clock.time_scale)
            try:
                act()
            except Exception as error:  # noqa: BLE001 - one job's trouble is told at the end, and the others go on
                self._report.trouble.append(f"job {job}: {error!r}")
