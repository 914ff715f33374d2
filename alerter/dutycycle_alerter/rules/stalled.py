"""`stalled`: GPUs that wait again and again for something that feeds them."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import HostUsage, JobKind
from dutycycle_alerter.rules.before import before
from dutycycle_alerter.rules.case import Case, gap_share
from dutycycle_alerter.rules.verdict import Outcome, Verdict

# A job is at work once it was, over what is known before the window, for a tenth of what it is in it.
BEGUN = 0.1


def judge_stalled(case: Case) -> Verdict:
    """Medium utilization with short idle gaps, a CPU at its limit, or tasks that wait for I/O or a CPU.

    Any one of the signals opens it; those that are not measured are left out. With none of them it is not evaluable. A
    job that began to work only within the window was loading before: what that shows of CPUs and storage is no stall.
    """
    rule, settings = "stalled", case.settings.rules.stalled
    if case.job.kind is not JobKind.BATCH:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    window = case.window(settings.window)
    mean, gaps = case.mean_utilization(settings.window), gap_share(window)
    cpu, pressure = window.host.cpu_of_limit, highest_pressure(window.host)
    if gaps is None and cpu is None and pressure is None:
        reason = "neither idle gaps nor CPU and pressure of the job are measured"
        return Verdict(rule, Outcome.NOT_EVALUABLE, settings.window, reason=reason)
    figures = {"utilization": mean}
    for name, value in (("gap_share", gaps), ("cpu_of_limit", cpu), ("pressure", pressure)):
        if value is not None:
            figures[name] = value
    if (
        settings.at_least <= mean < settings.below
        and (
            _reaches(gaps, settings.gap_share)
            or _reaches(cpu, settings.cpu_of_limit)
            or _reaches(pressure, settings.pressure)
        )
        and not _began_within(case, mean)
    ):
        return Verdict(rule, Outcome.FIRING, settings.window, Severity.WARNING, case.job.gpus, figures)
    signals_gone = not (
        _reaches(gaps, settings.clear_gap_share)
        or _reaches(cpu, settings.clear_cpu_of_limit)
        or _reaches(pressure, settings.clear_pressure)
    )
    cleared = mean > settings.clear_above or signals_gone
    return Verdict(rule, Outcome.CLEAR if cleared else Outcome.HOLDING, settings.window, figures=figures)


def _began_within(case: Case, mean: float) -> bool:
    """Whether the GPUs hardly worked before the window. Where that is not known, they are taken to have worked."""
    earlier = before(case, case.settings.rules.stalled.window)
    return earlier is not None and earlier.utilization < BEGUN * mean


def highest_pressure(host: HostUsage) -> float | None:
    """The higher of I/O and CPU pressure; None where neither is measured."""
    return max((p for p in (host.io_pressure, host.cpu_pressure) if p is not None), default=None)


def _reaches(value: float | None, bound: float) -> bool:
    return value is not None and value >= bound
