"""From exact figures and the ledger of waiting to conditions: which rule is there, why, and must it be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.track import ACTIVITIES, Floats, code
from benchmarks.box.model import Condition, Job

from . import silence
from .figures import Figures, figures
from .table import CLEAR, MINUTE, NEAR, RULES, Rule, runs

GRACE = {"batch": 10 * MINUTE, "serving": 10 * MINUTE, "interactive": 60 * MINUTE}
LOADING_GRACE = 20 * MINUTE

CERTAIN = 5 * MINUTE
"""For so long must a rule hold clearly so that no scrape or pass that came late can miss it."""

SHARED = 0.25
"""A second mechanism is named where it has this share of the loss."""


@dataclass(frozen=True)
class Life:
    """A job's stretches on its own time, and the figures of them."""

    job: Job
    stretches: Sequence[Stretch]
    bounds: Floats
    figures: Figures

    @property
    def length(self) -> float:
        return float(self.bounds[-1])

    def overlap(self, since: float, until: float) -> list[tuple[Stretch, float]]:
        """Stretches within a time, each with the share of it that lies there."""
        found = []
        for stretch, start, end in zip(self.stretches, self.bounds, self.bounds[1:], strict=False):
            common = min(end, until) - max(start, since)
            if common > 0:
                found.append((stretch, common / stretch.seconds))
        return found

    def changes(self) -> list[float]:
        """When the mechanism changed, for the better or the worse."""
        return [float(at) for stretch, at in zip(self.stretches, self.bounds, strict=False) if stretch.changes]

    def first_process(self) -> float | None:
        for stretch, start in zip(self.stretches, self.bounds, strict=False):
            if any(held.kernels is not None for held in stretch.held):
                return float(start)
        return None

    def ready(self, ends: Floats, window: float, *, surely: bool) -> np.ndarray:
        """Which windows lie after grace; `surely`, even if memory may have grown for longest."""
        first = self.first_process()
        grace = GRACE[self.job.partition]
        grows = any(held.growth > 0 for stretch in self.stretches for held in stretch.held)
        if surely and grows:
            grace = max(grace, LOADING_GRACE)
        began = np.zeros_like(ends) if first is None else np.where(ends >= first, first, 0.0)
        return ends - window >= began + grace


def conditions(job: Job, stretches: Sequence[Stretch]) -> tuple[Condition, ...]:
    """In the order of their beginning."""
    bounds = np.concatenate(([0.0], np.cumsum([stretch.seconds for stretch in stretches])))
    life = Life(job, stretches, bounds, figures(stretches, job.cpu_limit))
    found = [one for rule in RULES.values() if _judges(rule, life) for one in _of_rule(rule, life)]
    found = [_residual(one, found) for one in found]
    found += silence.untold(life, found)
    return tuple(sorted(found, key=lambda one: (one.since, one.rule)))


def _judges(rule: Rule, life: Life) -> bool:
    several = len(life.job.gpus) > 1 or not rule.several
    return several and life.job.partition in rule.kinds and life.length > rule.window


def _of_rule(rule: Rule, life: Life) -> list[Condition]:
    ends = life.figures.ends(rule.window)
    near = rule.holds(life.figures, NEAR, rule.window)
    clear = rule.holds(life.figures, CLEAR, rule.window)
    if rule.name == "uneven":
        # Partially idle says it better.
        clear &= ~RULES["partially_idle"].holds(life.figures, NEAR, rule.window)
    near &= life.ready(ends, rule.window, surely=False)
    clear &= life.ready(ends, rule.window, surely=True)
    unseen = silence.unseen(rule.name, life.job)
    found = []
    for first, last in runs(near, ends):
        since, until = _from_changes(life, rule.window, first, last)
        causes = _causes(rule.name, life, since, until)
        if not causes:
            continue
        within = (ends >= first) & (ends <= last)
        must = not unseen and any(b - a >= CERTAIN for a, b in runs(clear & within, ends))
        step = next((one.step for one, _ in life.overlap(since, until) if one.step), None)
        found.append(Condition(rule.name, causes, since, until, must, unseen, step))
    return found


def _from_changes(life: Life, window: float, first: float, last: float) -> tuple[float, float]:
    """When it really began and ended: where the mechanism changed within the first window and before the end."""
    changes = life.changes()
    began = [at for at in changes if first - window < at <= first]
    since = began[-1] if began else first - window
    if last >= life.figures.at[-1]:
        return since, life.length
    ended = [at for at in changes if max(since, last - window) < at <= last]
    return since, ended[-1] if ended else last


def _residual(one: Condition, found: Sequence[Condition]) -> Condition:
    """`underused` never joins beside another rule, and hardly after one; `stalled` need not be told of a job that
    another rule of higher rank explains only for a part.
    """
    others = [other for other in found if other.rule != one.rule and other.since < one.until]
    if one.rule != "underused" or not others:
        return one
    return Condition(one.rule, one.causes, one.since, one.until, must=False, silent=one.silent, step=one.step)


def _causes(rule: str, life: Life, since: float, until: float) -> frozenset[str]:
    """What took the GPUs' time, by the ledger: the greatest share, and whatever comes near it. None where that was
    nobody's fault, as starting up is.
    """
    lost: dict[frozenset[str], float] = {}
    for stretch, share in life.overlap(since, until):
        waited = stretch.spent - stretch.resident
        if rule == "hung":
            waited = stretch.resident
        elif rule == "low_sm_activity":
            waited = _hardly_used(stretch)
        for activity, seconds in zip(ACTIVITIES, waited, strict=True):
            causes = stretch.causes(activity)
            if rule == "partially_idle" and activity == "nothing" and causes:
                causes = frozenset(("over-request",))
            if seconds > 0:
                lost[causes] = lost.get(causes, 0.0) + seconds * share
    total = sum(lost.values())
    return frozenset().union(*(causes for causes, seconds in lost.items() if seconds >= SHARED * total))


def _hardly_used(stretch: Stretch) -> Floats:
    """Resident seconds by activity, weighted by how little of the multiprocessors they used: kernels of a collective
    that spins by all of it.
    """
    weights = np.zeros(len(ACTIVITIES))
    for activity in ("computing", "launch", "nothing", "evaluation", "collective", "hang"):
        weights[code(activity)] = 1.0
    return stretch.resident * weights
