"""An analysis as JSON: one object, with the units in its names, and null for what is not known."""

from __future__ import annotations

from datetime import UTC, datetime

from dutycycle_alerter.analysis import Analysis, TooShort
from dutycycle_alerter.headline import headline
from dutycycle_alerter.incidents.model import Cause, Incident, Resolution, Severity
from dutycycle_alerter.usage import UserUsage, users_histogram, users_under
from dutycycle_alerter.wire import GpuShape, Moment, Shape, Text
from dutycycle_alerter.wire_present import NotEvaluableShape, UserShape


class FindingShape(Shape):
    """One incident of one job."""

    workload: Text
    user: Text
    """Empty where it is not known."""
    title: Text
    rule: str
    severity: Severity
    start: Moment
    """When the condition began."""
    end: Moment
    """When it cleared, or the job ended."""
    resolution: Resolution | None
    gpus: list[GpuShape]
    """The GPUs concerned."""
    job_gpus: int
    """How many GPUs the job had."""
    cause: Text
    """The likely cause, or those between which the evidence does not decide."""
    causes: list[Cause]
    tell_apart: Text
    evidence: list[Text]
    wasted_gpu_hours: float
    energy_kwh: float | None
    advice: list[Text]
    commands: list[Text]


class TooShortShape(Shape):
    """Rules that never looked at some jobs, as the recordings have too little of these."""

    rules: list[str]
    jobs: int
    needed_seconds: float
    """How much of a job they need: its grace, and the window after it. The least, where the jobs differ."""
    window_seconds: float
    longest_seconds: float
    """How much there is of the longest of the jobs."""


class AnalysisAnswer(Shape):
    """Everything that is said of recordings."""

    rows: int
    workloads: int
    users: int
    """Users with time of their own; each is in `users_table`."""
    gpus: int
    start: Moment | None
    end: Moment | None
    gpu_hours: float
    """GPU time for which utilization is known."""
    mean_utilization_percent: float | None
    """Weighted by time."""
    wasted_gpu_hours: float
    """Measured and not busy."""
    time_at_zero_ratio: float | None
    """Share of the measured time at exactly 0."""
    energy_kwh: float | None
    users_under_15: int
    users_histogram: list[int]
    """Users per 5-point bin of mean utilization, 20 bins."""
    gpu_hours_histogram: list[float]
    """GPU-hours per 5-point bin of utilization, 20 bins."""
    users_table: list[UserShape]
    """Most wasted GPU-hours first."""
    jobs_judged: int
    """Jobs that lived long enough, and were measured well enough, for at least one rule to speak."""
    jobs_judged_partly: int
    """Those of them that were too short for another rule."""
    not_evaluable: list[NotEvaluableShape]
    too_short: list[TooShortShape]
    findings: list[FindingShape]
    """Most wasted GPU-hours first."""
    skipped_lines: int
    skipped: list[Text]
    """The first of them: file:line: why."""
    repeated_rows: int
    """Rows that repeat a time of their GPU; they count nothing."""
    unowned_rows: int
    """Rows of GPUs that no workload held; they count nothing."""
    notes: list[Text]
    """What was assumed."""


def answer(analysis: Analysis) -> AnalysisAnswer:
    """All of an analysis, on the scale that people are shown."""
    fleet, scale = analysis.fleet, analysis.time_scale
    recording, found = analysis.recording, analysis.tracks
    return AnalysisAnswer(
        rows=len(recording),
        workloads=fleet.workloads,
        users=len(analysis.users),
        gpus=fleet.gpus,
        start=None if fleet.start is None else _moment(fleet.start),
        end=None if fleet.end is None else _moment(fleet.end),
        gpu_hours=_hours(fleet.observed * scale),
        mean_utilization_percent=None if fleet.mean is None else round(100 * fleet.mean, 4),
        wasted_gpu_hours=_hours(fleet.wasted * scale),
        time_at_zero_ratio=None if fleet.at_zero_ratio is None else round(fleet.at_zero_ratio, 6),
        energy_kwh=None if fleet.energy is None else _kwh(fleet.energy * scale),
        users_under_15=users_under(analysis.users),
        users_histogram=users_histogram(analysis.users),
        gpu_hours_histogram=[round(hours * scale, 6) for hours in fleet.hours],
        users_table=[_user(user, scale) for user in analysis.users],
        jobs_judged=analysis.verdicts.judged,
        jobs_judged_partly=analysis.verdicts.partly,
        not_evaluable=[
            NotEvaluableShape(rule=n.rule, reason=n.reason, jobs=n.jobs) for n in analysis.verdicts.not_evaluable
        ],
        too_short=[_too_short(short, scale) for short in analysis.verdicts.too_short],
        findings=[_finding(finding, scale) for finding in analysis.findings],
        skipped_lines=recording.skipped.count,
        skipped=[str(line) for line in recording.skipped.first],
        repeated_rows=found.repeated,
        unowned_rows=found.unowned,
        notes=list(recording.notes),
    )


def _too_short(short: TooShort, scale: float) -> TooShortShape:
    return TooShortShape(
        rules=list(short.rules),
        jobs=short.jobs,
        needed_seconds=round(short.least * scale, 3),
        window_seconds=round(short.window * scale, 3),
        longest_seconds=round(short.longest * scale, 3),
    )


def _finding(finding: Incident, scale: float) -> FindingShape:
    diagnosis = finding.diagnosis
    return FindingShape(
        workload=finding.subject,
        user=finding.user,
        title=headline(finding),
        rule=finding.rule,
        severity=finding.severity,
        start=_moment(finding.started_at),
        end=_moment(finding.resolved_at or finding.updated_at),
        resolution=finding.resolution,
        gpus=[GpuShape(node=g.node, index=g.index, uuid=g.uuid, mig=g.mig, model=g.model) for g in finding.gpus],
        job_gpus=finding.job_gpus,
        cause=diagnosis.summary,
        causes=list(diagnosis.causes),
        tell_apart=diagnosis.tell_apart,
        evidence=list(diagnosis.evidence),
        wasted_gpu_hours=_hours(finding.wasted * scale),
        energy_kwh=_kwh(finding.energy * scale) if "energy" in diagnosis.known else None,
        advice=list(diagnosis.advice),
        commands=list(diagnosis.commands),
    )


def _user(user: UserUsage, scale: float) -> UserShape:
    return UserShape(
        user=user.user,
        jobs=user.jobs,
        incidents=user.incidents,
        allocated_gpu_hours=_hours(user.allocated * scale),
        observed_gpu_hours=_hours(user.observed * scale),
        busy_gpu_hours=_hours(user.busy * scale),
        wasted_gpu_hours=_hours(user.wasted * scale),
        mean_utilization_percent=None if user.mean_percent is None else round(user.mean_percent, 4),
        energy_kwh=None if user.energy is None else _kwh(user.energy * scale),
    )


def _moment(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 6)


def _kwh(joules: float) -> float:
    return round(joules / 3.6e6, 6)
