"""How long after the beginning of a fault the site has to tell of it."""

from __future__ import annotations

from collections.abc import Iterable

from ..alerters import LEASE, PASS
from ..machines import INTERVAL

NOTICED = 6.0
"""Wall seconds after which a question to a part that is away has failed: its time-out, twice; and a pass that began
before it was away.
"""
PATIENCE = 5.0
"""Wall seconds within which a page is to be there: half of what Prometheus waits by default."""
_KUBELET = 10.0
"""Wall seconds until the kubelet is asked again and that question's time-out."""
_HANGS = 2
"""Children of an exporter that have to hang at a GPU until it is left out."""
_RESTART = 120.0
"""Seconds of the full-length run for which an exporter waits whether it comes right by itself."""
SHOWN = 6.0
"""Wall seconds after which an exporter shows a GPU as it was cut: it reads them anew each half a second, and a reader
that stumbled over what was gone is replaced.
"""
LOOK = 4.0
"""Wall seconds between two looks at a page, at the most where it answers slowly."""
READ = 1.0
"""Wall seconds that an alerter's page takes at most where nothing is wrong."""
LOOKS = 3
_DUE = 15.0
"""Wall seconds within which, by the workload, a message is likely to be due to each receiver."""


def told_after(said: str, time_scale: float) -> float:
    """Wall seconds after which `said` (see `Effects.says`) is on the page."""
    kind = said.partition(":")[0]
    if kind in ("source", "watch"):
        return NOTICED + (2 * PASS + 120.0) / time_scale
    if kind == "restart":
        return NOTICED + PATIENCE + _RESTART / time_scale
    if kind == "left-out":
        return _HANGS * NOTICED + PATIENCE
    if kind == "kubelet":
        return NOTICED + _KUBELET
    return NOTICED + PATIENCE


def lost_told_after(says: Iterable[str], time_scale: float) -> float:
    """Wall seconds after which an incident tells of a GPU that is lost, which may be so only once it is left out."""
    until = max((told_after(said, time_scale) for said in says if said.startswith("left-out:")), default=0.0)
    return until + NOTICED + (PASS + INTERVAL) / time_scale


def taken_over_after(time_scale: float) -> float:
    """Wall seconds after which another alerter evaluates in the place of one that is killed or paused: its lease, and
    two passes.
    """
    return max(LEASE, PASS / time_scale) + 2 * PASS / time_scale + NOTICED


def outlasts(says: Iterable[str], broken: Iterable[str], time_scale: float) -> float:
    """Wall seconds that a fault has to last so that it can be looked at often enough whether it is told; 0: any."""
    says = tuple(says)
    bounds = [told_after(said, time_scale) + (_DUE if said.startswith("receiver:") else 0.0) for said in says]
    bounds += [lost_told_after(says, time_scale) for _ in broken]
    return max(bounds) + LOOKS * LOOK + READ if bounds else 0.0
