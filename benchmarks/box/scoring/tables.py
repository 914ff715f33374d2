"""A score for people: tables, and rows for RESULTS.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from benchmarks.box.scoring import figures, timing
from benchmarks.box.scoring.listings import listings
from benchmarks.box.scoring.ratios import quantile, share
from benchmarks.box.scoring.record import Condition, Incident, Score
from benchmarks.box.scoring.table import Table, minutes, number, percent
from benchmarks.results import Row

_NEAR = 0.01
"""The aim of accounting."""


def tables(score: Score) -> tuple[Table, ...]:
    """All of them; empty lists are left out."""
    jobs = figures.efficiency(score)
    devices = Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if not c.case.job),
        incidents=tuple(i for i in score.incidents if i.kind not in ("efficiency", "report")),
    )
    rules = sorted({c.rule for c in jobs.conditions} | {i.rule for i in jobs.incidents})
    mechanisms = sorted({c.case.mechanism for c in (*jobs.conditions, *jobs.incidents)})
    found = [
        _runs(score),
        _shares("By rule (an incident counts under the rule that it had last)", rules, jobs, figures.of_rule),
        _shares(
            "By mechanism", mechanisms, jobs, lambda whole, name: figures.part(whole, lambda c: c.mechanism == name)
        ),
        _shares("Mixed or near a bound, and plain", ["mixed", "plain"], jobs, _mixed),
        _shares("By length of steps", timing.STEP_BINS, jobs, _stepped),
        _shares("GPUs and nodes", sorted({c.case.mechanism for c in devices.conditions}), devices, _faulty),
        _delays(jobs),
        _changes(jobs),
        _causes(jobs),
        _mails(score),
        _accounting(score),
        *listings(score),
    ]
    return tuple(table for table in found if table.rows)


def rows(score: Score) -> list[Row]:
    """The figures of RESULTS.md."""
    jobs = figures.efficiency(score)
    mails = sum(mail.owner for mail in score.mails)
    hours = figures.healthy_hours(score)
    jobs_of, hours_of = sum(run.jobs for run in score.runs), sum(run.gpu_hours for run in score.runs)
    scale = f"{len(score.runs)} runs, {jobs_of:,} jobs, {hours_of:,.0f} GPU-hours"
    accounts = ", ".join(f"{total.name} {percent(total.error)}" for total in figures.totals(score.accounts))
    return [
        Row(f"fleet in a box, {scale}: precision of incidents (aim 0.99)", str(figures.precision(jobs))),
        Row(
            "the same: recall of what must be told (aim 0.98); under its own rule",
            f"{figures.recall(jobs)}; {figures.recall_by_name(jobs)}",
        ),
        Row(
            "the same: causes right where one is named (aim 0.9); share that hesitates; truth among those",
            f"{figures.cause_accuracy(jobs)}; {figures.hesitation(jobs)}; {figures.truth_among(jobs)}",
        ),
        Row(
            "the same: mails to owners of healthy jobs (aim none), per 1,000 healthy GPU-hours",
            f"{mails} in {hours:,.0f} h, {number(figures.per_thousand(mails, hours))}",
        ),
        Row("the same: sums of the ledger beside the truth (aim 1 %)", accounts),
    ]


def _runs(score: Score) -> Table:
    header = ("seed", "jobs", "GPU-hours", "cut by the end", "passes", "failures", "late %", "precision", "recall")
    by_seed = {
        run.seed: (run, figures.efficiency(figures.part(score, lambda case, seed=run.seed: case.seed == seed)))
        for run in score.runs
    }
    lines = [
        (
            run.seed,
            run.jobs,
            f"{run.gpu_hours:,.0f}",
            run.cut,
            run.passes,
            run.failures,
            f"{100 * run.late:.1f}",
            figures.precision(one),
            figures.recall(one),
        )
        for run, one in by_seed.values()
    ]
    return Table("Runs", header, tuple(lines))


def _shares(title: str, names: Sequence[str], whole: Score, choose: Callable[[Score, str], Score]) -> Table:
    header = (
        "",
        "precision",
        "recall",
        "under its own rule",
        "cause right",
        "hesitates",
        "truth among",
        "may",
        "silent",
        "cut",
    )
    parts = [(name, choose(whole, name)) for name in names]
    parts = [(name, one) for name, one in parts if one.conditions or one.incidents]
    lines = [
        (
            name,
            figures.precision(one),
            figures.recall(one),
            figures.recall_by_name(one),
            figures.cause_accuracy(one),
            figures.hesitation(one),
            figures.truth_among(one),
            *(_count_found(one.conditions, expected) for expected in ("may", "silent", "cut")),
        )
        for name, one in ([*parts, ("all", whole)] if len(parts) > 1 else parts)
    ]
    return Table(title, header, tuple(lines))


def _mixed(whole: Score, name: str) -> Score:
    return figures.part(whole, lambda case: case.mixed == (name == "mixed"))


def _stepped(whole: Score, name: str) -> Score:
    """Conditions by the step, and incidents of jobs that have such a condition alone."""
    bins: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for condition in whole.conditions:
        bins[condition.case.seed, condition.case.job].add(timing.step_bin(condition.step))
    return Score(
        runs=whole.runs,
        conditions=tuple(c for c in whole.conditions if timing.step_bin(c.step) == name),
        incidents=tuple(i for i in whole.incidents if bins.get((i.case.seed, i.case.job)) == {name}),
    )


def _faulty(whole: Score, name: str) -> Score:
    return figures.part(whole, lambda case: case.mechanism == name)


def _count_found(conditions: Iterable[Condition], expected: str) -> str | None:
    found = [condition.found for condition in conditions if condition.expected == expected]
    return f"{sum(found)} told of {len(found)}" if found else None


def _delays(jobs: Score) -> Table:
    """From the earliest instant at which the rule could open."""
    delays: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for condition in figures.musts(jobs):
        if condition.delay is not None:
            for rule in (condition.rule, "all"):
                delays[rule, timing.step_bin(condition.step)].append(condition.delay)
    order = sorted(delays, key=lambda key: (key[0] == "all", key[0], timing.STEP_BINS.index(key[1])))
    lines = [
        (
            rule,
            steps,
            len(of_it := delays[rule, steps]),
            *(minutes(quantile(of_it, q)) for q in (0.5, 0.9)),
            minutes(max(of_it)),
        )
        for rule, steps in order
    ]
    header = ("rule", "steps", "n", "median", "90 %", "worst")
    return Table(
        "Time to detect: minutes from the instant at which the rule could first have opened", header, tuple(lines)
    )


def _changes(jobs: Score) -> Table:
    by_rule: defaultdict[str, list[Incident]] = defaultdict(list)
    for incident in jobs.incidents:
        by_rule[incident.rule].append(incident)
        by_rule["all"].append(incident)
    lines = [
        (
            rule,
            len(of_it),
            sum(i.reopened for i in of_it),
            share(i.reopened > 1 for i in of_it),
            sum(i.reclassified for i in of_it),
            share(i.reclassified > 0 for i in of_it),
            sum(i.recaused for i in of_it),
        )
        for rule, of_it in sorted(by_rule.items(), key=lambda item: (item[0] == "all", item[0]))
    ]
    header = ("rule at the end", "incidents", "reopened", "more than once", "other rule", "share", "other cause")
    return Table("Changes within incidents", header, tuple(lines))


def _causes(jobs: Score) -> Table:
    named = Counter((i.rule, " / ".join(i.causes), i.cause) for i in figures.explained(jobs) if i.cause)
    lines = [(rule, causes, verdict, count) for (rule, causes, verdict), count in sorted(named.items())]
    return Table("Causes named", ("rule", "causes", "beside the truth", "incidents"), tuple(lines))


def _mails(score: Score) -> Table:
    header = ("healthy jobs of", "jobs", "GPU-hours", "incidents", "mails to owners", "per 1,000 h", "other messages")
    names = sorted({healthy.case.mechanism for healthy in score.healthy})
    lines = []
    for name in (*names, "all"):
        one = score if name == "all" else figures.part(score, lambda case, name=name: case.mechanism == name)
        jobs, hours = sum(healthy.jobs for healthy in one.healthy), figures.healthy_hours(one)
        owners = sum(mail.owner for mail in one.mails)
        untrue = sum(i.outcome == "false" for i in figures.efficiency(one).incidents)
        rate = number(figures.per_thousand(owners, hours))
        lines.append((name, jobs, f"{hours:,.1f}", untrue, owners, rate, len(one.mails) - owners))
    return Table("Healthy jobs (incidents: all false ones of the mechanism)", header, tuple(lines) if names else ())


def _accounting(score: Score) -> Table:
    accounts = score.accounts
    lines = []
    for total in figures.totals(accounts) if accounts else ():
        errors = [abs(error) for error in total.errors]
        within = share(error <= _NEAR for error in errors)
        spread = (f"{100 * (quantile(errors, q) or 0.0):.2f} %" for q in (0.5, 0.9, 0.99, 1.0))
        hours = (f"{seconds / 3600:,.2f}" for seconds in (total.true, total.seen))
        lines.append((total.name, *hours, percent(total.error), *spread, within))
    missing = sum(account.seen_allocated is None for account in accounts)
    title = f"Accounts of {len(accounts)} whole jobs ({missing} not in the ledger); errors of jobs by what they had"
    header = ("", "true GPU-hours", "seen", "error of the sum", "median", "90 %", "99 %", "worst", "within 1 %")
    return Table(title, header, tuple(lines))
