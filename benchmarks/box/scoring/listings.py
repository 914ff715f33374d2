"""The cases behind a score's figures, each by name: what was missed, said for nothing, or counted wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from benchmarks.box.scoring import figures
from benchmarks.box.scoring.record import Case, Condition, OwnerMail, Score
from benchmarks.box.scoring.table import Table, clock, percent
from benchmarks.box.scoring.waits import WELL

_SHOWN = 40
"""Cases of a list that are shown; the rest is counted."""
_CASE = ("seed", "job", "mechanism", "mixed")


def listings(score: Score) -> tuple[Table, ...]:
    """All lists; those of mails to owners are shown to the last."""
    return (
        _missed(score),
        _exempt(score),
        _false(score),
        _other_rule(score),
        _wrong_causes(score),
        _not_required(score),
        _mails_to_owners(score),
        _mails_of_well(score),
        _accounts_out(score),
        _listed(
            "Noted by the harness", ("seed", "note"), [(run.seed, note) for run in score.runs for note in run.notes]
        ),
    )


def _case(case: Case) -> tuple[object, ...]:
    return case.seed, case.job or None, case.mechanism, "yes" if case.mixed else ""


def _missed(score: Score) -> Table:
    title = "Conditions that must be told, and were not or not by their name"
    return _conditions(title, [c for c in figures.musts(score) if not c.named])


def _exempt(score: Score) -> Table:
    title = "Conditions that would have to be told by the table of rules to the letter, and were not"
    exempt = [c for c in score.conditions if c.by_table and c.expected != "must"]
    return _conditions(title, [c for c in exempt if not (c.named or c.beside)])


def _conditions(title: str, some: Sequence[Condition]) -> Table:
    """What was not told at all first: a list is cut after a few dozen."""
    lines = [
        (
            *_case(c.case),
            c.rule,
            clock(c.since),
            clock(c.until),
            None if c.step is None else f"{c.step:.3g} s",
            "beside another rule" if c.beside else "another rule alone" if c.found else "no",
        )
        for c in sorted(some, key=lambda c: (c.beside, c.found))
    ]
    return _listed(title, (*_CASE, "rule", "from", "to", "step", "told"), lines)


def _false(score: Score) -> Table:
    return _standings("Incidents about nothing", score, "false")


def _other_rule(score: Score) -> Table:
    return _standings("Incidents under a rule that is not there for what was wrong", score, "other rule")


def _standings(title: str, score: Score, outcome: str) -> Table:
    lines = [
        (
            *_case(s.case),
            s.rule,
            " / ".join(s.causes),
            s.severity,
            clock(s.since),
            clock(s.until),
            "opened" if s.first else "reopened or renamed",
            s.id,
        )
        for s in score.standings
        if s.outcome == outcome
    ]
    return _listed(title, (*_CASE, "rule", "causes", "severity", "from", "to", "as it", "incident"), lines)


def _wrong_causes(score: Score) -> Table:
    lines = [
        (*_case(i.case), i.rule, " / ".join(i.causes), i.id)
        for i in score.incidents
        if i.cause in ("wrong", "not among")
    ]
    return _listed("Wrong causes", (*_CASE, "rule", "named", "incident"), lines)


def _not_required(score: Score) -> Table:
    told: defaultdict[tuple[str, str, str, str], list[bool]] = defaultdict(list)
    for c in score.conditions:
        if c.expected != "must":
            told[c.expected, c.case.mechanism, c.rule, c.reason].append(c.found)
    lines = [
        (expected, mechanism, rule, reason or None, len(found), sum(found))
        for (expected, mechanism, rule, reason), found in sorted(told.items())
    ]
    header = ("", "mechanism", "rule", "why it need not be", "conditions", "told all the same")
    return Table("Conditions that need not be told", header, tuple(lines))


def _mails_to_owners(score: Score) -> Table:
    lines = [(*_case(m.case), m.rule or None, m.sink, m.to, clock(m.at), m.subject) for m in score.mails if m.owner]
    header = (*_CASE, "rule", "by", "to", "at", "subject")
    return _listed("Messages to users about healthy jobs, or about none of their own", header, lines, shown=None)


def _mails_of_well(score: Score) -> Table:
    """A job once, with how many mails it brought."""
    mails: defaultdict[tuple[object, ...], list[OwnerMail]] = defaultdict(list)
    for mail in score.owner_mails:
        if mail.lost is not None and mail.lost < WELL:
            mails[_case(mail.case)].append(mail)
    lines = [
        (*case, f"{of_it[0].lost:.1%}", of_it[0].worth, ", ".join(sorted({m.rule for m in of_it})), len(of_it))
        for case, of_it in sorted(mails.items(), key=lambda item: str(item[0]))
    ]
    header = (*_CASE, "lost to waits", "by the rules", "rule", "mails")
    title = f"Jobs that lost less than {WELL:.0%} to waits, and whose owners were mailed"
    return _listed(title, header, lines, shown=None)


def _accounts_out(score: Score) -> Table:
    """Those that weigh most first."""
    errors = zip(*(total.errors for total in figures.totals(score.accounts)), strict=True)
    out = [
        (account, each)
        for account, each in zip(score.accounts, errors, strict=True)
        if max(map(abs, each)) > figures.NEAR
    ]
    out.sort(key=lambda item: (-max(map(abs, item[1])) * item[0].allocated, item[0].case.seed, item[0].case.job))
    lines = [
        (
            *_case(account.case),
            f"{account.allocated / 3600:.2f}",
            *(["not in the ledger"] if account.seen_allocated is None else map(percent, each)),
        )
        for account, each in out
    ]
    header = (*_CASE, "GPU-hours", "allocated", "observed", "busy", "wasted")
    return _listed("Jobs whose accounts are out by more than 1 % of what they had", header, lines)


def _listed(
    title: str, header: tuple[str, ...], lines: Sequence[tuple[object, ...]], shown: int | None = _SHOWN
) -> Table:
    """A list with its length; of a long one the beginning."""
    width = len(header)
    kept = [(*line, *[None] * (width - len(line))) for line in lines[:shown]]
    if len(kept) < len(lines):
        kept.append((f"{len(lines) - len(kept)} more", *[""] * (width - 1)))
    return Table(f"{title}: {len(lines)}", header, tuple(kept))
