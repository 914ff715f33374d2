"""All nodes of a run: the processes in which they live, and who feeds them."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fakes.nvml import Model, models

from ..clock import Clock
from ..model import Scenario
from . import crowd_process, doubles_process
from .feeding import Courses, feed
from .protocol import Assignment, Report
from .settings import NodeSettings

CROWDS = 2
"""Processes that the crowd is spread over: one that stands still for a moment does not delay all nodes."""
DOUBLES_EACH = 4
"""Nodes on the NVML double that share a process, in which time passes for each by a thread: where all 32 did, they kept
one another, and jobs that were due, waiting for minutes.
"""
PATIENCE = 300.0
"""Wall seconds that a process may take to begin or to end."""


class _Hosting:
    """One process with nodes in it."""

    def __init__(
        self, name: str, run: Callable[[Assignment, Connection, Connection], None], assignment: Assignment
    ) -> None:
        self.name = name
        self.nodes = tuple(assignment.models)
        context = multiprocessing.get_context("spawn")
        self.control, its_control = context.Pipe()
        its_feed, self.feed = context.Pipe(duplex=False)
        self.process = context.Process(target=run, args=(assignment, its_control, its_feed), name=name, daemon=True)
        self.process.start()
        its_control.close()
        its_feed.close()

    def hear(self) -> Any:
        if not self.control.poll(PATIENCE):
            raise TimeoutError(f"{self.name} says nothing")
        return self.control.recv()

    def end(self) -> None:
        self.process.join(10)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


class Fleet:
    """A context manager. The first `processes` of the scenario's nodes are on the NVML double, with an exporter each;
    `time` runs from `begin` on.
    """

    def __init__(
        self, scenario: Scenario, courses: Courses, directory: Path, settings: NodeSettings, processes: int
    ) -> None:
        self._scenario = scenario
        self._courses = courses
        self._directory = directory
        self._settings = replace(settings, sample_period=scenario.sample_period, full=scenario.full)
        known = {name: getattr(models, scenario.models.get(name, "H100")) for name in scenario.nodes}
        self._real = _spread(scenario.nodes[:processes], known, ceil(processes / DOUBLES_EACH))
        self._crowds = _spread(scenario.nodes[processes:], known, CROWDS)
        self._hosting: list[_Hosting] = []
        self._feeder: BaseProcess | threading.Thread | None = None
        self._feeding: Connection | None = None
        self.targets: Mapping[str, str] = {}
        """Where each node's page is."""
        self.children: dict[str, int] = {}
        """Process ids, for who wants to know what they take."""

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._feeding is not None:
            with suppress(OSError):
                self._feeding.send(None)
        for hosting in self._hosting:
            with suppress(OSError):
                hosting.control.send(None)
        for hosting in self._hosting:
            hosting.end()
        self._hosting = []
        if self._feeder is not None:
            self._feeder.join(10)
            if isinstance(self._feeder, BaseProcess) and self._feeder.is_alive():
                self._feeder.terminate()
        self._feeder = None

    def _start(self) -> None:
        for name, nodes, run in (
            *((f"crowd-{number}", nodes, crowd_process.run) for number, nodes in enumerate(self._crowds, 1)),
            *((f"doubles-{number}", nodes, doubles_process.run) for number, nodes in enumerate(self._real, 1)),
        ):
            if nodes:
                faults = tuple(fault for fault in self._scenario.faults if fault.gpu[0] in nodes)
                assignment = Assignment(
                    nodes, self._scenario.gpus_per_node, self._directory / name, self._settings, faults
                )
                self._hosting.append(_Hosting(name, run, assignment))
        self._start_feeder()
        targets: dict[str, str] = {}
        for hosting in self._hosting:
            assert hosting.process.pid is not None
            self.children[hosting.name] = hosting.process.pid
            targets |= hosting.hear()
        self.targets = targets

    def _start_feeder(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._feeding, its_control = context.Pipe()
        arguments = (
            self._scenario.jobs,
            self._courses,
            self._settings.time_scale,
            its_control,
            tuple((hosting.nodes, hosting.feed) for hosting in self._hosting),
        )
        if _can_be_sent(self._courses):
            self._feeder = context.Process(target=feed, args=arguments, name="feeder", daemon=True)
            self._feeder.start()
            assert self._feeder.pid is not None
            self.children["feeder"] = self._feeder.pid
            its_control.close()
        else:
            self._feeder = threading.Thread(target=feed, args=arguments, name="feeder", daemon=True)
            self._feeder.start()

    def prepare(self) -> int:
        """Waits until the courses of the jobs with which the scenario begins are made; how many those are."""
        assert self._feeding is not None
        while not self._feeding.poll(1.0):
            if self._feeder is not None and not self._feeder.is_alive():
                raise RuntimeError("the jobs' courses could not be made")
        return int(self._feeding.recv())

    def begin(self, clock: Clock) -> None:
        """From now on jobs run."""
        for hosting in self._hosting:
            hosting.control.send(clock)
        assert self._feeding is not None
        self._feeding.send(clock)

    def fed(self) -> bool:
        """Whether the courses of all jobs were made: the feeder ends with the last one."""
        return self._feeder is not None and not self._feeder.is_alive()

    def check(self) -> None:
        """Raises where a process has died."""
        for hosting in self._hosting:
            if not hosting.process.is_alive():
                raise RuntimeError(f"{hosting.name} has died")
        if isinstance(self._feeder, BaseProcess) and self._feeder.exitcode not in (None, 0):
            raise RuntimeError("the jobs' courses could not be made")

    def end(self) -> Mapping[str, Report]:
        """Stops all nodes; how each process fared."""
        found = {}
        for hosting in self._hosting:
            hosting.control.send(None)
            found[hosting.name] = hosting.hear()
        return found


def _spread(nodes: Sequence[str], models: Mapping[str, Model], processes: int) -> list[Mapping[str, Model]]:
    """The nodes of each process, with their models."""
    return [{name: models[name] for name in nodes[place::processes]} for place in range(processes)]


def _can_be_sent(what: object) -> bool:
    try:
        pickle.dumps(what)
    except Exception:  # noqa: BLE001 - whatever its parts raise, it cannot be sent
        return False
    return True
