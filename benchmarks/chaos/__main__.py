"""Chaos: a site of real processes, faults over an hour of accelerated time, and every promise that was not kept."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.interruptible import INTERRUPTED, interruptible

from . import kept
from .faults import FAULTS
from .machines import INTERVAL
from .pace import pace
from .play import play
from .promises import Verdicts, check, violations
from .promises.telling import never_judged, what_is_away_is_told
from .record import Record
from .schedule import plan
from .site import missing

_HOUR = 3600.0
_QUICK = 300.0
_FAILED = 3
_VERDICT = 70 * 60.0
"""Seconds of the full-length run from the beginning of something to the certainty that it is told."""
_EXAMPLES = """\
examples:
  python -m benchmarks.chaos                          an hour
  python -m benchmarks.chaos --quick --seed 7         five minutes of it
  python -m benchmarks.chaos --only leader-paused --minutes 5
  python -m benchmarks.chaos --list
  python -m benchmarks.chaos --judge DIR              what was kept of a run, judged again

exit status: 0 no violation, 1 violations, 3 the harness itself failed, 77 it cannot run here, 130 interrupted
"""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="of the schedule (default: %(default)s)")
    parser.add_argument("--minutes", type=float, help="how long it goes on, in minutes of this clock (default: 60)")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="only this one; may be repeated")
    parser.add_argument("--list", action="store_true", help="every fault, in a sentence, and nothing else")
    parser.add_argument(
        "--time-scale", type=float, default=60.0, help="how fast the site's clock runs (default: %(default)g)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="where logs and evidence are kept (default: only of a run with violations)",
    )
    parser.add_argument("--judge", type=Path, metavar="DIR", help="no run: judge the evidence that one has kept")
    results.arguments(parser)
    return parser


def main() -> int:
    parser = arguments()
    given = parser.parse_args()
    console = Console(stderr=True)
    if given.list:
        Console().print(_listed())
        return 0
    if given.judge:
        try:
            record = kept.read(given.judge)
        except (OSError, ValueError) as error:
            parser.error(f"--judge: {error}")
        judged = check(record)
        _show(record, judged, record.ended - record.began)
        return _status(record, judged)
    if unknown := [name for name in given.only if name not in FAULTS]:
        parser.error(f"no fault {', '.join(unknown)}: see --list")
    if 1000 * INTERVAL % given.time_scale:
        parser.error(f"--time-scale: {INTERVAL:g} s divided by it are not whole milliseconds")
    if lacks := missing():
        console.print(f"chaos cannot run here, for want of {', '.join(lacks)}")
        return NOT_HERE
    return _run(given, 60 * given.minutes if given.minutes else _QUICK if given.quick else _HOUR, console)


def _run(given: argparse.Namespace, length: float, console: Console) -> int:
    """One of `length` wall seconds, judged, shown, kept where it is wanted or tells of something; the exit status."""
    calm = 25.0 + _VERDICT / given.time_scale
    drawn = plan(given.seed, length, calm, given.time_scale, only=frozenset(given.only))
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    began = time.monotonic()
    try:
        with interruptible():
            record = play(
                drawn,
                directory,
                given.time_scale,
                lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
            )
    except KeyboardInterrupt:
        shutil.rmtree(directory, ignore_errors=True)
        console.print("nothing of it is left, and nothing was judged")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it was, there is no evidence: nothing to judge, and no row
        return _failed(error, f"logs are in {kept.move(directory, given.keep)}", console)
    kept.write(record, directory)  # before it is judged: an hour is not to be lost by whatever goes wrong there
    try:
        judged = check(record)  # once: of a run that nobody keeps its logs are gone afterwards
    except Exception as error:  # noqa: BLE001 - the checker is to be mended, and the evidence judged again
        return _failed(error, f"logs and evidence are in {kept.move(directory, given.keep)}", console)
    _show(record, judged, time.monotonic() - began)
    if given.keep or _status(record, judged):
        where = kept.move(directory, given.keep)
        console.print(f"logs and evidence are in {where}", highlight=False)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    results.report(_rows(record, judged, given.seed, length), given, section="Chaos")
    return _status(record, judged)


def _failed(error: Exception, where: str, console: Console) -> int:
    text = f"nothing could be judged: {type(error).__name__}: {error}\n{where}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    return _FAILED


def _status(record: Record, judged: Verdicts) -> int:
    if record.broke:
        return _FAILED
    return 1 if violations(judged) else 0


def _listed() -> Table:
    table = Table("fault", "what it is")
    for name, fault in FAULTS.items():
        table.add_row(name, fault.sentence())
    return table


def _show(record: Record, judged: Verdicts, took: float) -> None:
    console = Console()
    found = violations(judged)
    title = f"{len(record.faults)} faults in {took / 60:.0f} minutes"
    happened = Table("fault", "times", "took", "seconds", title=title)
    for name in sorted({one.name for one in record.faults}):
        these = [one for one in record.faults if one.name == name]
        lasted = sum(one.ended - one.began for one in these)
        happened.add_row(name, str(len(these)), str(sum(one.took is True for one in these)), f"{lasted:.0f}")
    console.print(happened)
    kept = Table("promise", "occasions", "violations", title=f"{len(found)} violations")
    for promise, one in judged.items():
        sentence = " ".join((promise.__doc__ or "").split())
        kept.add_row(sentence, str(len(one.occasions) or "never asked"), str(len(one.violations)))
    console.print(kept)
    console.print(_excused(record, judged))
    for violation in found:
        console.print(
            f"{violation.at - record.began:8.1f} s  {violation.promise}: {violation.subject}: {violation.evidence}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _excused(record: Record, judged: Verdicts) -> str:
    """What the figures do not speak of."""
    never = [promise.__name__.replace("_", " ") for promise, one in judged.items() if not one.occasions]
    untold = never_judged(record, judged[what_is_away_is_told].occasions)
    stalled = sum(until - since for since, until in record.stalls)
    idle = sorted({one.name for one in record.faults} - {one.name for one in record.faults if one.took})
    said = [f"did not take: {', '.join(idle)}"] if idle else []
    said += [f"never asked: {', '.join(never)}"] if never else []
    said += [f"not judged whether it is told: {', '.join(untold)}"] if untold else []
    minutes = (record.ended - record.began) / 60
    broke = [f"broke off after {minutes:.0f} minutes: {record.broke}"] if record.broke else []
    told = f"{stalled:.0f} s in which the machine stalled excuse what was late"
    return "; ".join([*broke, *said, told, str(pace(record))])


def _rows(record: Record, judged: Verdicts, seed: int, length: float) -> list[results.Row]:
    what = f"chaos, {length / 60:.0f} minutes at {record.time_scale:g} times the pace, seed {seed}"
    sent = sum(1 for one in record.deliveries if one.sent_at is not None)
    occasions = sum(len(one.occasions) for one in judged.values())
    kinds = len({one.name for one in record.faults})
    figure = (
        f"{len(violations(judged))} violations of {len(judged)} promises on {occasions} occasions, in "
        f"{len(record.faults)} faults of {kinds} of {len(FAULTS)} kinds; {len(record.jobs)} jobs, "
        f"{len(record.incidents)} incidents, {sent} messages; {_excused(record, judged)}"
    )
    return [results.Row(what, figure, versions=results.versions("psycopg", "sqlalchemy"))]


if __name__ == "__main__":
    sys.exit(main())
