"""A backtest as text for a terminal: the figures of both configurations, by rule and user, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dutycycle_alerter import figures
from dutycycle_alerter.analysis import precise
from dutycycle_alerter.backtest import Backtest, Result
from dutycycle_alerter.backtest.comparison import Changed, Difference
from dutycycle_alerter.backtest.tables import by_rule, by_user
from dutycycle_alerter.backtest.trial import Found
from dutycycle_alerter.cli.tables import QUIET, SEVERITY_STYLE, outside, table
from dutycycle_alerter.headline import duration, headline, not_evaluable, rule_name
from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.scale import format_duration

_TIMES = ("opened", "resolved", "mailed")


def backtest_text(result: Backtest, *, limit: int, zone: tzinfo | None) -> Group:
    """`limit` users and incidents of each sort at most."""
    parts: list[RenderableType] = [*_figures(result, zone), *_rules(result), *_users(result, limit)]
    return Group(*parts, *_differences(result, limit, zone))


def _figures(result: Backtest, zone: tzinfo | None) -> Iterator[RenderableType]:
    step = format_duration(result.step * result.time_scale)
    span = f"{precise.minute(result.since, zone)} to {precise.minute(result.until, zone)}"
    yield Text(f"{span}, judged every {step}: {figures.count(result.instants, 'time')}")
    yield Text(f"{result.new.judged} of {figures.count(result.new.jobs, 'job')} could be judged")
    yield Text()
    listed = table("", "Current", "New", "Change", right=("Current", "New", "Change"))
    for name, count in _COUNTS:
        before, after = count(result.current), count(result.new)
        listed.add_row(Text(name), f"{before:,}", Text(f"{after:,}", "bold"), _change(after - before))
    listed.add_row(
        Text("Wasted GPU-hours"),
        _hours(_wasted(result.current), result),
        Text(_hours(_wasted(result.new), result), "bold"),
        Text("within incidents", QUIET),
    )
    yield listed
    for name, jobs in result.new.excluded.items():
        yield outside(f"Policy {name} leaves out {figures.count(jobs, 'job')}", QUIET, 300)
    for rule in result.new.not_evaluable:
        yield outside(not_evaluable(rule), QUIET, 300)


_COUNTS: tuple[tuple[str, Callable[[Result], int]], ...] = (
    ("Incidents", lambda result: len(result.found)),
    ("  of them critical", lambda result: sum(f.incident.severity is Severity.CRITICAL for f in result.found)),
    ("Jobs concerned", lambda result: len({found.incident.subject for found in result.found})),
    ("Users concerned", lambda result: len({f.incident.user for f in result.found if f.incident.user})),
    ("Emails to users", lambda result: len(result.mails)),
    ("Users emailed", lambda result: len({mail.user for mail in result.mails})),
)


def _rules(result: Backtest) -> Iterator[RenderableType]:
    before = {(row.rule, row.severity): row for row in by_rule(result.current)}
    after = {(row.rule, row.severity): row for row in by_rule(result.new)}
    both = list(dict.fromkeys((*after, *before)))
    if not both:
        return
    yield _title("By rule", "incidents, and GPU-hours wasted in them")
    listed = table(
        ("Rule", 1), "Severity", "Current", "New", "GPU-hours now", "New GPU-hours",
        right=("Current", "New", "GPU-hours now", "New GPU-hours"),
    )  # fmt: skip
    for rule, severity in both:
        old, new = before.get((rule, severity)), after.get((rule, severity))
        listed.add_row(
            rule_name(rule),
            Text(severity.value, SEVERITY_STYLE[severity]),
            str(old.incidents if old else 0),
            Text(str(new.incidents if new else 0), "bold"),
            _hours(old.wasted if old else 0.0, result),
            _hours(new.wasted if new else 0.0, result),
        )
    yield listed


def _users(result: Backtest, limit: int) -> Iterator[RenderableType]:
    after = by_user(result.new)
    before = {row.user: row for row in by_user(result.current)}
    names = list(dict.fromkeys((*(row.user for row in after), *before)))
    if not names:
        return
    now = {row.user: row for row in after}
    weeks = (result.until - result.since) * result.time_scale / (7 * 86400)
    yield _title("Users", "most wasted GPU-hours first" + (f"; {weeks:.1f} weeks" if weeks >= 2 else ""))
    listed = table(
        ("User", 1), "Incidents", "New", "Emails", "New emails", "GPU-hours",
        right=("Incidents", "New", "Emails", "New emails", "GPU-hours"),
    )  # fmt: skip
    for name in names[:limit]:
        old, new = before.get(name), now.get(name)
        listed.add_row(
            outside(name) if name else Text("nobody known", QUIET),
            str(old.incidents if old else 0),
            Text(str(new.incidents if new else 0), "bold"),
            str(old.mails if old else 0),
            Text(str(new.mails if new else 0), "bold"),
            _hours(new.wasted if new else 0.0, result),
        )
    yield listed
    if len(names) > limit:
        yield Text(f"and {len(names) - limit} more", QUIET)


def _differences(result: Backtest, limit: int, zone: tzinfo | None) -> Iterator[RenderableType]:
    comparison = result.comparison
    if not (comparison.added or comparison.gone or comparison.changed):
        what = f": {figures.count(comparison.same, 'incident')}" if comparison.same else ", and without incidents"
        yield Text(f"\nBoth configurations come to the same{what}.", "bold")
        return
    yield from _list("Added", comparison.added, result, limit, zone)
    yield from _list("Gone", comparison.gone, result, limit, zone)
    yield from _changed(comparison.changed, result, limit, zone)
    yield Text(f"\n{figures.count(comparison.same, 'incident')} alike under both", QUIET)


def _list(
    title: str, found: Sequence[Found], result: Backtest, limit: int, zone: tzinfo | None
) -> Iterator[RenderableType]:
    if not found:
        return
    rules = Counter(one.incident.rule for one in found)
    yield _title(title, f"{len(found)}: " + ", ".join(f"{count} {rule_name(rule)}" for rule, count in rules.items()))
    for one in found[:limit]:
        yield from _incident(one, result, zone)
    yield from _more(len(found) - limit)


def _changed(changed: Sequence[Changed], result: Backtest, limit: int, zone: tzinfo | None) -> Iterator[RenderableType]:
    if not changed:
        return
    what = Counter(one.what for pair in changed for one in pair.differences)
    yield _title("Changed", f"{len(changed)}: " + ", ".join(f"{count} in {name}" for name, count in what.items()))
    for pair in changed[:limit]:
        said = "; ".join(_said(one, result.time_scale, zone) for one in pair.differences)
        yield from _incident(pair.after, result, zone, said)
    yield from _more(len(changed) - limit)


def _incident(found: Found, result: Backtest, zone: tzinfo | None, differences: str = "") -> Iterator[RenderableType]:
    incident = found.incident
    title = Text("  ") + Text(headline(incident), "bold") + Text("  ")
    yield title + Text(incident.severity.value, SEVERITY_STYLE[incident.severity])
    owner = outside(incident.subject) + (outside(f" of {incident.user}") if incident.user else Text(""))
    lasted = duration(incident, result.until, result.time_scale)
    mail = Text("  emailed", "cyan") if found.mail is not None else Text("")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    wasted = f"{_hours(incident.wasted, result)} GPU-hours wasted"
    grid.add_row(Text("Job", QUIET), owner)
    grid.add_row(
        Text("Since", QUIET), Text(f"{precise.minute(incident.started_at, zone)}, for {lasted}; {wasted}") + mail
    )
    if differences:
        grid.add_row(Text("Differs", QUIET), outside(differences, limit=500))
    yield Padding(grid, (0, 0, 0, 4))


def _said(one: Difference, scale: float, zone: tzinfo | None) -> str:
    if one.what in _TIMES:
        before, after = one.before, one.after
        if isinstance(before, float) and isinstance(after, float):
            apart = format_duration(abs(after - before) * scale)
            return f"{one.what} {apart} {'later' if after > before else 'earlier'}"
        if isinstance(after, float):
            return f"{one.what} {precise.minute(after, zone)}, not at present"
        return f"not {one.what}, at present {precise.minute(before, zone)}" if isinstance(before, float) else one.what
    return f"{one.what} {one.before or 'none'} → {one.after or 'none'}"


def _more(count: int) -> Iterator[RenderableType]:
    if count > 0:
        yield Text(f"  and {count} more: --limit or --json shows them", QUIET)


def _change(by: int) -> Text:
    return Text(f"{by:+,}" if by else "0", "" if by else QUIET)


def _wasted(result: Result) -> float:
    return sum(found.incident.wasted for found in result.found)


def _hours(seconds: float, result: Backtest) -> str:
    return figures.hours(seconds * result.time_scale)


def _title(text: str, note: str) -> Text:
    return Text(f"\n{text}  ", "bold") + Text(note, QUIET)
