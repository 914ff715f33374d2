"""A score for people, as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from benchmarks.box.scoring import figures, timing, waits
from benchmarks.box.scoring.aims import FEWEST, STATES, aims
from benchmarks.box.scoring.intervals import sure
from benchmarks.box.scoring.ledgers import ledgers
from benchmarks.box.scoring.listings import listings
from benchmarks.box.scoring.ratios import most, quantile, share
from benchmarks.box.scoring.record import SHOWN_BY, Condition, Incident, Score
from benchmarks.box.scoring.table import Table, brief, minutes, number

_BY_RULE = (
    "By rule (precision: each time that it stood over an incident; incidents and causes: where it did so last; "
    "intervals: the widest that cases and, of five runs and more, runs leave)"
)


def tables(score: Score) -> tuple[Table, ...]:
    """All of them; empty lists are left out."""
    jobs = figures.efficiency(score)
    devices, reports = figures.devices(score), figures.reports(score)
    found = [
        _runs(score),
        _shares(_BY_RULE, figures.rules(jobs), jobs, figures.of_rule),
        _shares("By mechanism", figures.mechanisms(jobs), jobs, figures.of_mechanism),
        _shares("Mixed or near a bound, and plain", ["mixed", "plain"], jobs, _mixed),
        _shares("By length of steps", timing.STEP_BINS, jobs, _stepped),
        _shares("By what showed the job: exporters' processes, the crowd, or both", SHOWN_BY, jobs, figures.shown_by),
        _shares("GPUs and nodes", figures.mechanisms(devices), devices, figures.of_mechanism),
        _shares("Reports at a job's end", figures.mechanisms(reports), reports, figures.of_mechanism),
        _waits(score),
        _delays("rule", jobs, lambda condition: condition.rule),
        _delays("mechanism", jobs, lambda condition: condition.case.mechanism),
        _changes(jobs),
        _accuracy(jobs),
        _causes(jobs),
        _mails(score),
        *ledgers(score),
        *listings(score),
        _aims(score),
    ]
    return tuple(table for table in found if table.rows)


def _runs(score: Score) -> Table:
    header = ("seed", "jobs", "GPU-hours", "passes", "failures", "late %", "precision", "recall")
    by_seed = {
        run.seed: (run, figures.efficiency(figures.part(score, lambda case, seed=run.seed: case.seed == seed)))
        for run in score.runs
    }
    lines = [
        (
            run.seed,
            run.jobs,
            f"{run.gpu_hours:,.0f}",
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
        "of incidents",
        "recall",
        "over others",
        "by any rule",
        "cause right",
        "hesitates",
        "told of may",
        "of no rule",
        "of no signal",
        "of early",
    )
    parts = [(name, choose(whole, name)) for name in names]
    parts = [(name, one) for name, one in parts if one.conditions or one.incidents]
    lines = [
        (
            name,
            sure(figures.precision, one),
            brief(figures.precision_of_incidents(one)),
            sure(figures.recall, one),
            brief(figures.recall_by_name(one)),
            brief(figures.recall_by_any_rule(one)),
            sure(figures.cause_accuracy, one),
            brief(figures.hesitation(one)),
            *(_count_found(one.conditions, expected) for expected in ("may", "no rule", "no signal", "early")),
        )
        for name, one in ([*parts, ("all", whole)] if len(parts) > 1 else parts)
    ]
    return Table(title, header, tuple(lines))


def _mixed(whole: Score, name: str) -> Score:
    return figures.part(whole, lambda case: case.mixed == (name == "mixed"))


def _stepped(whole: Score, name: str) -> Score:
    """Conditions by the step, and what was told of jobs that have such a condition alone."""
    bins: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for condition in whole.conditions:
        bins[condition.case.seed, condition.case.job].add(timing.step_bin(condition.step))
    return Score(
        runs=whole.runs,
        conditions=tuple(c for c in whole.conditions if timing.step_bin(c.step) == name),
        incidents=tuple(i for i in whole.incidents if bins.get((i.case.seed, i.case.job)) == {name}),
        standings=tuple(s for s in whole.standings if bins.get((s.case.seed, s.case.job)) == {name}),
    )


def _count_found(conditions: Iterable[Condition], expected: str) -> str | None:
    found = [condition.found for condition in conditions if condition.expected == expected]
    return f"{sum(found)} of {len(found)}" if found else None


def _waits(score: Score) -> Table:
    """By mechanism what the ledger of waits calls wasting and well."""
    names = sorted({use.case.mechanism for use in score.uses})
    lines = []
    for name in (*names, "all"):
        part = score if name == "all" else figures.of_mechanism(score, name)
        lost, told = waits.hours_told(part.uses)
        lines.append(
            (
                name,
                sure(lambda one: waits.wasting_told(one.uses), part),
                brief(waits.anything_told(part.uses, "wasting")),
                sure(figures.well_told, part),
                brief(waits.anything_told(part.uses, "well")),
                sum(use.worth == "between" for use in part.uses),
                f"{lost:,.1f}",
                f"{told / lost:.0%}" if lost > 0 else None,
            )
        )
    title = (
        f"Without any rule: jobs of an hour and more that lose {waits.WASTING:.0%} to waits and more, told of one "
        f"meanwhile, or less than {waits.WELL:.0%}, told of one at all; and GPU-hours lost by jobs of any length"
    )
    header = (
        "",
        "wasting: told of a wait",
        "of anything",
        "well: told of a wait",
        "of anything",
        "between, or short",
        "lost",
        "in jobs told of",
    )
    return Table(title, header, tuple(lines) if names else ())


def _delays(by: str, jobs: Score, name: Callable[[Condition], str]) -> Table:
    """From the earliest instant at which the rule could open, of what its own rule said. Who was helped by what was
    before is counted apart, and takes nothing off the others.
    """
    delays: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    first: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for condition in figures.musts(jobs):
        for part in (name(condition), "all"):
            key = part, timing.step_bin(condition.step)
            if condition.delay is not None:
                delays[key].append(condition.delay)
            if condition.first_word is not None:
                first[key].append(condition.first_word)
    order = sorted(first, key=lambda key: (key[0] == "all", key[0], timing.STEP_BINS.index(key[1])))
    lines = [(*key, *_times(delays[key]), *_times(first[key])) for key in order]
    header = (by, "steps", "n", "before", "median", "90 %", "worst", "any rule: n", "before", "median", "90 %")
    title = f"Time to detect, by {by}: minutes from when the rule could first have opened, by its own rule"
    return Table(title, header, tuple(line[: len(header)] for line in lines))


def _times(found: Sequence[float]) -> tuple[object, ...]:
    """How many, how many of them early, and of the others median, 90 % and worst."""
    late = [delay for delay in found if delay >= 0]
    worst = minutes(max(late)) if late else None
    return len(found), len(found) - len(late), *(minutes(quantile(late, q)) for q in (0.5, 0.9)), worst


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


def _accuracy(jobs: Score) -> Table:
    """How right causes are by the word that is taken, and by how much of the truth."""
    known = (
        ("named at last, one that took much of the time", figures.cause_accuracy),
        ("named at last, the one that took most", figures.main_cause),
        ("named first, one that took much of the time", figures.first_cause),
    )
    lines = [(what, sure(figure, jobs)) for what, figure in known]
    return Table("Incidents that name one cause, and a true one", ("", "right"), tuple(lines))


def _mails(score: Score) -> Table:
    header = (
        "healthy jobs of",
        "jobs",
        "GPU-hours",
        "to be told of",
        "said of nothing",
        "mails to owners",
        "per 1,000 h",
        "at most",
        "other messages",
    )
    names = sorted({healthy.case.mechanism for healthy in score.healthy})
    lines = []
    for name in (*names, "all"):
        one = score if name == "all" else figures.part(score, lambda case, name=name: case.mechanism == name)
        jobs, held = sum(each.jobs for each in one.healthy), sum(each.gpu_hours for each in one.healthy)
        hours = figures.watched_hours(one)
        owners = sum(mail.owner for mail in one.mails)
        untrue = sum(s.outcome == "false" for s in figures.efficiency(one).standings)
        rates = (number(figures.per_thousand(count, hours)) for count in (owners, most(owners)))
        others = len(one.mails) - owners
        lines.append((name, jobs, f"{held:,.1f}", f"{hours:,.1f}", untrue, owners, *rates, others))
    title = "Healthy jobs (to be told of: GPU-hours after grace and a window; said of nothing: of all jobs of these)"
    return Table(title, header, tuple(lines) if names else ())


def _aims(score: Score) -> Table:
    """What was missed first; those with too few cases to say in a few words."""
    found = sorted(aims(score), key=lambda one: STATES.index(one.state))
    title = f"Aims (not shown: it lies within the interval; too few cases: under {FEWEST})"
    return Table(
        title, ("", "of", "figure", "what was found"), tuple((v.state, v.what, v.name, v.figure) for v in found)
    )
