"""An analysis as text for a terminal: figures, users, their histogram, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dutycycle_alerter import figures
from dutycycle_alerter.analysis import Analysis, precise, sentences
from dutycycle_alerter.cli.tables import LOW, QUIET, SEVERITY_STYLE, bar, outside, places, table
from dutycycle_alerter.headline import duration, headline, not_evaluable
from dutycycle_alerter.incidents.model import Cause, Incident
from dutycycle_alerter.rules.advice import ADVICE
from dutycycle_alerter.usage import BIN_WIDTH, LOW_UTILIZATION_PERCENT, users_histogram, users_under

_BAR = 32
_TEXT_LIMIT = 2000


def analysis_text(analysis: Analysis, *, limit: int, zone: tzinfo | None) -> Group:
    """`limit` users and findings at most."""
    parts: list[RenderableType] = [*_fleet(analysis, zone), *_users(analysis, limit), *_histogram(analysis)]
    return Group(*parts, *_findings(analysis, limit, zone), *_advice(analysis.findings))


def _fleet(analysis: Analysis, zone: tzinfo | None) -> Iterator[RenderableType]:
    fleet, scale = analysis.fleet, analysis.time_scale
    rows = figures.count(len(analysis.recording), "row")
    what = f"{rows} of {figures.count(fleet.workloads, 'job')} on {figures.count(fleet.gpus, 'GPU')}"
    if days := precise.days(fleet.start, fleet.end, zone):
        what += f", {days}"
    yield Text(what)
    yield Text()
    grid = Table.grid(padding=(0, 3, 0, 0))
    share = precise.percent(None if fleet.mean is None else 1 - fleet.mean)
    for name, value, note in (
        ("Mean utilization", precise.percent(fleet.mean), "weighted by time"),
        ("GPU-hours", precise.hours(fleet.observed * scale), "for which utilization is known"),
        ("Wasted", precise.hours(fleet.wasted * scale), f"GPU-hours, {share} of them: measured and not busy"),
        ("At exactly 0", precise.percent(fleet.at_zero_ratio), "of the time"),
        ("Energy", figures.energy(None if fleet.energy is None else fleet.energy * scale), ""),
    ):
        grid.add_row(Text(name), Text(value, "bold"), Text(note, QUIET))
    yield grid


def _users(analysis: Analysis, limit: int) -> Iterator[RenderableType]:
    if not analysis.users:
        return
    scale = analysis.time_scale
    listed = table(
        ("User", 1), "Mean utilization", "Wasted", "GPU-hours", "Energy", "Jobs", "Findings",
        right=("Wasted", "GPU-hours", "Energy", "Jobs", "Findings"),
    )  # fmt: skip
    for user in analysis.users[:limit]:
        mean = None if user.mean_percent is None else user.mean_percent / 100
        low = user.mean_percent is not None and user.mean_percent < LOW_UTILIZATION_PERCENT
        listed.add_row(
            outside(user.user),
            bar(mean) + Text(f" {figures.percent(mean)}", LOW if low else ""),
            figures.hours(user.wasted * scale if user.observed else None),
            figures.hours(user.observed * scale),
            figures.energy(None if user.energy is None else user.energy * scale),
            str(user.jobs),
            str(user.incidents),
        )
    yield _title("Users", "most wasted GPU-hours first")
    yield listed
    if len(analysis.users) > limit:
        yield Text(f"and {len(analysis.users) - limit} more", QUIET)


def _histogram(analysis: Analysis) -> Iterator[RenderableType]:
    bins = users_histogram(analysis.users)
    if not any(bins):
        return
    low = f"{users_under(analysis.users)} of {sum(bins)} under {LOW_UTILIZATION_PERCENT:.0f} %"
    yield _title("Users by mean utilization", low)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right")
    scale = min(1.0, _BAR / max(bins))
    # A user is a block of the same width throughout, as wide as fits.
    block = max(1, _BAR // max(bins) // 2)
    for i, users in enumerate(bins):
        start = i * BIN_WIDTH
        width = users * block if scale == 1.0 else max(1, round(users * scale)) if users else 0
        style = LOW if start < LOW_UTILIZATION_PERCENT else "blue"
        grid.add_row(Text(f"{start}–{start + BIN_WIDTH} %", QUIET), Text("█" * width, style) + Text(f" {users or ''}"))
    yield grid


def _findings(analysis: Analysis, limit: int, zone: tzinfo | None) -> Iterator[RenderableType]:
    findings = analysis.findings
    judged = sentences.judged(analysis.verdicts, analysis.fleet.workloads)
    yield _title("Findings", f"{len(findings) or 'none'}; {judged}; most wasted GPU-hours first")
    for rule in analysis.verdicts.not_evaluable:
        yield outside(not_evaluable(rule), QUIET, 300)
    for short in analysis.verdicts.too_short:
        yield outside(sentences.too_short(short, analysis.time_scale), QUIET, 400)
    for number, finding in enumerate(findings[:limit], 1):
        yield Text()
        yield from _finding(number, finding, analysis.time_scale, zone)
    if len(findings) > limit:
        yield Text(f"\nand {len(findings) - limit} more: --limit, --json or --html shows them", QUIET)


def _finding(number: int, finding: Incident, scale: float, zone: tzinfo | None) -> Iterator[RenderableType]:
    title = Text(f"{number:>3}  ", QUIET) + Text(headline(finding), "bold")
    yield title + Text("  ") + Text(finding.severity.value, SEVERITY_STYLE[finding.severity])
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    owner = outside(finding.subject) + (outside(f" of {finding.user}") if finding.user else Text(""))
    lasted = duration(finding, finding.updated_at, scale)
    cause = "Cause" if len(finding.diagnosis.causes) == 1 else "One of"
    for name, value in (
        ("Job", owner),
        ("GPUs", places(finding)),
        ("Since", Text(f"{precise.minute(finding.started_at, zone)}, for {lasted}")),
        ("Wasted", Text(f"{figures.hours(finding.wasted * scale)} GPU-hours")),
        (cause, Text(" / ".join(cause.label for cause in finding.diagnosis.causes), "cyan")),
        ("Seen", outside("; ".join(finding.diagnosis.evidence), limit=_TEXT_LIMIT)),
    ):
        grid.add_row(Text(name, QUIET), value)
    yield Padding(grid, (0, 0, 0, 5))


def _advice(findings: Sequence[Incident]) -> Iterator[RenderableType]:
    """What to do, once for each cause that is named."""
    causes: dict[Cause, int] = {}
    for finding in findings:
        for cause in finding.diagnosis.causes:
            causes[cause] = causes.get(cause, 0) + 1
    if not causes:
        return
    yield _title("What to do", "by likely cause")
    for cause, count in sorted(causes.items(), key=lambda item: -item[1]):
        yield Text(cause.label[0].upper() + cause.label[1:], "bold cyan") + Text(
            f"  {figures.count(count, 'finding')}", QUIET
        )
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=4, justify="right")
        grid.add_column(overflow="fold")
        for step in ADVICE[cause]:
            grid.add_row("-", Text(step))
        yield grid


def _title(text: str, note: str) -> Text:
    return Text(f"\n{text}  ", "bold") + Text(note, QUIET)
