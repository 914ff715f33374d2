"""Chaos: a site of real processes, faults over an hour of accelerated time, and every promise that was not kept."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.interruptible import INTERRUPTED, interruptible

from . import kept
from .enclosure import enclose
from .faults import FAULTS
from .findings import making, row, show
from .machines import INTERVAL
from .play import play
from .promises import Verdicts, check, violations
from .record import Record
from .schedule import Plan, plan
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
  python -m benchmarks.chaos --judge PATH             what was kept of a run, judged again

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
    parser.add_argument("--judge", type=Path, metavar="PATH", help="no run: judge the evidence that one has kept")
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
        judged, checker = check(record), results.ours()
        show(record, judged, record.ended - record.began, checker)
        given.quick = given.quick or not record.made.counts
        results.report([row(record, judged, checker)], given, section="Chaos", machine=record.made.machine)
        return _status(record, judged)
    if unknown := [name for name in given.only if name not in FAULTS]:
        parser.error(f"no fault {', '.join(unknown)}: see --list")
    if 1000 * INTERVAL % given.time_scale:
        parser.error(f"--time-scale: {INTERVAL:g} s divided by it are not whole milliseconds")
    length = 60 * given.minutes if given.minutes else _QUICK if given.quick else _HOUR
    calm = 25.0 + _VERDICT / given.time_scale
    drawn = plan(given.seed, length, calm, given.time_scale, only=frozenset(given.only))
    if absent := _absent(drawn, given.only):
        parser.error(
            f"{length:g} s are too short for {absent}, as the last {calm:g} are for settling: give more --minutes"
            " (a higher --time-scale needs fewer)"
        )
    if lacks := missing():
        console.print(f"chaos cannot run here, for want of {', '.join(lacks)}")
        return NOT_HERE
    return _run(given, drawn, console)


def _absent(drawn: Plan, only: Sequence[str]) -> str:
    """What was asked for and has no place in the plan; empty: nothing."""
    missed = sorted(set(only) - {one.fault.name for one in drawn.faults})
    return ", ".join(missed) or ("" if drawn.faults else "any fault")


def _run(given: argparse.Namespace, drawn: Plan, console: Console) -> int:
    """What is planned, judged, shown, kept where it is wanted or tells of something; the exit status."""
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    enclose()
    made = making()  # what is here now, and not what others have made of it when it is over
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
    record = kept.without_places(replace(record, seed=given.seed, length=drawn.length, made=made))
    kept.write(record, directory)  # before it is judged: an hour is not to be lost by whatever goes wrong there
    try:
        judged = check(record)  # once: of a run that nobody keeps its logs are gone afterwards
    except Exception as error:  # noqa: BLE001 - the checker is to be mended, and the evidence judged again
        return _failed(error, f"logs and evidence are in {kept.move(directory, given.keep)}", console)
    show(record, judged, time.monotonic() - began)
    if given.keep or _status(record, judged):
        where = kept.move(directory, given.keep)
        console.print(f"logs and evidence are in {where}", highlight=False)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    results.report([row(record, judged)], given, section="Chaos")
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


if __name__ == "__main__":
    sys.exit(main())
