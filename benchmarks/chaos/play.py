"""Plays a plan on a site, waits until everything has settled, and hands back the evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .reading import read
from .record import Happened, Record
from .schedule import Plan, Planned
from .site import Site
from .watching import Watcher

Tell = Callable[[str], None]


def play(plan: Plan, directory: Path, time_scale: float, tell: Tell) -> Record:
    """`tell` hears what happens, a line each."""
    tell("the site is being started: Slurm, Kubernetes' doubles, Prometheus, PostgreSQL, exporters, two alerters")
    with Site(directory, time_scale) as site, ExitStack() as stack:
        site.start()
        began = time.time()
        watcher = stack.enter_context(Watcher(site))
        happened = _happen(plan, site, began, tell)
        tell(f"all faults are over; {plan.calm:.0f} s for everything to settle")
        _wait(site, began + plan.length)
        ended = time.time()
        if watcher.failures:
            raise RuntimeError(f"the watcher failed: {watcher.failures[:3]}")
        jobs = site.workload.truths()
        return read(site, watcher, happened, jobs, began, ended)


def _happen(plan: Plan, site: Site, began: float, tell: Tell) -> tuple[Happened, ...]:
    moments = [(one.at, 1, index, one) for index, one in enumerate(plan.faults)]
    moments += [(one.until, 0, index, one) for index, one in enumerate(plan.faults)]
    begun: dict[int, float] = {}
    happened: list[Happened] = []
    try:
        for at, begins, index, one in sorted(moments, key=lambda moment: moment[:3]):
            _wait(site, began + at)
            if begins:
                begun[index] = time.time()
                _begin(one, site)
                tell(f"{time.time() - began:7.1f} s  {one.fault.name} begins: {one.fault.what}")
            else:
                since = begun.pop(index)
                _end(one, site)
                happened.append(one.fault.happened(since, time.time()))
                tell(f"{time.time() - began:7.1f} s  {one.fault.name} is over")
    finally:
        for index in begun:
            plan.faults[index].fault.end(site)
    return tuple(happened)


def _begin(one: Planned, site: Site) -> None:
    one.fault.begin(site)


def _end(one: Planned, site: Site) -> None:
    one.fault.end(site)


def _wait(site: Site, until: float) -> None:
    while (left := until - time.time()) > 0:
        time.sleep(min(0.2, left))
        site.workload.check()
