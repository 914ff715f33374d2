"""The figures of a score for RESULTS.md: subjects that stay the same, and all that counts in the figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from benchmarks.box.scoring import figures, waits, wasted
from benchmarks.box.scoring.aims import FEWEST, MET, MISSED, NOT_SHOWN, TOO_FEW, aims
from benchmarks.box.scoring.intervals import sure
from benchmarks.box.scoring.ratios import Share, quantile
from benchmarks.box.scoring.record import SHOWN_BY, Score
from benchmarks.box.scoring.table import brief, number, percent
from benchmarks.results import Row

_SHOWN = 6
"""Aims that were missed, in a row."""


def rows(score: Score) -> list[Row]:
    """The strict figure of each first, the lenient one beside it. Always all of them: none of a former run stays."""
    jobs = figures.efficiency(score)
    count, hours = sum(run.jobs for run in score.runs), sum(run.gpu_hours for run in score.runs)
    scale = f"{len(score.runs)} runs, {count:,} jobs, {hours:,.0f} GPU-hours"
    silent = figures.recall_of_all(jobs)
    found = {
        "precision of incidents, under a rule that is there for what was wrong (aim 0.99)": (
            f"{sure(figures.precision, jobs)}; with any rule {brief(figures.precision_of_any_rule(jobs))}; "
            f"{figures.outcomes(jobs.standings)}; {scale}"
        ),
        "recall of what must be told, by its own rule (aim 0.98)": (
            f"{sure(figures.recall, jobs)}; over all others {brief(figures.recall_by_name(jobs))}; "
            f"by any rule {brief(figures.recall_by_any_rule(jobs))}; with what no signal tells {brief(silent)}"
        ),
        "jobs by the ledger of waits, without any rule": (
            f"of those that lose {waits.WASTING:.0%} and more {_told(waits.wasting_told, score)} are told of; "
            f"of those that lose less than {waits.WELL:.0%} {_told(waits.well_told, score)}"
        ),
        "causes right where one is named (aim 0.9)": (
            f"{sure(figures.cause_accuracy, jobs)}; the first told {brief(figures.first_cause(jobs))}; "
            f"what took most alone {brief(figures.main_cause(jobs))}; of all, to hesitate is not right, "
            f"{brief(figures.cause_of_all(jobs))}; hesitates {brief(figures.hesitation(jobs))}, "
            f"with the truth among those {brief(figures.truth_among(jobs))}"
        ),
        "mails to owners": _mails(score),
        "the ledger beside the truth (aim 1 %)": _accounts(score),
        "wasted GPU-hours of incidents beside the truth": _wasted(jobs),
        "jobs that an exporter's process showed, and those of the crowd": _apart(jobs),
        "what no signal tells": _silent(jobs),
        "aims": _aims(score),
    }
    return [Row(f"fleet in a box: {what}", figure) for what, figure in found.items()]


def _told(figure: Callable[..., Share], score: Score) -> str:
    return sure(lambda part: figure(part.uses), score)


def _mails(score: Score) -> str:
    false, hours = sum(mail.owner for mail in score.mails), figures.healthy_hours(score)
    sent = [mail.worth for mail in score.owner_mails]
    critical = [
        incident
        for incident in score.incidents
        if incident.outcome == "true" and incident.severity == "critical" and incident.rule in ("idle", "hung")
    ]
    told = {(mail.case.seed, mail.case.job) for mail in score.owner_mails}
    reached = sum((one.case.seed, one.case.job) in told for one in critical)
    return (
        f"{sent.count('must')} of jobs of which something must be told ({reached} of {len(critical)} critical idle or "
        f"hung ones), {sent.count('may')} where it may be; {false} of healthy jobs or of nothing of theirs (aim none), "
        f"{number(figures.per_thousand(false, hours)) or '-'} for 1,000 of {hours:,.0f} healthy GPU-hours"
    )


def _accounts(score: Score) -> str:
    parts = []
    for total in figures.totals(score.accounts) if score.accounts else ():
        worst = quantile([abs(error) for error in total.errors], 0.99)
        apart = total.apart(score.accounts)
        parts.append(
            f"{total.name} {percent(total.error)} in all, {brief(total.within)} jobs within 1 %, "
            f"99 % of jobs within {100 * (worst or 0.0):.2f} %, errors without signs {100 * (apart or 0.0):.2f} %"
        )
    return "; ".join(parts) or "no whole job"


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
            ledger = ", ".join(f"{total.name} {percent(total.error)}" for total in figures.totals(one.accounts))
            known = ("precision", figures.precision), ("recall", figures.recall), ("causes", figures.cause_accuracy)
            shares = ", ".join(f"{what} {brief(figure(one)) or '-'}" for what, figure in known)
            parts.append(f"{name}: {shares}, ledger of {len(one.accounts)} jobs {ledger}")
    return "; ".join(parts) or "no whole job"


def _silent(jobs: Score) -> str:
    """Mechanisms with conditions that no signal of a node tells, and of how many something was told all the same."""
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for condition in jobs.conditions:
        if condition.expected == "silent":
            found[condition.case.mechanism].append(condition.found)
    order = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return ", ".join(f"{name} {len(each)} ({sum(each)} told)" for name, each in order) or "nothing"


def _aims(score: Score) -> str:
    """Those that were missed by name; of the others how many, and what has too few cases."""
    found = aims(score)
    lost = [str(one) for one in found if one.state == MISSED]
    more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    few = sorted({one.what for one in found if one.state == TOO_FEW})
    count = Counter(one.state for one in found)
    return (
        f"{MISSED}: {'; '.join(lost[:_SHOWN]) + more if lost else 'none'}; {MET} {count[MET]}; {NOT_SHOWN}, as the "
        f"interval reaches beyond the aim, {count[NOT_SHOWN]}; under {FEWEST} cases, and not judged, {count[TOO_FEW]} "
        f"of {len(few)} rules and mechanisms"
    )
