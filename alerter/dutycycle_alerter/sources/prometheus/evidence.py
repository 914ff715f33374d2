"""From columns to evidence: what each job's GPUs did over each window, and what the GPUs and nodes are like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.model import (
    DeviceWindow,
    Gpu,
    GpuEvidence,
    HostUsage,
    NodeEvidence,
    Usage,
    WindowEvidence,
)
from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.sources.prometheus.columns import Cells, Column, Rows, cells
from dutycycle_alerter.sources.prometheus.identity import Known, Sight
from dutycycle_alerter.sources.prometheus.queries import DEVICE, HOST, KEY, Query, Windows

_OF_KEY = (
    "observed",
    "busy",
    "gap_lt2",
    "gap_2to30",
    "gap_30to600",
    "gap_ge600",
    "energy",
    "memory_used",
    "processes",
    "sm",
    "tensor",
    "dram",
)
_OF_DEVICE = ("throttle_thermal", "throttle_power", "link_bytes")
_LONG_GAPS = ("gap_2to30", "gap_30to600", "gap_ge600")


@dataclass(slots=True)
class Tables:
    """The answers of a pass, in columns by (name, window), for the jobs' and the free GPUs' rows.

    `learned` are what a GPU without work draws (watts) and holds (bytes), by model. `failed` are windows of which some
    answer is missing: nothing is known of those.
    """

    at: float
    jobs: Sequence[Known]
    learned: Mapping[str, Mapping[str, float]]
    rows: Rows = field(init=False)
    hosts: Rows = field(init=False)
    devices: Rows = field(init=False)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    columns: dict[tuple[str, float], Column] = field(default_factory=dict)
    free: dict[tuple[str, ...], Gpu] = field(default_factory=dict)
    by_node: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    xids: defaultdict[tuple[str, ...], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    listed: defaultdict[tuple[str, float], dict[tuple[str, ...], float]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    failed: set[float] = field(default_factory=set)

    def __post_init__(self) -> None:
        keys: list[tuple[str, ...]] = []
        hosts: dict[tuple[str, ...], None] = {}
        for job in self.jobs:
            self.places[job.id] = (len(keys), len(keys) + len(job.held))
            for key, _ in job.held:
                keys.append(key)
                hosts[key[0], key[3]] = None
        self.rows, self.hosts = Rows(keys), Rows(list(hosts))
        # An instance's power limit and links are its GPU's.
        self.devices = Rows(list(dict.fromkeys(part for key in keys for part in (key[:3], (*key[:2], "")))))

    def fold(self, query: Query, answer: Vector) -> None:
        """Take one answer."""
        if query.name == "free":
            for node, index, uuid, mig, model in answer.keys:
                self.free[node, uuid, mig] = Gpu(node, index, uuid, mig, model)
        elif query.name == "xid":
            for (*device, xid), when in zip(answer.keys, answer.values.tolist(), strict=True):
                if xid.isdecimal():
                    self.xids[tuple(device)][int(xid)] = when
        elif query.labels == KEY:
            self.rows.fold(self._column(query, self.rows), answer)
        elif query.labels == HOST:
            self.hosts.fold(self._column(query, self.hosts), answer)
        elif query.labels == DEVICE and query.name in (*_OF_DEVICE, "memory_total", "power_limit"):
            self.devices.fold(self._column(query, self.devices), answer)
            if query.name != "link_bytes":
                self._list(query, answer, self.devices)
        else:
            self._list(query, answer, None)

    def cells(self, name: str, window: float) -> Cells:
        """A column of the jobs' rows; empty where it is not known."""
        found = self.columns.get((name, window))
        return [] if found is None or window in self.failed else cells(found)

    def totals(self) -> Cells:
        """The memory (bytes) of each of the jobs' rows."""
        found = self.columns.get(("memory_total", 0.0), self.devices.empty())
        return cells(found[self.own()])

    def own(self) -> NDArray[np.int64]:
        """The device of each of the jobs' rows."""
        return np.array([self.devices.place(key[:3]) for key in self.rows.keys], dtype=np.int64)

    def whole(self) -> NDArray[np.int64]:
        """The whole GPU of each of the jobs' rows."""
        return np.array([self.devices.place((*key[:2], "")) for key in self.rows.keys], dtype=np.int64)

    def _column(self, query: Query, rows: Rows) -> Column:
        where = query.name, query.window
        found = self.columns.get(where)
        if found is None:
            found = self.columns[where] = rows.empty()
        return found

    def _list(self, query: Query, answer: Vector, other_than: Rows | None) -> None:
        """Of what has no row: free GPUs, nodes."""
        known = self.listed[query.name, query.window]
        for key, value in zip(answer.keys, answer.values.tolist(), strict=True):
            if np.isfinite(value) and (other_than is None or other_than.place(key) is None):
                known[key] = max(value, known.get(key, value))


class JobWindows:
    """The evidence of one window, for every job; made when the first of them is asked for."""

    def __init__(self, tables: Tables, length: float, *, fetched: bool) -> None:
        self._tables = tables
        self._length = length
        self._known = fetched and length not in tables.failed
        self._usages = self._columns() if self._known else []
        self._cpu, self._io, self._stalled, self._of_limit = self._hosts() if self._known else ([], [], [], [])

    def of(self, job: Known) -> WindowEvidence:
        """What is known of one job."""
        begin, end = self._tables.places[job.id]
        if not self._known:
            return WindowEvidence(self._length, tuple(Usage(0.0, 0.0, 0.0, share=h.share) for _, h in job.held))
        usages = tuple(map(Usage, *(column[begin:end] for column in self._usages)))
        return WindowEvidence(self._length, usages, self._host(job))

    def _columns(self) -> list[Cells]:
        """One column for each field of `Usage`, in its order."""
        tables, length = self._tables, self._length
        held = [held for job in tables.jobs for _, held in job.held]
        shares = np.array([one.share for one in held])
        key = {name: self._get(name, tables.rows) for name in _OF_KEY}
        # A GPU whose busy time is not known is not known to have been idle.
        observed = np.where(np.isnan(key["busy"]), 0.0, np.nan_to_num(key["observed"]))
        for name in _LONG_GAPS:
            key[name] = np.where(np.isnan(key["gap_lt2"]), np.nan, np.nan_to_num(key[name]))
        own, whole = tables.own(), tables.whole()
        device = {name: self._get(name, tables.devices)[own] for name in _OF_DEVICE}
        idle_power = tables.learned.get("idle_power", {})
        columns = {
            **{name: cells(column) for name, column in key.items()},
            "allocated": (shares * length).tolist(),
            "observed": observed.tolist(),
            "busy": np.nan_to_num(key["busy"]).tolist(),
            "memory_total": tables.totals(),
            "share": shares.tolist(),
            "throttle_thermal": cells(device["throttle_thermal"] * shares),
            "throttle_power": cells(device["throttle_power"] * shares),
            "link_bytes": cells(device["link_bytes"]),
            "power_limit": cells(self._get("power_limit", tables.devices, 0.0)[whole]),
            "idle_power": [None if one.gpu.mig else idle_power.get(one.gpu.model) for one in held],
        }
        return [columns[name] for name in Usage.__dataclass_fields__]

    def _get(self, name: str, rows: Rows, window: float | None = None) -> Column:
        found = self._tables.columns.get((name, self._length if window is None else window))
        return rows.empty() if found is None else found

    def _hosts(self) -> tuple[Cells, Cells, Cells, Cells]:
        hosts = self._tables.hosts
        cpu = self._get("cpu_seconds", hosts) / self._length
        limit = self._get("cpu_limit", hosts, 0.0)
        of_limit = np.divide(cpu, limit, out=hosts.empty(), where=limit > 0)
        io, stalled = self._get("io_pressure", hosts) / self._length, self._get("cpu_pressure", hosts) / self._length
        return cells(cpu), cells(io), cells(stalled), cells(of_limit)

    def _host(self, job: Known) -> HostUsage:
        places = {self._tables.hosts.place((key[0], key[3])) for key, _ in job.held}

        def known(column: Cells) -> list[float]:
            return [value for place in places if place is not None and (value := column[place]) is not None]

        cores = known(self._cpu)
        return HostUsage(
            cpu_cores=sum(cores) if cores else None,
            cpu_of_limit=max(known(self._of_limit), default=None),
            io_pressure=max(known(self._io), default=None),
            cpu_pressure=max(known(self._stalled), default=None),
        )


class DeviceEvidence:
    """The evidence of GPUs and nodes."""

    def __init__(self, tables: Tables, sights: Mapping[str, Sight], lengths: Windows) -> None:
        self._tables = tables
        self._sights = sights
        self._lengths = lengths
        self._throttle = {
            name: cells(column)
            for (name, window), column in tables.columns.items()
            if name in _OF_DEVICE and window == lengths.throttled
        }
        self._parts = {device[:2] for device in tables.listed["held_lately", lengths.leaked]}
        self._total = cells(tables.columns.get(("memory_total", 0.0), tables.devices.empty()))

    def gpus(self) -> Iterator[GpuEvidence]:
        """Every GPU that somebody holds, and every free one."""
        tables = self._tables
        holders: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        gpus: dict[tuple[str, ...], Gpu] = dict(tables.free)
        for job in tables.jobs:
            for key, held in job.held:
                if held.present:
                    gpus[key[:3]] = held.gpu
                    # Who holds an instance holds a part of its GPU, too.
                    for part in {key[2], ""}:
                        holders[*key[:2], part].append(job.id)
        for device, gpu in gpus.items():
            yield self._gpu(device, gpu, tuple(holders.get(device, ())))

    def nodes(self) -> Iterator[NodeEvidence]:
        """Every node of which anything is known."""
        for node, sight in self._sights.items():
            known = sight.steady
            yield NodeEvidence(
                node, self._tables.at, sight.expected if known else None, sight.visible if known else None
            )

    def _gpu(self, device: tuple[str, ...], gpu: Gpu, jobs: tuple[str, ...]) -> GpuEvidence:
        tables = self._tables
        at, sight = tables.at, self._sights.get(gpu.node)
        visible = sight is not None and sight.fresh
        before = ("seen_before", self._lengths.throttled)
        watched = at - self._lengths.throttled if (gpu.node,) in tables.listed[before] else at
        baseline = None if gpu.mig else tables.learned.get("memory_baseline", {}).get(gpu.model)
        remap = self._reading("remap_failed", device) if visible else None
        return GpuEvidence(
            gpu=gpu,
            at=at,
            window=partial(self._window, device, bool(jobs), visible),
            visible=visible,
            watched_from=watched,
            xids=tables.xids.get(device, {}),
            recovery_action=self._reading("recovery_action", device) if visible else None,
            remap_failed=None if remap is None else remap > 0,
            memory_used=tables.listed["free_memory", 0.0].get(device),
            memory_total=self._of_device("memory_total", 0.0, self._total, device),
            memory_baseline=baseline,
            jobs=jobs,
        )

    def _held_lately(self, device: tuple[str, ...], length: float) -> bool:
        lately = self._tables.listed["held_lately", length]
        return device in lately or (not device[2] and device[:2] in self._parts)

    def _reading(self, name: str, device: tuple[str, ...]) -> float | None:
        """A reading of which only those over 0 are listed; None where it is not known of every GPU of the node."""
        listed = self._tables.listed
        found = listed[name, 0.0].get(device)
        if found is not None:
            return found
        sight = self._sights.get(device[0])
        known = listed[f"{name}_known", 0.0].get((device[0],))
        if device[2] or known is None or sight is None or sight.visible is None:
            return None
        return 0.0 if known >= sight.visible else None

    def _of_device(self, name: str, window: float, column: Cells, device: tuple[str, ...]) -> float | None:
        place = self._tables.devices.place(device)
        return self._tables.listed[name, window].get(device) if place is None or not column else column[place]

    def _window(self, device: tuple[str, ...], held: bool, visible: bool, length: float) -> DeviceWindow:
        tables, lengths = self._tables, self._lengths
        if not visible or length in tables.failed:
            return DeviceWindow(length)
        leaked = length == lengths.leaked
        listed = tables.listed
        return DeviceWindow(
            length=length,
            memory_used=listed["free_memory_least", length].get(device) if leaked else None,
            processes=listed["free_processes_most", length].get(device) if leaked else None,
            allocated=(held or self._held_lately(device, length)) if leaked else None,
            throttle_thermal=self._throttled("throttle_thermal", device, length),
            throttle_power=self._throttled("throttle_power", device, length),
        )

    def _throttled(self, name: str, device: tuple[str, ...], length: float) -> float | None:
        if length != self._lengths.throttled:
            return None
        seconds = self._of_device(name, length, self._throttle.get(name, []), device)
        return None if seconds is None else min(1.0, seconds / length)
