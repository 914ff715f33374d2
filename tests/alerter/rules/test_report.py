"""What is reported of a job that has ended: each bound on both sides, and what is not known left out."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause, EventKind, Resolution, Severity, State, Step
from dutycycle_alerter.incidents.reporting import file_report
from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind, MemoryPeak, WindowEvidence
from dutycycle_alerter.rules import Outcome, Verdict
from dutycycle_alerter.rules.report import COMPLETED, Final, report, windows_of_a_life
from dutycycle_alerter.settings import Judging, Rules
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.cases import SETTINGS, START, evidence

FIRING, CLEAR, NOT_EVALUABLE, NOT_APPLICABLE = (
    Outcome.FIRING,
    Outcome.CLEAR,
    Outcome.NOT_EVALUABLE,
    Outcome.NOT_APPLICABLE,
)
HOUR, GB, GIB = 3600.0, 1e9, 2.0**30
END = START + 2 * HOUR


def ended(
    utilizations: list[float | None],
    *,
    memory: float | None = 0.5,
    hours: float = 2,
    memory_requested: float | None = None,
    units: dict[str, object] | None = None,
    **fields: object,
) -> JobEvidence:
    """A job that ran for so many hours and used this share of 80 GB of memory on each GPU."""
    held = {} if memory is None else {"memory_used": memory * 80 * GB, "memory_total": 80 * GB}
    at = START + hours * HOUR
    gpu_fields = held | (units or {})
    return evidence(utilizations, at=at, ended=at, gpu_fields=gpu_fields, memory=memory_requested, **fields)  # type: ignore[arg-type]


def verdict(rule: str, item: JobEvidence, final: Final | None = None, settings: Judging = SETTINGS) -> Verdict:
    return next(found for found in report(item, settings, final) if found.rule == rule)


def test_a_job_that_still_runs_is_not_reported() -> None:
    assert report(evidence([0.1]), SETTINGS) == ()


def test_the_rules_are_reported_in_their_order_as_information() -> None:
    verdicts = report(ended([0.1], memory=0.1), SETTINGS)
    assert tuple(found.rule for found in verdicts) == Rules.REPORTS
    assert verdicts[0].severity is Severity.INFO


@pytest.mark.parametrize(
    ("utilization", "memory", "outcome"),
    [
        (0.4999, 0.2499, FIRING),
        (0.50, 0.2499, CLEAR),
        (0.4999, 0.25, CLEAR),
        (0.0, 0.0, FIRING),
        (0.1, None, NOT_EVALUABLE),
        (None, 0.1, NOT_EVALUABLE),
    ],
)
def test_memory_underused(utilization: float | None, memory: float | None, outcome: Outcome) -> None:
    assert verdict("memory_underused", ended([utilization], memory=memory)).outcome is outcome


@pytest.mark.parametrize(
    ("utilization", "memory", "outcome"),
    [
        (0.6999, 0.95, FIRING),
        (0.70, 0.95, CLEAR),
        (0.6999, 0.9499, CLEAR),
        (0.1, 1.0, FIRING),
        (0.1, None, NOT_EVALUABLE),
    ],
)
def test_memory_pressure(utilization: float, memory: float | None, outcome: Outcome) -> None:
    found = verdict("memory_pressure", ended([utilization], memory=memory))
    assert found.outcome is outcome
    assert outcome is not FIRING or len(found.gpus) == 1


def test_one_gpu_that_filled_its_memory_is_enough_and_is_named() -> None:
    small, full = ended([0.5], memory=0.1), ended([0.5], memory=0.96)

    def window(length: float) -> object:
        return replace(small.window(length), gpus=(*small.window(length).gpus, *full.window(length).gpus))

    item = replace(ended([0.5, 0.5]), window=window)  # type: ignore[arg-type]
    pressure = verdict("memory_pressure", item)
    assert (pressure.outcome, [gpu.index for gpu in pressure.gpus]) == (FIRING, ["1"])
    assert verdict("memory_underused", item).outcome is CLEAR


@pytest.mark.parametrize(
    ("requested", "used", "outcome"),
    [
        (16.0, 3.999, FIRING),
        (16.0, 4.0, CLEAR),
        # A core for the GPU is the least that can be asked for.
        (1.0, 0.0, CLEAR),
        (2.0, 0.4, FIRING),
        (None, 0.4, NOT_EVALUABLE),
        (16.0, None, NOT_EVALUABLE),
    ],
)
def test_overallocated_cpus(requested: float | None, used: float | None, outcome: Outcome) -> None:
    measured = ended([None], memory=None, cpus=requested, host=HostUsage(cpu_cores=used))
    assert verdict("overallocated", measured).outcome is outcome
    # Accounting knows better than samples, and knows it also of what nobody measured.
    accounted = ended([None], memory=None, cpus=requested, host=HostUsage(cpu_cores=9.0))
    if used is not None:
        final = Final(cpu_seconds=used * 2 * HOUR)
        assert verdict("overallocated", accounted, final).outcome is outcome


@pytest.mark.parametrize(("hours", "known"), [(1.99, False), (2.0, True), (4.0, True), (4.01, False), (24.0, True)])
def test_cores_are_taken_from_a_window_within_the_life_and_most_of_it(hours: float, known: bool) -> None:
    """A rate over a window that reaches beyond the life would be too low."""
    item = ended([None], memory=None, hours=hours, cpus=16.0, host=HostUsage(cpu_cores=1.0))
    assert (verdict("overallocated", item).outcome is FIRING) == known


@pytest.mark.parametrize(
    ("requested", "peak", "outcome"),
    [
        (64 * GIB, 15.99 * GIB, FIRING),
        (64 * GIB, 16 * GIB, CLEAR),
        (None, GIB, NOT_EVALUABLE),
        (64 * GIB, None, NOT_EVALUABLE),
    ],
)
def test_overallocated_host_memory(requested: float | None, peak: float | None, outcome: Outcome) -> None:
    item = ended([None], memory=None, memory_requested=requested)
    assert verdict("overallocated", item, Final(peak_memory=peak)).outcome is outcome


@pytest.mark.parametrize(
    ("limit", "state", "outcome"),
    [
        (8.01 * HOUR, COMPLETED, FIRING),
        (8 * HOUR, COMPLETED, CLEAR),
        # One that failed, or was cancelled, has not shown how long it needs.
        (48 * HOUR, "FAILED", NOT_EVALUABLE),
        (48 * HOUR, "CANCELLED by 1000", NOT_EVALUABLE),
        (48 * HOUR, "", NOT_EVALUABLE),
        (None, COMPLETED, NOT_EVALUABLE),
    ],
)
def test_overallocated_time(limit: float | None, state: str, outcome: Outcome) -> None:
    item = ended([None], memory=None, time_limit=limit)
    assert verdict("overallocated", item, Final(state=state)).outcome is outcome


@pytest.mark.parametrize(
    ("utilization", "gpu_memory", "host_memory", "model", "outcome"),
    [
        (0.15, 10 * GB, 32 * GB, "NVIDIA H100 80GB HBM3", FIRING),
        (0.1501, 10 * GB, 32 * GB, "NVIDIA H100 80GB HBM3", CLEAR),
        (0.15, 10.01 * GB, 32 * GB, "NVIDIA H100 80GB HBM3", CLEAR),
        (0.15, 10 * GB, 32.01 * GB, "NVIDIA H100 80GB HBM3", CLEAR),
        (0.15, 10 * GB, None, "NVIDIA H100 80GB HBM3", FIRING),
        (0.01, GB, GB, "Tesla T4", CLEAR),
        (0.01, GB, GB, "", NOT_EVALUABLE),
        (0.01, None, GB, "NVIDIA H100 80GB HBM3", NOT_EVALUABLE),
    ],
)
def test_overallocated_gpu_model(
    utilization: float, gpu_memory: float | None, host_memory: float | None, model: str, outcome: Outcome
) -> None:
    item = ended([utilization], memory=None if gpu_memory is None else gpu_memory / (80 * GB), model=model)
    assert verdict("overallocated", item, Final(peak_memory=host_memory)).outcome is outcome


def test_a_mig_instance_of_a_strong_gpu_is_no_strong_gpu() -> None:
    item = ended([0.01], memory=0.01, model="NVIDIA H100 80GB HBM3", mig="MIG-1")
    assert verdict("overallocated", item).outcome is CLEAR


@pytest.mark.parametrize(("hours", "outcome"), [(0.99, NOT_APPLICABLE), (1.0, FIRING)])
def test_a_short_job_is_not_reported(hours: float, outcome: Outcome) -> None:
    assert verdict("memory_underused", ended([0.1], memory=0.1, hours=hours)).outcome is outcome


@pytest.mark.parametrize("kind", [JobKind.INTERACTIVE, JobKind.SERVING])
def test_only_batch_jobs_are_reported(kind: JobKind) -> None:
    verdicts = report(ended([0.1], memory=0.1, kind=kind), SETTINGS)
    assert {found.outcome for found in verdicts} == {NOT_APPLICABLE}


@pytest.mark.parametrize("rule", Rules.REPORTS)
def test_a_report_that_is_disabled_is_not_made(rule: str) -> None:
    settings = Judging.model_validate({"rules": {rule: {"enabled": False}}})
    assert verdict(rule, ended([0.1], memory=0.1), settings=settings).outcome is NOT_APPLICABLE


@pytest.mark.parametrize(("coverage", "outcome"), [(0.8, FIRING), (0.79, NOT_EVALUABLE)])
def test_a_job_that_was_hardly_measured_is_not_judged_by_it(coverage: float, outcome: Outcome) -> None:
    assert verdict("memory_underused", ended([0.1], memory=0.1, coverage=coverage)).outcome is outcome


@pytest.mark.parametrize(("hours", "outcome"), [(6.0, FIRING), (6.01, NOT_EVALUABLE)])
def test_of_a_job_that_was_watched_late_only_what_was_watched_counts(hours: float, outcome: Outcome) -> None:
    item = replace(ended([0.1], memory=0.96, hours=7), watched_from=START + hours * HOUR)
    found = verdict("memory_pressure", item)
    assert found.outcome is outcome
    if outcome is FIRING:
        assert found.figures["watched_seconds"] == HOUR


def test_of_a_job_of_days_it_is_all_of_them() -> None:
    found = verdict("memory_underused", ended([0.1], memory=0.1, hours=100))
    assert (found.window, found.figures["watched_seconds"]) == (100 * HOUR, 100 * HOUR)


DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        (MemoryPeak(8 * GB, 0.10), FIRING),
        (MemoryPeak(60 * GB, 0.75), CLEAR),
        (None, NOT_EVALUABLE),
    ],
)
def test_that_little_memory_was_in_use_is_said_of_all_of_a_life(before: MemoryPeak | None, outcome: Outcome) -> None:
    """A source that reaches no further than a day: what used its memory before that used it."""
    item = replace(ended([0.1], memory=0.1, hours=100), longest=DAY, memory_peak=before)
    found = verdict("memory_underused", item)
    assert (found.outcome, found.window) == (outcome, DAY)
    if before is not None:
        assert found.figures["memory_peak"] == max(0.1, before.share)
    assert verdict("overallocated", replace(item, job=replace(item.job, cpus=None))).outcome is outcome


def test_of_a_job_that_was_watched_late_nobody_knows_how_little_memory_it_ever_used() -> None:
    late = replace(ended([0.1], memory=0.1, hours=7), watched_from=START + HOUR)
    assert verdict("memory_underused", late).outcome is NOT_EVALUABLE
    untold = replace(late, job=replace(late.job, start=START + HOUR, start_told=False), longest=4 * HOUR)
    assert verdict("memory_underused", untold).outcome is NOT_EVALUABLE


def test_that_memory_was_full_needs_no_more_than_the_time_that_shows_it() -> None:
    item = replace(ended([0.1], memory=0.96, hours=100), longest=DAY)
    assert verdict("memory_pressure", item).outcome is FIRING
    emptied = replace(ended([0.1], memory=0.1, hours=100), longest=DAY, memory_peak=MemoryPeak(79 * GB, 0.99))
    assert verdict("memory_pressure", emptied).outcome is CLEAR


# The entry in the list


def filed(item: JobEvidence, final: Final | None = None) -> Step:
    return file_report(None, item, report(item, SETTINGS, final), SETTINGS)


def test_a_report_is_opened_and_resolved_at_once() -> None:
    result = filed(ended([0.1, 0.1], memory=0.1))
    incident = result.incident
    assert incident is not None
    assert (incident.kind, incident.rule, incident.severity) == ("report", "memory_underused", Severity.INFO)
    assert (incident.state, incident.resolution, incident.resolved_at) == (State.RESOLVED, Resolution.ENDED, END)
    assert incident.started_at == START
    assert incident.wasted == pytest.approx(2 * 0.9 * 2 * HOUR)
    assert [event.kind for event in result.events] == [EventKind.OPENED, EventKind.RESOLVED]


def test_a_report_is_as_silent_as_a_policy_makes_its_rules() -> None:
    item = ended([0.1, 0.1], memory=0.1)
    verdicts = [replace(verdict, told=Attention.WARNING, silent=True) for verdict in report(item, SETTINGS)]
    incident = file_report(None, item, verdicts, SETTINGS).incident
    assert incident is not None
    assert incident.silent
    assert [rule.told for rule in incident.rules] == [Attention.WARNING] * len(incident.rules)


def test_nothing_is_filed_where_nothing_fires() -> None:
    assert filed(ended([0.9], memory=0.6)) == Step(None)


def test_a_run_is_reported_once_and_the_next_one_again() -> None:
    item = ended([0.1], memory=0.1)
    first = filed(item).incident
    verdicts = report(item, SETTINGS)
    later = replace(item, at=item.at + 600)
    assert file_report(first, later, report(later, SETTINGS), SETTINGS) == Step(first)
    restated = replace(item, job=replace(item.job, start=START + 3))
    assert file_report(first, restated, report(restated, SETTINGS), SETTINGS) == Step(first)
    requeued = replace(item, job=replace(item.job, start=END + 60), ended=END + 3 * HOUR, at=END + 3 * HOUR)
    again = file_report(first, requeued, report(requeued, SETTINGS), SETTINGS)
    assert again.incident is not None
    assert again.incident.started_at == END + 60
    assert verdicts[0].outcome is FIRING


def test_all_that_was_too_much_is_said_with_what_would_have_done() -> None:
    item = ended(
        [0.05, 0.05],
        memory=0.3,
        model="Tesla T4",
        cpus=32.0,
        memory_requested=256 * GIB,
        time_limit=48 * HOUR,
        host=HostUsage(cpu_cores=1.0),
    )
    incident = filed(item, Final(cpu_seconds=3 * 2 * HOUR, peak_memory=8 * GIB, state=COMPLETED)).incident
    assert incident is not None
    assert (incident.rule, incident.diagnosis.causes) == ("overallocated", (Cause.OVER_REQUEST,))
    assert incident.diagnosis.evidence == (
        "3.0 of 32 CPU cores in use on average",
        "at most 8.0 GiB of 256.0 GiB of host memory in use",
        "it ran for 4.2 % of its time limit",
    )
    assert incident.diagnosis.advice == (
        "Ask for 4 CPU cores instead of 32.",
        "Ask for 10 GiB of host memory instead of 256.",
        "Ask for 2 h 30 min instead of 2 d: shorter jobs start earlier.",
    )
    assert incident.diagnosis.commands == (
        "sacct --jobs=1 --format=JobID,State,Elapsed,Timelimit,AllocCPUS,TotalCPU,ReqMem,MaxRSS",
    )


def test_a_report_keeps_every_rule_that_fired() -> None:
    item = ended([0.05], memory=0.1, model="NVIDIA H100 80GB HBM3")
    incident = filed(item).incident
    assert incident is not None
    assert [rule.rule for rule in incident.rules] == ["memory_underused", "overallocated"]
    assert incident.diagnosis.causes == (Cause.SMALL_WORK, Cause.OVER_REQUEST)
    assert "there is room for a much larger batch" in " ".join(incident.diagnosis.advice)


def test_large_requests_read_as_people_write_them() -> None:
    item = ended([0.05] * 8, memory=0.3, cpus=2048.0, memory_requested=4096 * GIB)
    incident = filed(item, Final(cpu_seconds=20 * 2 * HOUR, peak_memory=8 * GIB, state=COMPLETED)).incident
    assert incident is not None
    assert incident.diagnosis.evidence[0] == "20.0 of 2,048 CPU cores in use on average"
    assert incident.diagnosis.advice == (
        "Ask for 25 CPU cores instead of 2,048.",
        "Ask for 10 GiB of host memory instead of 4,096.",
    )


@pytest.mark.parametrize(
    ("units", "causes"),
    [
        ({"dram_share": 0.30, "tensor_share": 0.05}, (Cause.MEMORY_BOUND,)),
        ({"dram_share": 0.29, "tensor_share": 0.05}, (Cause.SMALL_WORK,)),
        ({"dram_share": 0.30, "tensor_share": 0.06}, (Cause.SMALL_WORK,)),
        ({}, (Cause.SMALL_WORK, Cause.MEMORY_BOUND)),
    ],
)
def test_full_memory_is_told_from_a_memory_bus_at_its_limit(
    units: dict[str, object], causes: tuple[Cause, ...]
) -> None:
    incident = filed(ended([0.5], memory=0.96, units=units)).incident
    assert incident is not None
    assert (incident.rule, incident.diagnosis.causes) == ("memory_pressure", causes)


def test_a_day_that_is_read_for_utilization_alone_takes_no_memory_from_a_report() -> None:
    """Where some jobs may be serving; of the last two hours all is known."""
    item = replace(ended([0.1], memory=0.1, hours=10), memory_peak=MemoryPeak(8 * GB, 0.1))
    day = SETTINGS.rules.idle.serving_window

    def window(length: float) -> WindowEvidence:
        known = item.window(length)
        return (
            replace(known, gpus=tuple(replace(one, memory_used=None) for one in known.gpus)) if length == day else known
        )

    read = replace(item, window=window, longest=day)
    kept = {length: window(length) for length in windows_of_a_life(read, SETTINGS)}
    assert report(replace(read, window=kept.__getitem__), SETTINGS) == report(read, SETTINGS)
    found, before = verdict("memory_underused", read), verdict("memory_underused", replace(item, longest=2 * HOUR))
    assert (found.outcome, found.window, found.figures) == (FIRING, 2 * HOUR, before.figures)


def test_a_job_of_whose_life_no_window_is_known_is_not_reported() -> None:
    """A source saw it for a moment, and its scheduler says what it had asked for."""
    item = replace(ended([0.1], cpus=64.0, time_limit=100 * HOUR), longest=60.0)
    kept = {length: item.window(length) for length in windows_of_a_life(item, SETTINGS)}
    seen = replace(item, window=kept.__getitem__)
    final = Final(cpu_seconds=60.0, state=COMPLETED)
    verdicts = report(seen, SETTINGS, final)
    assert {found.outcome for found in verdicts} == {NOT_EVALUABLE}
    assert file_report(None, seen, verdicts, SETTINGS) == Step(None)
    assert verdict("overallocated", item, replace(final, cpu_seconds=None)).outcome is NOT_EVALUABLE
    assert verdict("overallocated", replace(item, longest=None), final).outcome is FIRING
