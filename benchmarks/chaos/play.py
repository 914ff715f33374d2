"""Plays a plan on a site, waits until everything has settled, and hands back the evidence."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .faults import Fault
from .reading import read
from .record import Happened, Record
from .schedule import Plan
from .site import Site
from .watching import Watcher

Tell = Callable[[str], None]
_TOOK = {True: "", False: ", and did not take", None: ", and nobody could be asked whether it took"}


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
                one.fault.begin(site)
                tell(f"{time.time() - began:7.1f} s  {one.fault.name} begins: {one.fault.what}")
            else:
                since = begun.pop(index)
                took = _took(one.fault, site)
                one.fault.end(site)
                happened.append(one.fault.happened(since, time.time(), took))
                tell(f"{time.time() - began:7.1f} s  {one.fault.name} is over{_TOOK[took]}")
    finally:
        for index in begun:
            plan.faults[index].fault.end(site)
    return tuple(happened)


def _took(fault: Fault, site: Site) -> bool | None:
    """Whoever is asked may be away on account of another fault."""
    try:
        return fault.in_force(site)
    except (OSError, ValueError, AssertionError, subprocess.SubprocessError):
        return None


def _wait(site: Site, until: float) -> None:
    while (left := until - time.time()) > 0:
        time.sleep(min(0.2, left))
        site.workload.check()
