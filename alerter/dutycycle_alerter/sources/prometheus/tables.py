"""The answers of a pass in columns: rows for what the jobs hold, for their hosts, and for GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.model import Gpu
from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.sources.prometheus.columns import Cells, Column, Rows, cells
from dutycycle_alerter.sources.prometheus.identity import Device, Known
from dutycycle_alerter.sources.prometheus.selectors import DEVICE, HOST, KEY, Query

Places = NDArray[np.int64]


@dataclass(slots=True)
class Tables:
    """Columns by (name, window in wall seconds). A table has its rows before its columns are filled.

    `free` are the GPUs that nobody holds. `learned` are what a GPU without work draws (watts) and holds (bytes), by
    model. `failed` are windows of which some answer is missing: nothing is known of those, because half of the evidence
    would pass for a whole that lacks a kind.
    """

    at: float
    jobs: Sequence[Known]
    free: Mapping[Device, Gpu] = field(default_factory=dict)
    learned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failed: set[float] = field(default_factory=set)
    rows: Rows = field(init=False)
    """One workload on one GPU each, those of a job side by side."""
    places: dict[str, tuple[int, int]] = field(init=False)
    """Where the rows of a job begin and end, by its id."""
    hosts: Rows = field(init=False)
    devices: Rows = field(init=False)
    own: Places = field(init=False)
    """The device of each row,"""
    whole: Places = field(init=False)
    """its whole GPU,"""
    host: list[int] = field(init=False)
    """and its host."""
    columns: dict[tuple[str, float], Column] = field(default_factory=dict)
    nodes: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """What is known of nodes, by the query's name."""
    xids: defaultdict[Device, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    parts: set[tuple[str, str]] = field(default_factory=set)
    """Node and UUID of GPUs of which somebody held some instance lately."""

    def __post_init__(self) -> None:
        keys = [key for job in self.jobs for key, _ in job.held]
        self.places, end = {}, 0
        for job in self.jobs:
            self.places[job.id] = end, end + len(job.held)
            end += len(job.held)
        own, whole = [key[:3] for key in keys], [(key[0], key[1], "") for key in keys]
        host = [(key[0], key[3]) for key in keys]
        self.rows = Rows(keys)
        self.hosts = Rows(list(dict.fromkeys(host)))
        self.devices = Rows(list(dict.fromkeys([*own, *whole, *self.free])))
        self.own, self.whole = self.devices.places(own), self.devices.places(whole)
        self.host = self.hosts.places(host).tolist()

    def fold(self, query: Query, answer: Vector) -> None:
        """Take one answer."""
        if query.name == "xid":
            for (node, uuid, mig, xid), when in zip(answer.keys, answer.values.tolist(), strict=True):
                if xid.isdecimal():
                    self.xids[node, uuid, mig][int(xid)] = when
            return
        if query.name == "held_lately":
            self.parts.update((key[0], key[1]) for key in answer.keys)
        rows = {KEY: self.rows, HOST: self.hosts, DEVICE: self.devices}.get(query.labels)
        if rows is not None:
            where = query.name, query.window
            column = self.columns.setdefault(where, rows.empty())
            rows.fold(column, answer)
            return
        known = self.nodes[query.name]
        for (node,), value in zip(answer.keys, answer.values.tolist(), strict=True):
            known[node] = max(value, known.get(node, value))

    def column(self, rows: Rows, name: str, window: float = 0.0) -> Column:
        """One of the columns; of one that was not asked for nothing is known."""
        found = self.columns.get((name, window))
        return rows.empty() if found is None or window in self.failed else found

    def totals(self) -> Cells:
        """The memory (bytes) of each row's device."""
        return cells(self.column(self.devices, "memory_total")[self.own])
