"""What jobs did over each window, made when the first rule asks for it."""

from __future__ import annotations

from math import inf

import numpy as np

from dutycycle_alerter.model import HostUsage, Usage, WindowEvidence
from dutycycle_alerter.sources.prometheus.columns import Cells, Column, cells
from dutycycle_alerter.sources.prometheus.identity import Known
from dutycycle_alerter.sources.prometheus.tables import Tables

_OF_ROW = (
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
    "low",
)
_OF_DEVICE = ("throttle_thermal", "link_bytes")
_LONGER_GAPS = ("gap_2to30", "gap_30to600", "gap_ge600")


class Windows:
    """The windows of a pass; those that were not asked for, or not answered, are not known.

    The engine may lack what was before `whole_from`, if only for having lost it.
    """

    def __init__(self, tables: Tables, asked: tuple[float, ...], whole_from: float = -inf) -> None:
        self._tables = tables
        self._whole_from = whole_from
        self._known = set(asked) - tables.failed
        self._made: dict[float, _Window] = {}

    def of(self, job: Known, length: float) -> WindowEvidence:
        """One job over the last `length` wall seconds."""
        if length not in self._known:
            return WindowEvidence(length, tuple(Usage(0.0, 0.0, 0.0, share=held.share) for _, held in job.held))
        made = self._made.get(length)
        if made is None:
            made = self._made[length] = _Window(self._tables, length, self._tables.at - self._whole_from)
        return made.of(job.id)


class _Window:
    def __init__(self, tables: Tables, length: float, whole: float) -> None:
        self._tables = tables
        self._length = length
        self._usages = list(map(Usage, *_columns(tables, length, whole)))
        self._cores, self._of_limit, self._io, self._cpu = _hosts(tables, length)

    def of(self, job: str) -> WindowEvidence:
        begin, end = self._tables.places[job]
        return WindowEvidence(self._length, tuple(self._usages[begin:end]), self._host(begin, end))

    def _host(self, begin: int, end: int) -> HostUsage:
        places = set(self._tables.host[begin:end])
        if len(places) == 1:
            (place,) = places
            return HostUsage(self._cores[place], self._of_limit[place], self._io[place], self._cpu[place])
        cores = _known(self._cores, places)
        return HostUsage(
            # Those of some of its nodes would pass for the cores of the whole job.
            cpu_cores=sum(cores) if len(cores) == len(places) else None,
            cpu_of_limit=max(_known(self._of_limit, places), default=None),
            io_pressure=max(_known(self._io, places), default=None),
            cpu_pressure=max(_known(self._cpu, places), default=None),
        )


def _known(column: Cells, places: set[int]) -> list[float]:
    return [value for place in places if (value := column[place]) is not None]


def _columns(tables: Tables, length: float, whole: float) -> list[Cells]:
    """One column for each field of `Usage`, in its order; the last `whole` seconds are all there."""
    held = [held for job in tables.jobs for _, held in job.held]
    shares = np.array([one.share for one in held])
    row = {name: tables.column(tables.rows, name, length) for name in _OF_ROW}
    # A GPU whose busy time is not known is not known to have been idle.
    observed = np.where(np.isnan(row["busy"]), 0.0, np.nan_to_num(row["observed"]))
    for name in _LONGER_GAPS:
        # Only those over 0 are listed.
        row[name] = np.where(np.isnan(row["gap_lt2"]), np.nan, np.nan_to_num(row[name]))
    device = {name: tables.column(tables.devices, name, length)[tables.own] for name in _OF_DEVICE}
    power_limit = tables.column(tables.devices, "power_limit")[tables.whole]
    idle_power = tables.learned.get("idle_power", {})
    columns: dict[str, Cells] = {name: cells(column) for name, column in row.items()}
    columns |= {
        "allocated": _plain(shares * _seen(row["observed"], length, whole)),
        "observed": _plain(observed),
        "busy": _plain(np.nan_to_num(row["busy"])),
        "memory_total": tables.totals(),
        "share": _plain(shares),
        "throttle_thermal": cells(device["throttle_thermal"] * shares),
        "link_bytes": cells(device["link_bytes"]),
        "power_limit": cells(power_limit),
        "memory_baseline": [None] * len(held),
        "idle_power": [None if one.gpu.mig else idle_power.get(one.gpu.model) for one in held],
        # The sum of a window does not show where in it a gap lies.
        "measured_from": [None] * len(held),
    }
    return [columns[name] for name in Usage.__dataclass_fields__]


def _seen(observed: Column, length: float, whole: float) -> Column:
    """For how long GPUs are known to have been held. Nothing tells of one that was not measured that it was there
    before the engine had anything: an instance that cannot be measured is one that was not while it was watched.
    """
    found = np.where(observed > 0, length, min(length, whole))
    return np.where(np.isnan(observed), 0.0, found)


def _plain(column: Column) -> Cells:
    found: Cells = column.tolist()
    return found


def _hosts(tables: Tables, length: float) -> tuple[Cells, Cells, Cells, Cells]:
    """Busy cores, the same of their limit, and the shares of time under pressure by I/O and by CPU."""
    hosts = tables.hosts
    cores = tables.column(hosts, "cpu_seconds", length) / length
    limit = tables.column(hosts, "cpu_limit")
    of_limit = np.divide(cores, limit, out=hosts.empty(), where=limit > 0)
    io, cpu = (tables.column(hosts, f"{resource}_pressure", length) / length for resource in ("io", "cpu"))
    return cells(cores), cells(of_limit), cells(io), cells(cpu)
