"""From exact figures and the ledger of waiting to conditions: which rule is there, why, and must it be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.model import Condition, Job
from benchmarks.box.rules import MINUTE

from . import blame, silence
from .figures import figures
from .life import Life
from .table import CLEAR, NEAR, RULES, Rule, runs

CERTAIN = 5 * MINUTE
"""For so long must a rule hold clearly so that no scrape or pass that came late can miss it."""

SETTLES = 15 * MINUTE
"""So long after another rule's end its incident may stay open. What is told after that needs a window of its own."""


@dataclass(frozen=True)
class _Held:
    """Where a rule nearly holds and may be judged, from the end of the first window to that of the last, and clearly
    within that; `bare` is where it holds clearly by the table alone. `begins` is the end of the first window in which
    it nearly held, judged or not.
    """

    rule: Rule
    begins: float
    first: float
    last: float
    clear: tuple[tuple[float, float], ...]
    bare: tuple[tuple[float, float], ...]


def conditions(job: Job, stretches: Sequence[Stretch]) -> tuple[Condition, ...]:
    """In the order of their beginning."""
    bounds = np.concatenate(([0.0], np.cumsum([stretch.seconds for stretch in stretches])))
    life = Life(job, stretches, bounds, figures(stretches, job.cpu_limit, job.sample_period))
    held = [one for rule in RULES.values() if _judges(rule, life) for one in _held(rule, life)]
    found = [condition for one in held if (condition := _condition(one, held, life))]
    found += silence.untold(life, found)
    return tuple(sorted(found, key=lambda one: (one.since, one.rule)))


def _judges(rule: Rule, life: Life) -> bool:
    several = len(life.job.gpus) > 1 or not rule.several
    return several and life.job.partition in rule.kinds and life.length > rule.window


def _held(rule: Rule, life: Life) -> list[_Held]:
    ends = life.figures.ends(rule.window)
    near = rule.holds(life.figures, NEAR, rule.window)
    whole = _merged(runs(near, ends), rule.window)
    near &= life.ready(ends, rule.window, surely=False)
    clear = rule.holds(life.figures, CLEAR, rule.window) & life.ready(ends, rule.window, surely=True)
    if rule.name == "uneven":
        # Not partially idle, says the table.
        clear &= ~RULES["partially_idle"].holds(life.figures, NEAR, rule.window)
    barely = runs(clear, ends)
    if rule.name == "stalled":
        clear &= life.at_work(ends, rule.window)
    clearly = runs(clear, ends)
    return [
        _Held(rule, _beginning(whole, first), first, last, *(_within(first, last, some) for some in (clearly, barely)))
        for first, last in _merged(runs(near, ends), rule.window)
    ]


def _within(first: float, last: float, found: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple(run for run in found if first <= run[0] <= last)


def _merged(found: Sequence[tuple[float, float]], window: float) -> list[tuple[float, float]]:
    """What comes and goes within a window is one thing near a bound."""
    merged: list[tuple[float, float]] = []
    for first, last in found:
        if merged and first - merged[-1][1] <= window:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def _beginning(whole: Sequence[tuple[float, float]], first: float) -> float:
    return next(begin for begin, end in whole if begin <= first <= end)


def _condition(one: _Held, held: Sequence[_Held], life: Life) -> Condition | None:
    """None where nobody is to blame for it."""
    name = one.rule.name
    found, main = blame.causes(name, life.overlap(one.first - one.rule.window, one.last))
    if not found:
        return None
    since, until = _extent(life, one)
    unseen = silence.unseen(name, life.job)
    meant = any(stretch.by_design for stretch, _ in life.overlap(since, until))
    sees = not unseen and not meant and blame.natural(name, found)
    must = sees and any(_certain(one, run, held) for run in one.clear)
    step = next((stretch.step for stretch, _ in life.overlap(since, until) if stretch.step), None)
    by_table = not unseen and any(_by_table(one, run, held) for run in one.bare)
    return Condition(name, found, since, until, must, unseen, step, main=main, by_table=by_table)


def _certain(one: _Held, run: tuple[float, float], held: Sequence[_Held]) -> bool:
    """Whether nobody can miss it: it holds clearly for long enough, and also beside what came before it."""
    first, last = run
    others = [other for other in held if other.rule is not one.rule and other.first <= last]
    if one.rule.name == "underused" and any(other.last >= first - SETTLES for other in others):
        # It has something to say only where no other has.
        return False
    over = [other.last for other in others if other.last < last and first > other.last - CERTAIN]
    return last - first >= CERTAIN and all(last >= end + SETTLES + one.rule.window + CERTAIN for end in over)


def _by_table(one: _Held, run: tuple[float, float], held: Sequence[_Held]) -> bool:
    """Whether it must be told to the letter: it holds for long enough, and what is the residual rule's nowhere beside
    another.
    """
    first, last = run
    beside = any(other.first <= last and other.last >= first for other in held if other.rule is not one.rule)
    return last - first >= CERTAIN and not (one.rule.name == "underused" and beside)


def _extent(life: Life, one: _Held) -> tuple[float, float]:
    """When it really began and ended: where the mechanism changed within the first window, and within the last."""
    changes = life.changes()
    began = [at for at in changes if one.begins - one.rule.window < at <= one.begins]
    since = began[-1] if began else one.begins - one.rule.window
    if one.last >= life.figures.at[-1]:
        return since, life.length
    ended = [at for at in changes if max(since, one.last - one.rule.window) < at <= one.last]
    return since, ended[-1] if ended else one.last
