"""The figures of a score for RESULTS.md: subjects that stay the same, and all that counts in the figure."""

from __future__ import annotations

from collections import Counter, defaultdict

from benchmarks.box.scoring import figures, timing, waits, wasted
from benchmarks.box.scoring.aims import CORRECT, FEWEST, MET, MISSED, NOT_SHOWN, TOLD_OF_WELL, TOO_FEW, aims
from benchmarks.box.scoring.intervals import sure
from benchmarks.box.scoring.ratios import most, quantile
from benchmarks.box.scoring.record import SHOWN_BY, Score
from benchmarks.box.scoring.table import brief, number, percent
from benchmarks.results import Row

_SHOWN = 6
"""Aims that were missed, in a row."""


def rows(score: Score, parameters: str) -> list[Row]:
    """Of runs of a file of parameters. Always all of them: none of a former run stays."""
    jobs = figures.efficiency(score)
    found = {
        "precision: each rule that stood over a job's incident, beside what was wrong then (aim 0.99)": _precision(
            jobs
        ),
        "recall: what must be told of jobs, told under its own rule, alone or beside another (aim 0.98)": _recall(jobs),
        "what need not be told of jobs": _need_not(jobs),
        "jobs by what their GPUs waited for, with no rule in it": _waits(score),
        "causes: of incidents that name one, the true one (aim 0.9)": _causes(jobs),
        "mails to owners of healthy jobs (aim none)": _mails(score),
        "time to detect, from the first moment at which the rule can open": _times(jobs),
        "incidents of GPUs and nodes": _both(figures.devices(score)),
        "reports of memory that is hardly used": _both(figures.reports(score)),
        "the ledger beside the truth (aim 1 %)": _accounts(score),
        "wasted GPU-hours of incidents beside the truth": _wasted(jobs),
        "jobs that an exporter's process showed, and those of the crowd": _apart(jobs),
        "aims": _aims(score),
    }
    return [Row(f"fleet in a box, {parameters}: {what}", figure) for what, figure in found.items()]


def _precision(jobs: Score) -> str:
    counts = Counter(one.outcome for one in jobs.standings)
    excused = f", excused as a GPU had a fault {counts['excused']}" if counts["excused"] else ""
    return (
        f"{sure(figures.precision, jobs)}; about nothing {counts['false']}, about something else "
        f"{counts['other rule']}{excused}; incidents by their first opening alone "
        f"{brief(figures.precision_of_incidents(jobs)) or '-'}"
    )


def _recall(jobs: Score) -> str:
    return (
        f"{sure(figures.recall, jobs)}; where also what a signal shows and no rule is for counts as missed "
        f"{sure(figures.recall_with_unruled, jobs)}; where only the rule that stands over an incident counts "
        f"{brief(figures.recall_by_name(jobs)) or '-'}; where the table of rules is taken to the letter "
        f"{brief(figures.recall_by_table(jobs)) or '-'}"
    )


def _need_not(jobs: Score) -> str:
    """By why; mechanisms are in a table."""
    told: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for condition in jobs.conditions:
        told[condition.expected][condition.found] += 1
        reasons[condition.expected][condition.reason] += 1

    def why(expected: str) -> str:
        each = "; ".join(f"{count} {reason}" for reason, count in reasons[expected].most_common())
        return f"{told[expected].total()}" + (f" ({each})" if each else "")

    early, cut = told["early"].total(), told["cut"].total()
    return (
        f"a signal shows it, and no rule is for it: {why('no rule')}; no signal tells it: {why('no signal')}; over "
        f"before a rule is asked, or cut off by a run's end: {early + cut}; near a bound, or exempt: "
        f"{told['may'].total()}, of which {told['may'][True]} were told"
    )


def _waits(score: Score) -> str:
    lost, told = waits.hours_told(score.uses)
    share = f"{told / lost:.0%}" if lost > 0 else "-"
    return (
        f"that lost {waits.WASTING:.0%} and more: told of a wait meanwhile "
        f"{sure(lambda part: waits.wasting_told(part.uses), score)}; that lost less than {waits.WELL:.0%}: told of one "
        f"{sure(figures.well_told, score)} (aim at most {TOLD_OF_WELL:g}); of {lost:,.0f} GPU-hours lost in all, "
        f"{share} lie in jobs that were told of them"
    )


def _causes(jobs: Score) -> str:
    return (
        f"{sure(figures.cause_accuracy, jobs)}; of all incidents, those that name one and the true one "
        f"{sure(figures.cause_of_all, jobs)} (aim {CORRECT:g}); those that name two or three "
        f"{brief(figures.hesitation(jobs)) or '-'}, with the true one among them "
        f"{brief(figures.truth_among(jobs)) or '-'}{_undecided(jobs)}"
    )


def _undecided(jobs: Score) -> str:
    """The mechanisms with enough incidents of which most name two or three causes, those with the most first."""
    shares = {name: figures.hesitation(figures.of_mechanism(jobs, name)) for name in figures.mechanisms(jobs)}
    mostly = [
        (share.hits, f"{name} {share.hits} of {share.of}")
        for name, share in shares.items()
        if share.of >= FEWEST and 2 * share.hits > share.of
    ]
    return "; mostly so: " + ", ".join(words for _, words in sorted(mostly, reverse=True)) if mostly else ""


def _mails(score: Score) -> str:
    false, hours, mails = sum(mail.owner for mail in score.mails), figures.watched_hours(score), score.owner_mails
    critical = [
        incident
        for incident in score.incidents
        if incident.outcome == "true" and incident.severity == "critical" and incident.rule in ("idle", "hung")
    ]
    told = {(mail.case.seed, mail.case.job) for mail in mails}
    reached = sum((one.case.seed, one.case.job) in told for one in critical)
    of_well = figures.mails_of_well(score)
    kernels = sum(mail.lost is not None and mail.lost < waits.WELL and mail.rule in waits.NO_WAIT for mail in mails)
    rate, at_most = (number(figures.per_thousand(count, hours)) or "-" for count in (false, most(false)))
    return (
        f"{false} of {len(mails) + false}, or {rate} for 1,000 of {hours:,.0f} GPU-hours in which a healthy job can be "
        f"told of (at most {at_most}); with no rule in it, {of_well.hits} of {of_well.of} are about jobs that lost "
        f"less than {waits.WELL:.0%} to waits, {kernels} of them about kernels that use little of a GPU, which is no "
        f"wait; told of {reached} of {len(critical)} jobs that are idle or hung for long"
    )


def _times(jobs: Score) -> str:
    """What is told before that, as what went before helps it, is counted apart."""
    parts = []
    for steps in (*timing.STEP_BINS, "all"):
        delays = [
            condition.delay / 60
            for condition in figures.musts(jobs)
            if condition.delay is not None and steps in (timing.step_bin(condition.step), "all")
        ]
        late = [delay for delay in delays if delay >= 0]
        if delays:
            half, nearly_all = quantile(late, 0.5), quantile(late, 0.95)
            times = "" if half is None else f"median {half:.1f} min, 95 % within {nearly_all:.1f} min, of {len(late)}"
            sooner = f"{len(delays) - len(late)} sooner than that" if len(late) < len(delays) else ""
            name = steps if steps in ("all", "no steps") else f"steps {steps}"
            parts.append(f"{name}: {', '.join(filter(None, (times, sooner)))}")
    return "; ".join(parts) or "nothing was told that must be"


def _both(some: Score) -> str:
    apart = sum(one.outcome == "unjudged" for one in some.standings)
    more = f"; {apart} not judged" if apart else ""
    return f"precision {sure(figures.precision, some)}; recall {sure(figures.recall, some)}{more}"


def _accounts(score: Score) -> str:
    if not score.accounts:
        return "no job"
    totals = figures.totals(score.accounts)
    sums = ", ".join(f"{total.name} {percent(total.error)}" for total in totals)
    within = ", ".join(f"{100 * (total.within.value or 0.0):.0f} %" for total in totals)
    worst = max(quantile([abs(error) for error in total.errors], 0.99) or 0.0 for total in totals)
    return (
        f"{sums} in all; of {len(score.accounts):,} jobs within 1 %: {within}; 99 % of them within {100 * worst:.1f} %"
    )


def _wasted(jobs: Score) -> str:
    total = wasted.of_incidents(jobs.incidents)
    if not total.errors:
        return "no incident wasted anything"
    errors = [abs(error) for error in total.errors]
    spread = ", ".join(f"{q:.0%} within {100 * (quantile(errors, q) or 0.0):.1f} %" for q in (0.5, 0.9))
    return f"{percent(total.error)} of {total.true / 3600:,.0f} in all; of {len(errors)} incidents {spread}"


def _apart(jobs: Score) -> str:
    """As far as there are such jobs."""
    parts = []
    for name in SHOWN_BY:
        one = figures.shown_by(jobs, name)
        if one.accounts:
            known = ("precision", figures.precision), ("recall", figures.recall), ("causes", figures.cause_accuracy)
            shares = ", ".join(f"{what} {sure(figure, one)}" for what, figure in known)
            parts.append(f"{name}, {len(one.accounts)} jobs: {shares}")
    return "; ".join(parts) or "no job"


def _aims(score: Score) -> str:
    """Those that were missed by name; of the others how many, and what has too few cases."""
    found = aims(score)
    lost = [str(one) for one in found if one.state == MISSED]
    more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    few = {one.what for one in found if one.state == TOO_FEW}
    count = Counter(one.state for one in found)
    return (
        f"missed: {'; '.join(lost[:_SHOWN]) + more if lost else 'none'}; met {count[MET]}; not shown, as the interval "
        f"reaches beyond the aim, {count[NOT_SHOWN]}; not judged, as there are under {FEWEST} cases, {count[TOO_FEW]}, "
        f"of {len(few)} rules and mechanisms"
    )
