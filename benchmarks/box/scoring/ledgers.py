"""What is accounted beside the truth, as tables: the ledger's GPU-hours, and those that incidents call wasted."""

from __future__ import annotations

from benchmarks.box.scoring import figures, wasted
from benchmarks.box.scoring.ratios import quantile
from benchmarks.box.scoring.record import SHOWN_BY, Score
from benchmarks.box.scoring.table import Table, percent

_HEADER = ("", "true GPU-hours", "seen", "error of the sum", "median", "90 %", "99 %", "worst", "within 1 %")


def ledgers(score: Score) -> tuple[Table, ...]:
    """All of them."""
    return _accounting(score), _apart(score), _wasted(figures.efficiency(score))


def _accounting(score: Score) -> Table:
    accounts = score.accounts
    lines = []
    for total in figures.totals(accounts) if accounts else ():
        lines.append((*_total(total.name, total), f"{100 * (total.apart(accounts) or 0.0):.2f} %"))
    missing = sum(account.seen_allocated is None for account in accounts)
    title = f"Accounts of {len(accounts)} jobs ({missing} not in the ledger); errors of jobs by what they had"
    return Table(title, (*_HEADER, "errors without signs"), tuple(lines))


def _apart(score: Score) -> Table:
    """By what showed the jobs; nothing where all were shown by the same."""
    parts = {name: figures.shown_by(score, name).accounts for name in SHOWN_BY}
    lines = [
        _total(f"{total.name}, {name}", total)
        for name, accounts in parts.items()
        if accounts and len(accounts) < len(score.accounts)
        for total in figures.totals(accounts)
    ]
    return Table("Accounts by what showed the job", _HEADER, tuple(lines))


def _wasted(jobs: Score) -> Table:
    """Of each rule that an incident had last."""
    by_rule = {rule: figures.of_rule(jobs, rule) for rule in sorted({i.rule for i in jobs.incidents})}
    totals = {name: wasted.of_incidents(one.incidents) for name, one in {**by_rule, "all": jobs}.items()}
    lines = [_total(name, total) for name, total in totals.items() if total.errors]
    return Table("Wasted GPU-hours of incidents; errors of each by what it truly wasted", _HEADER, tuple(lines))


def _total(name: str, total: figures.Total) -> tuple[object, ...]:
    errors = [abs(error) for error in total.errors]
    spread = (f"{100 * (quantile(errors, q) or 0.0):.2f} %" for q in (0.5, 0.9, 0.99, 1.0))
    hours = (f"{seconds / 3600:,.2f}" for seconds in (total.true, total.seen))
    return name, *hours, percent(total.error), *spread, total.within
