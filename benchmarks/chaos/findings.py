"""What a run found, for people: tables, its row in RESULTS.md, and what its figures do not speak of."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks import results
from benchmarks.results import Provenance
from tests.postgres.server import program as postgres_program
from tests.prometheus.server import program as prometheus_program

from .faults import FAULTS
from .pace import pace
from .promises import Promise, Verdicts, clear_share, violations
from .promises.telling import never_judged, what_is_away_is_told
from .record import Record


def making() -> Provenance:
    """Of which run its record will be, asked as it begins."""
    return results.provenance(
        results.command_version(prometheus_program("prometheus")),
        results.command_version(prometheus_program("prometheus-alertmanager")),
        results.command_version(postgres_program("postgres")),
        results.command_version("slurmctld", "-V"),
        results.versions("psycopg", "sqlalchemy"),
    )


def row(record: Record, judged: Verdicts, checker: str = "") -> results.Row:
    """The run's one row; `checker` is the commit whose it is, where it is not the run's own."""
    what = f"chaos, {record.length / 60:.0f} minutes at {record.time_scale:g} times the pace, seed {record.seed}"
    sent = sum(1 for one in record.deliveries if one.sent_at is not None)
    kinds = len({one.name for one in record.faults})
    figure = (
        f"{len(violations(judged))} violations of {len(judged)} promises ({_asked(judged)}), in {len(record.faults)} "
        f"faults of {kinds} of {len(FAULTS)} kinds; {len(record.jobs)} jobs, {len(record.incidents)} incidents, "
        f"{sent} messages; {'; '.join(_unsaid(record, judged, checker))}"
    )
    return record.made.stamped(results.Row(what, figure))


def _asked(judged: Verdicts) -> str:
    """How often promises were put to the test: the least, as a sum would be of the one that is asked at every look."""
    asked = {promise: len(one.occasions) for promise, one in judged.items() if one.occasions}
    never = len(judged) - len(asked)
    if not asked:
        return "none was ever asked"
    least = min(asked, key=lambda promise: asked[promise])
    each = "each was asked" if not never else f"{never} never asked, each of the others"
    return f"{each} at least {asked[least]} times: {name(least)}"


def name(promise: Promise) -> str:
    """A promise, as people say it."""
    return promise.__name__.replace("_", " ")


def _unsaid(record: Record, judged: Verdicts, checker: str) -> list[str]:
    """What the figures do not speak of."""
    minutes = (record.ended - record.began) / 60
    said = [f"broke off after {minutes:.0f} minutes: {record.broke}"] if record.broke else []
    said += [f"judged at {checker}"] if checker not in ("", record.made.commit) else []
    said += [f"{record.unread} logs were not read"] if record.unread else []
    idle = sorted({one.name for one in record.faults} - {one.name for one in record.faults if one.took})
    said += [f"did not take: {', '.join(idle)}"] if idle else []
    never = [name(promise) for promise, one in judged.items() if not one.occasions]
    said += [f"never asked: {', '.join(never)}"] if never else []
    untold = never_judged(record, judged[what_is_away_is_told].occasions)
    said += [f"not judged whether it is told: {', '.join(untold)}"] if untold else []
    excused = sum(len(one.excused) for one in judged.values())
    said.append(f"{excused} messages came twice, where a fault was in the way of their acknowledgement")
    stopped = [one for one in record.faults if one.interrupts]
    if stopped:
        went_on = sum(bool(one.refused) for one in stopped)
        said.append(f"{len(stopped)} passes were stopped before their commit, {went_on} went on and were refused")
    said.append(f"for {clear_share(record):.0%} of the time of jobs nothing was in the way of judging them")
    stalled = sum(until - since for since, until in record.stalls)
    return [*said, f"{stalled:.0f} s in which the machine stalled excuse what was late", str(pace(record))]


def show(record: Record, judged: Verdicts, took: float, checker: str = "") -> None:
    """Everything, on stdout; it `took` so many seconds. For `checker` see `row`."""
    console = Console()
    found = violations(judged)
    console.print(_happened(record, f"{len(record.faults)} faults in {took / 60:.0f} minutes"))
    kept = Table("promise", "occasions", "violations", "excused", title=f"{len(found)} violations")
    for promise, one in judged.items():
        sentence = " ".join((promise.__doc__ or "").split())
        asked = str(len(one.occasions) or "never asked")
        kept.add_row(sentence, asked, str(len(one.violations)), str(len(one.excused) or ""))
    console.print(kept)
    console.print("; ".join(_unsaid(record, judged, checker)))
    for violation in found:
        console.print(
            f"{violation.at - record.began:8.1f} s  {violation.promise}: {violation.subject}: {violation.evidence}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _happened(record: Record, title: str) -> Table:
    table = Table("fault", "times", "took", "seconds", title=title)
    for fault in sorted({one.name for one in record.faults}):
        these = [one for one in record.faults if one.name == fault]
        lasted = sum(one.ended - one.began for one in these)
        table.add_row(fault, str(len(these)), str(sum(one.took is True for one in these)), f"{lasted:.0f}")
    return table
