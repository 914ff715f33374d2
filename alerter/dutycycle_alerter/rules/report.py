"""`memory_underused`, `memory_pressure`, `overallocated`: judged once, over the whole life of a job that has ended.

They are for reports and mail nobody. What is not known of a job is left out, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import JobEvidence, JobKind, MemoryPeak, highest
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.units import memory_ratio
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.settings import Judging, Rules

COMPLETED = "COMPLETED"
"""Slurm's word for a job that ended by itself and well: only then its run time says what time limit it needed."""


@dataclass(frozen=True, slots=True)
class Final:
    """What a scheduler's accounting says of a job that has ended; None (empty for `state`) is not known.

    `cpu_seconds` are of all its processes and nodes, `peak_memory` bytes of host memory, `ended_at` Unix seconds.
    """

    cpu_seconds: float | None = None
    peak_memory: float | None = None
    ended_at: float | None = None
    state: str = ""


def report(evidence: JobEvidence, settings: Judging, final: Final | None = None) -> tuple[Verdict, ...]:
    """One verdict per rule of `Rules.REPORTS`, in that order; empty for a job that has not ended.

    Looks at the job's life as far as it was watched, or at the last of it where it lasted longer than the longest
    window; that little memory was in use is said only where it is known of all of that life. Verdicts carry
    `watched_seconds` (how much of the life that is) among their figures.
    """
    if evidence.ended is None:
        return ()
    life = _Life(evidence, settings, final or Final())
    judges = (_memory_underused, _memory_pressure, _overallocated)
    return tuple(life.exempt(rule) or judge(life) for rule, judge in zip(Rules.REPORTS, judges, strict=True))


def windows_of_a_life(evidence: JobEvidence, settings: Judging) -> frozenset[float]:
    """The lengths (wall seconds) of the windows that `report` and its diagnosis ask for, of a job that has ended."""
    return frozenset(_Life(evidence, settings, Final()).asked)


class _Life:
    """The whole of a job's life as one window."""

    def __init__(self, evidence: JobEvidence, settings: Judging, final: Final) -> None:
        assert evidence.ended is not None  # noqa: S101 - asked by `report`
        self.case = Case(evidence, settings)
        self.job = evidence.job
        self.final = final
        self.run = (evidence.ended if final.ended_at is None else final.ended_at) - self.job.start
        seen = evidence.ended - max(self.job.start, evidence.watched_from)
        # Counters do not grow before a job's start or after its end: a longer window than its life says the same.
        idle = settings.rules.idle
        lengths = {idle.window, idle.critical_window, idle.serving_window}
        self.asked = sorted(length for length in lengths if evidence.longest is None or length <= evidence.longest)
        passed = evidence.at - evidence.ended
        if evidence.longest is None and seen + passed > self.asked[-1]:
            self.asked.append(seen + passed)
        memory = [self._memory_over(length) for length in self.asked[-2:]]
        # Over a whole day a source may read utilization alone: what is reported is of the window below, then.
        without_longest = len(memory) > 1 and memory[1] is None and memory[0] is not None
        self.lengths = self.asked[:-1] if without_longest else self.asked
        last = self.lengths[-1] if self.lengths else 0.0
        self.length = next((length for length in self.lengths if length >= seen + passed), last)
        self.watched = max(0.0, min(seen, self.length - passed))
        # Where nobody tells when it began, it may have begun before anybody watched; a recording is all that there is.
        told = self.job.start_told or evidence.longest is None or evidence.watched_from > evidence.at - self.length
        from_its_start = told and evidence.watched_from <= self.job.start + settings.grace.batch
        self._whole = from_its_start and self.length >= seen + passed

    @property
    def within(self) -> float:
        """The longest window within what was watched; 0 where there is none."""
        return max((length for length in self.lengths if length <= self.watched), default=0.0)

    def exempt(self, rule: str) -> Verdict | None:
        """Why the rule has nothing to say of this job; None where it has."""
        if not getattr(self.case.settings.rules, rule).enabled:
            return Verdict(rule, Outcome.NOT_APPLICABLE, reason="disabled in the configuration")
        if self.job.kind is not JobKind.BATCH:
            return Verdict(rule, Outcome.NOT_APPLICABLE)
        if self.run < self.case.settings.rules.overallocated.shortest:
            return Verdict(rule, Outcome.NOT_APPLICABLE, reason="its run was too short to be reported")
        if not self.length:
            # Its advice needs what its GPUs did, over some window.
            return self.not_evaluable(rule, "no window of its life is known")
        return None

    def known(self) -> bool:
        """Whether every GPU was measured for enough of what was watched, and that was not a mere moment."""
        if not self.job.gpus or self.watched < self.case.settings.rules.overallocated.shortest:
            return False
        return all(self.case.covered(usage, self.watched) for usage in self.case.window(self.length).gpus)

    def utilization(self) -> float:
        """Mean utilization; only where `known`."""
        return self.case.mean_utilization(self.length)

    def cpu_cores(self) -> float | None:
        """Mean busy CPU cores: by accounting, or over a window within its life that is at least half of it.

        A rate over a longer window than the life would be too low.
        """
        if self.final.cpu_seconds is not None:
            return self.final.cpu_seconds / self.run
        within = self.within
        return self.case.window(within).host.cpu_cores if within > 0 and within >= self.watched / 2 else None

    def memory(self) -> float | None:
        """The most GPU memory in use on any GPU over its window, as a share of it."""
        return self._memory_over(self.length)

    def memory_ever(self) -> MemoryPeak | None:
        """The most GPU memory that it ever had in use; None where that of a part of its life is not known."""
        share = self.memory()
        if share is None:
            return None
        peak = MemoryPeak(max(usage.memory_used or 0.0 for usage in self.case.window(self.length).gpus), share)
        if self._whole:
            return peak
        before = self.case.evidence.memory_peak
        return None if before is None else highest((before, peak))

    def _memory_over(self, length: float) -> float | None:
        return memory_ratio(self.case.window(length).gpus)

    def verdict(self, rule: str, figures: dict[str, float], *, firing: bool) -> Verdict:
        """What the rule says, on figures that are known."""
        outcome = Outcome.FIRING if firing else Outcome.CLEAR
        figures = {"watched_seconds": self.watched, **figures}
        return Verdict(rule, outcome, self.length, Severity.INFO, self.job.gpus, figures)

    def not_evaluable(self, rule: str, reason: str) -> Verdict:
        """What the rule needs is not known."""
        return Verdict(rule, Outcome.NOT_EVALUABLE, self.length, Severity.INFO, reason=reason)


def _memory_underused(life: _Life) -> Verdict:
    """Hardly any of the GPU memory was ever in use, and the GPU not busy either: a smaller one had done."""
    rule, settings = "memory_underused", life.case.settings.rules.memory_underused
    ever = life.memory_ever() if life.known() else None
    if ever is None:
        return life.not_evaluable(rule, "GPU memory or utilization was not measured over its life")
    figures = {"memory_peak": ever.share, "utilization": life.utilization()}
    firing = figures["memory_peak"] < settings.peak_below and figures["utilization"] < settings.utilization_below
    return life.verdict(rule, figures, firing=firing)


def _memory_pressure(life: _Life) -> Verdict:
    """GPU memory was full, and the GPU not busy: memory kept the work per step small."""
    rule, settings = "memory_pressure", life.case.settings.rules.memory_pressure
    peak = life.memory() if life.known() else None
    if peak is None:
        return life.not_evaluable(rule, "GPU memory or utilization was not measured over its life")
    figures = {"memory_peak": peak, "utilization": life.utilization()}
    firing = figures["memory_peak"] >= settings.peak_at_least and figures["utilization"] < settings.utilization_below
    full = tuple(
        gpu
        for gpu, usage in zip(life.job.gpus, life.case.window(life.length).gpus, strict=True)
        if (memory_ratio((usage,)) or 0.0) >= settings.peak_at_least
    )
    return replace(life.verdict(rule, figures, firing=firing), gpus=full)


def _overallocated(life: _Life) -> Verdict:
    """CPUs, host memory, time limit or GPU model far above the use; the figures are those of what is."""
    rule = "overallocated"
    parts = (_cpu(life), _host_memory(life), _time(life), _gpu_model(life))
    if all(part is None for part in parts):
        return life.not_evaluable(rule, "neither what it asked for nor what it used is known")
    figures = {name: value for part in parts for name, value in (part or {}).items()}
    return life.verdict(rule, figures, firing=bool(figures))


# Each part: its figures where it is far above, nothing where it is not, None where that is not known.


def _cpu(life: _Life) -> dict[str, float] | None:
    requested, used = life.job.cpus, life.cpu_cores()
    if requested is None or used is None:
        return None
    # A core for each GPU is the least that a job can ask for.
    if requested <= len(life.job.gpus) or used >= life.case.settings.rules.overallocated.cpu_used_below * requested:
        return {}
    return {"cpu_cores": requested, "cpu_cores_used": used}


def _host_memory(life: _Life) -> dict[str, float] | None:
    requested, peak = life.job.memory, life.final.peak_memory
    if not requested or peak is None:
        return None
    if peak >= life.case.settings.rules.overallocated.memory_used_below * requested:
        return {}
    return {"host_memory_bytes": requested, "host_memory_peak_bytes": peak}


def _time(life: _Life) -> dict[str, float] | None:
    limit = life.job.time_limit
    if not limit or life.final.state != COMPLETED:
        return None
    if life.run >= life.case.settings.rules.overallocated.time_used_below * limit:
        return {}
    return {"time_limit_seconds": limit, "run_seconds": life.run}


def _gpu_model(life: _Life) -> dict[str, float] | None:
    settings = life.case.settings.rules.overallocated
    # A MIG instance is a part of a strong GPU: asked for instead of it.
    strong = all(
        not gpu.mig and any(fnmatchcase(gpu.model, pattern) for pattern in settings.strong_models)
        for gpu in life.job.gpus
    )
    if not all(gpu.model for gpu in life.job.gpus) or not life.known():
        return None
    ever = life.memory_ever()
    if ever is None:
        return None
    needed = (
        life.utilization() > settings.gpu_utilization_below
        or ever.used > settings.gpu_memory_below_bytes
        or (life.final.peak_memory or 0.0) > settings.host_memory_below_bytes
    )
    if needed or not strong:
        return {}
    return {"utilization": life.utilization(), "gpu_memory_peak_bytes": ever.used}
