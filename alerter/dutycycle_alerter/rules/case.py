"""One job before the rules: its evidence by window, when it may be judged, and how well it was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from dutycycle_alerter.model import Gpu, Job, JobEvidence, JobKind, Usage, WindowEvidence
from dutycycle_alerter.rules.units import memory_held
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging

UNMEASURABLE = "MIG without GPM: NVML has no utilization"
"""Why nothing can be said of an instance that no driver measures."""


@dataclass(slots=True)
class Case:
    """A job's evidence during one judgement; what several rules ask of a window is computed once.

    `settings` carries wall seconds: durations already divided by the `time_scale`, which turns them into shown ones.
    """

    evidence: JobEvidence
    settings: Judging
    time_scale: float = 1.0
    _windows: dict[float, WindowEvidence] = field(default_factory=dict)
    _utilizations: dict[float, list[float]] = field(default_factory=dict)
    _means: dict[float, float] = field(default_factory=dict)
    _unready: dict[float, tuple[Outcome, str, float | None] | None] = field(default_factory=dict)
    _grace_end: float | None = None

    @property
    def job(self) -> Job:
        """The job on trial."""
        return self.evidence.job

    def window(self, length: float) -> WindowEvidence:
        """The job's last `length` seconds."""
        found = self._windows.get(length)
        if found is None:
            found = self._windows[length] = self.evidence.window(length)
        return found

    def utilizations(self, length: float) -> list[float]:
        """Each GPU's mean duty cycle over a window; call only where every GPU is covered."""
        found = self._utilizations.get(length)
        if found is None:
            found = self._utilizations[length] = utilizations(self.window(length))
        return found

    def mean_utilization(self, length: float) -> float:
        """The job's mean duty cycle over a window; call only where every GPU is covered."""
        found = self._means.get(length)
        if found is None:
            found = self._means[length] = mean_utilization(self.window(length))
        return found

    @property
    def grace_end(self) -> float:
        """When grace is over: fixed for the job's kind, up to the loading limit while GPU memory still grows."""
        if self._grace_end is None:
            self._grace_end = self._end_of_grace()
        return self._grace_end

    def _end_of_grace(self) -> float:
        grace = self.settings.grace
        start = self.job.began
        if self.job.kind is JobKind.INTERACTIVE:
            return start + grace.interactive
        if self.evidence.memory_grew_at is None:
            return start + grace.batch
        return min(max(self.evidence.memory_grew_at, start + grace.batch), start + grace.longest_loading)

    def ready_at(self, length: float) -> float:
        """When a window of this length first lies wholly after grace and within what was watched."""
        return max(self.grace_end, self.evidence.watched_from) + length

    def unready(self, rule: str, length: float) -> Verdict | None:
        """Why a rule that needs every GPU over this window cannot be judged; None when it can.

        The window must lie wholly within what was watched; how much of it must have been measured is another matter.
        """
        if length not in self._unready:
            self._unready[length] = self._why_unready(length)
        found = self._unready[length]
        if found is None:
            return None
        outcome, reason, until = found
        return Verdict(rule, outcome, length, reason=reason, until=until)

    def _why_unready(self, length: float) -> tuple[Outcome, str, float | None] | None:
        ready = self.ready_at(length)
        if self.evidence.at < ready:
            return Outcome.WAITING, "", ready
        if self.evidence.longest is not None and length > self.evidence.longest:
            window = format_duration(length * self.time_scale)
            return Outcome.NOT_EVALUABLE, f"the source of the evidence reads no window of {window}", None
        if not self.evidence.visible:
            return Outcome.UNKNOWN, self.evidence.unseen or "its exporter does not answer", None
        if not self.job.gpus:
            return Outcome.UNKNOWN, "it holds no GPU at present", None
        return self._why_uncovered(length)

    def _why_uncovered(self, length: float) -> tuple[Outcome, str, float | None] | None:
        usages = self.window(length).gpus
        if all(self.covered(usage, length) for usage in usages):
            return None
        places = [place for place, usage in enumerate(usages) if not self.covered(usage, length)]
        if all(self._unmeasurable(place, length) for place in places):
            return Outcome.NOT_EVALUABLE, UNMEASURABLE, None
        unknown = [self.job.gpus[place].label for place in places]
        reason = f"measured for less than {self.settings.coverage:.0%} of the window: {', '.join(unknown)}"
        return Outcome.UNKNOWN, reason, None

    def _unmeasurable(self, place: int, length: float) -> bool:
        """Whether a GPU is a MIG instance that has no utilization at all: it was there over this window, in every other
        window of the rules as well, and measured in none. One that was ever measured is unknown while it is not. What a
        source shows of the first moments after it lost its data may be such a moment.
        """
        asked = self.window(length).gpus[place]
        if not self.job.gpus[place].mig or asked.allocated < self._enough(asked, length):
            return False
        longest = self.evidence.longest
        lengths = {length, *(one for one in self.lengths() if longest is None or one <= longest)}
        usages = [self.window(one).gpus[place] for one in lengths]
        return all(usage.observed == 0 and usage.allocated > 0 for usage in usages)

    def lengths(self) -> tuple[float, ...]:
        """Of every window that the rules look at, wall seconds."""
        rules = self.settings.rules
        lengths = (
            rules.hung.window,
            rules.idle.clear_window,
            rules.idle.window,
            rules.idle.critical_window,
            rules.partially_idle.window,
            rules.stalled.window,
            rules.uneven.window,
            rules.low_sm_activity.window,
            rules.underused.window,
        )
        return (*lengths, rules.idle.serving_window) if self.job.kind is JobKind.SERVING else lengths

    def covered(self, usage: Usage, length: float) -> bool:
        """Whether a GPU was measured for enough of the window to be judged."""
        return usage.observed >= self._enough(usage, length) and usage.observed > 0

    def _enough(self, usage: Usage, length: float) -> float:
        """Seconds of a window that have to be known of a GPU."""
        # A share of a GPU is measured for share x time. The small term keeps exact coverage from failing on rounding.
        return self.settings.coverage * length * usage.share * (1 - 1e-9)


def utilizations(window: WindowEvidence) -> list[float]:
    """Each GPU's mean duty cycle, 0..1; call only where every GPU is covered.

    A sharer that does more than its share of the work is at 1: it uses all that it has.
    """
    return [min(1.0, usage.busy / usage.observed) for usage in window.gpus]


def mean_utilization(window: WindowEvidence) -> float:
    """The job's mean duty cycle, weighted by measured time; call only where every GPU is covered.

    What a sharer does beyond its share on one GPU is no work of the others.
    """
    busy = sum(min(usage.busy, usage.observed) for usage in window.gpus)
    return busy / sum(usage.observed for usage in window.gpus)


def of_all_holders(gpu: Gpu, usage: Usage) -> bool:
    """Whether idle gaps and low samples are those of all who share the GPU; a MIG instance has its own."""
    return usage.share < 1 and not gpu.mig


def occupied(gpu: Gpu, usage: Usage) -> bool | None:
    """Return whether a process holds a GPU. Memory in use proves one that is not listed; on a shared GPU it may be
    another job's. None where it is not known.
    """
    if usage.processes or (memory_held(usage) and not of_all_holders(gpu, usage)):
        return True
    return None if usage.processes is None else False


def gap_share(window: WindowEvidence) -> float | None:
    """Time in idle gaps of up to 30 s as a share of measured time; None where no GPU's gaps are known."""
    gaps = observed = 0.0
    for usage in window.gpus:
        if usage.gap_lt2 is not None and usage.gap_2to30 is not None:
            gaps += usage.gap_lt2 + usage.gap_2to30
            observed += usage.observed
    return min(1.0, gaps / observed) if observed > 0 else None


def pause_share(window: WindowEvidence) -> float | None:
    """Time in idle gaps of 30 s to 10 min as a share of measured time; None where no GPU's gaps are known."""
    gaps = observed = 0.0
    for usage in window.gpus:
        if usage.gap_30to600 is not None:
            gaps += usage.gap_30to600
            observed += usage.observed
    return min(1.0, gaps / observed) if observed > 0 else None
