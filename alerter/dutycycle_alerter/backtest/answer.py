"""A backtest as JSON: one object, with the units in its names, and null for what is not known."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from dutycycle_alerter.backtest import Backtest
from dutycycle_alerter.backtest.comparison import Difference
from dutycycle_alerter.backtest.tables import by_rule, by_user
from dutycycle_alerter.backtest.trial import Found, Result
from dutycycle_alerter.headline import headline
from dutycycle_alerter.incidents.model import Resolution, Severity
from dutycycle_alerter.wire import Moment, Shape, Text
from dutycycle_alerter.wire_present import NotEvaluableShape


class BacktestRuleShape(Shape):
    """The incidents of one rule at one severity."""

    rule: str
    severity: Severity
    incidents: int
    wasted_gpu_hours: float


class BacktestUserShape(Shape):
    """What one user would have had."""

    user: Text
    incidents: int
    mails: int
    wasted_gpu_hours: float


class ResultShape(Shape):
    """What one configuration would have done."""

    incidents: int
    incidents_by_severity: dict[str, int]
    jobs: int
    """Jobs that were seen."""
    jobs_judged: int
    """Those seen well enough for at least one rule to speak."""
    jobs_with_incidents: int
    users_with_incidents: int
    mails: int
    """That users would have had."""
    users_mailed: int
    wasted_gpu_hours: float
    """Within incidents."""
    rules: list[BacktestRuleShape]
    users: list[BacktestUserShape]
    """Most wasted GPU-hours first."""
    firing: dict[str, int]
    """How often each rule fired: once for each job and instant."""
    excluded_jobs: dict[str, int]
    """By policy."""
    not_evaluable: list[NotEvaluableShape]


class BacktestIncidentShape(Shape):
    """One incident."""

    workload: Text
    user: Text
    account: Text
    partition: Text
    title: Text
    rule: str
    severity: Severity
    cause: Text
    start: Moment
    """When the condition began."""
    opened: Moment
    resolved: Moment | None
    """Null where it was still open at the end of the range."""
    resolution: Resolution | None
    mailed: Moment | None
    wasted_gpu_hours: float


class DifferenceShape(Shape):
    """One thing in which an incident differs."""

    what: str
    current: Moment | Text | None
    new: Moment | Text | None


class ChangedShape(Shape):
    """An incident under the new configuration, and in what it differs from the current one's."""

    incident: BacktestIncidentShape
    differences: list[DifferenceShape]


class BacktestAnswer(Shape):
    """Everything that is said of a backtest."""

    start: Moment
    end: Moment
    step_seconds: float
    instants: int
    """How often everything was judged."""
    gaps: int
    """Instants at which nothing at all was known."""
    current: ResultShape
    new: ResultShape
    added: list[BacktestIncidentShape]
    gone: list[BacktestIncidentShape]
    changed: list[ChangedShape]
    same: int
    """Incidents that are alike under both."""


def answer(result: Backtest) -> BacktestAnswer:
    """All of a backtest, on the scale that people are shown."""
    scale, comparison = result.time_scale, result.comparison
    return BacktestAnswer(
        start=_moment(result.since),
        end=_moment(result.until),
        step_seconds=result.step * scale,
        instants=result.instants,
        gaps=result.gaps,
        current=_result(result.current, scale),
        new=_result(result.new, scale),
        added=[_incident(found, scale) for found in comparison.added],
        gone=[_incident(found, scale) for found in comparison.gone],
        changed=[
            ChangedShape(
                incident=_incident(pair.after, scale), differences=[_difference(one) for one in pair.differences]
            )
            for pair in comparison.changed
        ],
        same=comparison.same,
    )


def _result(result: Result, scale: float) -> ResultShape:
    incidents = [found.incident for found in result.found]
    severities = Counter(incident.severity for incident in incidents)
    return ResultShape(
        incidents=len(incidents),
        incidents_by_severity={severity.value: severities[severity] for severity in Severity},
        jobs=result.jobs,
        jobs_judged=result.judged,
        jobs_with_incidents=len({incident.subject for incident in incidents}),
        users_with_incidents=len({incident.user for incident in incidents if incident.user}),
        mails=len(result.mails),
        users_mailed=len({mail.user for mail in result.mails}),
        wasted_gpu_hours=_hours(sum(incident.wasted for incident in incidents), scale),
        rules=[
            BacktestRuleShape(
                rule=row.rule,
                severity=row.severity,
                incidents=row.incidents,
                wasted_gpu_hours=_hours(row.wasted, scale),
            )
            for row in by_rule(result)
        ],
        users=[
            BacktestUserShape(
                user=row.user, incidents=row.incidents, mails=row.mails, wasted_gpu_hours=_hours(row.wasted, scale)
            )
            for row in by_user(result)
        ],
        firing=result.firing,
        excluded_jobs=result.excluded,
        not_evaluable=[NotEvaluableShape(rule=n.rule, reason=n.reason, jobs=n.jobs) for n in result.not_evaluable],
    )


def _incident(found: Found, scale: float) -> BacktestIncidentShape:
    incident = found.incident
    return BacktestIncidentShape(
        workload=incident.subject,
        user=incident.user,
        account=incident.account,
        partition=incident.partition,
        title=headline(incident),
        rule=incident.rule,
        severity=incident.severity,
        cause=incident.diagnosis.summary,
        start=_moment(incident.started_at),
        opened=_moment(incident.opened_at),
        resolved=None if incident.resolved_at is None else _moment(incident.resolved_at),
        resolution=incident.resolution,
        mailed=None if found.mail is None else _moment(found.mail.at),
        wasted_gpu_hours=_hours(incident.wasted, scale),
    )


def _difference(one: Difference) -> DifferenceShape:
    return DifferenceShape(what=one.what, current=_value(one.before), new=_value(one.after))


def _value(value: str | float | None) -> datetime | str | None:
    return _moment(value) if isinstance(value, float) else value


def _moment(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)


def _hours(seconds: float, scale: float) -> float:
    return round(seconds * scale / 3600, 6)
