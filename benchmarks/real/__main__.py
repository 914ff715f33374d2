"""Recorded runs of real training through `dutycycle analyze`, and through the whole chain: exporters, Prometheus with
the shipped recording rules, and `dutycycle serve`. Both should find the same incidents, and the same histogram of
users.

Runs that overlap no other on a GPU are played side by side, faster than they were, each from its beginning to its end.
`--processes` nodes (4) have an exporter's process each, on the NVML double; the others live in two processes that serve
their pages from the exporter's own parts, without what finds a job on a node and the child that talks to NVML. A
recording has the averages of 10 to 30 s of each GPU's utilization, power and memory. What lies within such a row no
exporter can be shown, so the rules that need it (idle gaps: `stalled`; power limits: `hung`; GPM: `low_sm_activity`)
are switched off on both sides.

Exits with 1 where incidents or users differ, or a pass of the alerter failed; with 3 where the harness itself had
trouble, so that nothing can be told; with 77 where it cannot run here, or not at this pace. RESULTS.md gets no rows of
what ended with 3, or was late. `--show` compares what a run has left with today's analyze: its rows are of the day, the
machine and the commit that played it.

Examples:
  python -m benchmarks.real --quick
  python -m benchmarks.real --nodes 24 --processes 4 --time-scale 60
  python -m benchmarks.real --run wandb/r0003 --run wandb/r0172 --keep kept
  python -m benchmarks.real --run wandb/r0003 --run wandb/r0172 --keep kept --show
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks import results
from benchmarks.exits import NOT_HERE, UNTOLD
from benchmarks.interruptible import INTERRUPTED, interruptible
from benchmarks.real import kept, told
from benchmarks.real.analyzed import JUDGING, Analyzed, analyze
from benchmarks.real.chain import Chain, play
from benchmarks.real.choosing import representative
from benchmarks.real.comparison import Pair
from benchmarks.real.runs import Recorded, Run, read
from benchmarks.results import Row
from tests.e2e.site import BIN
from tests.fakes.nvml import find_gcc

FILE = Path(__file__).resolve().parents[2] / "../shared/data/wandb_runs.csv.gz"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    results.arguments(parser)
    parser.add_argument("--file", type=Path, default=FILE, help="the recording (../shared/data/wandb_runs.csv.gz)")
    parser.add_argument("--run", action="append", default=[], help="this run alone; may be repeated")
    parser.add_argument("--up-to", type=float, metavar="MINUTES", help="leave out longer runs, and say so")
    parser.add_argument("--nodes", type=int, default=0, help="of eight GPUs, side by side (24; of a dozen runs 12)")
    parser.add_argument("--processes", type=int, default=4, help="nodes with an exporter's process of their own")
    parser.add_argument("--time-scale", type=float, default=60.0, help="how many times as fast as they were")
    parser.add_argument("--keep", type=Path, help="keep what the programs wrote in this directory")
    parser.add_argument("--show", action="store_true", help="play nothing: what a run left in --keep")
    options = parser.parse_args()
    if options.show and options.keep is None:
        parser.error("--show needs --keep")
    if reason := _lacking(options.file):
        print(f"cannot run here: {reason}", file=sys.stderr)
        return NOT_HERE
    # The programs that are started in it read its paths from where they are.
    directory = (options.keep or Path(tempfile.mkdtemp(prefix="real-"))).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with interruptible():
            return _run(options, directory)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if options.keep is None:
            shutil.rmtree(directory, ignore_errors=True)


def _lacking(file: Path) -> str:
    if not file.exists():
        return f"no recording of real runs at {file}"
    if find_gcc() is None:
        return "gcc is missing, which makes the NVML double"
    prometheus = shutil.which("prometheus", path=f"{BIN}:/usr/bin:/usr/local/bin")
    return "" if prometheus else "no Prometheus beside the interpreter or in the path (make test installs it)"


def _run(options: argparse.Namespace, directory: Path) -> int:
    begun = kept.making()  # what is here now, and not what others have made of it when it is over
    recorded = read(options.file)
    whole = analyze(recorded.runs, directory, "whole", judging={}, made=False)
    runs = _asked_for(options, recorded, whole)
    if not runs:
        print("none of these runs can be played", file=sys.stderr)
        return 2
    _introduce(recorded, runs)
    as_recorded = analyze(runs, directory, "recorded", judging=JUDGING, made=False)
    analyzed = analyze(runs, directory, "played", judging=JUDGING, made=True)
    if options.show:
        try:
            played = kept.read(directory, runs)
        except (OSError, ValueError) as error:
            print(f"--show: {error}", file=sys.stderr)
            return 2
    else:
        chain = _play(options, runs, directory)
        played = kept.Kept(begun, tuple(run.workload for run in runs), chain)
        kept.write(played, directory)
    found = told.compared(runs, analyzed, played.chain)
    told.show_runs(runs, found, analyzed, played.chain)
    told.show_stories(found, played.chain)
    told.show_users(analyzed, played.chain)
    told.show_jobs(runs, played.chain)
    _explain(runs, whole, as_recorded, analyzed)
    told_rows = told.rows(recorded, runs, found, analyzed, played.chain)
    _report(kept.stamped(told_rows, played.made, begun.commit), played, options)
    return _status(found, analyzed, played.chain)


def _asked_for(options: argparse.Namespace, recorded: Recorded, whole: Analyzed) -> list[Run]:
    """The runs that are to be played; says how many are too long."""
    runs = list(recorded.runs)
    if options.run:
        runs = [run for run in runs if run.workload in options.run]
    elif options.quick:
        runs = representative(runs, whole.incidents)
    if options.up_to is not None:
        longer = [run for run in runs if run.length > 60 * options.up_to]
        print(f"{len(longer)} runs are left out: longer than {options.up_to:g} minutes")
        runs = [run for run in runs if run not in longer]
    return runs


def _report(rows: list[Row], played: kept.Kept, options: argparse.Namespace) -> None:
    """Says why the run does not count, if it does not: its rows are shown and not kept then."""
    chain = played.chain
    late = chain.pace.reasons()
    if chain.failed:
        print(f"{chain.failed} passes of the alerter failed: its log says why (--keep keeps it)", file=sys.stderr)
    if chain.trouble:
        print(f"nothing can be told, as the harness had trouble: {'; '.join(chain.trouble)}", file=sys.stderr)
    if late:
        print(f"the machine did not keep pace, these figures are its own: {'; '.join(late)}", file=sys.stderr)
    options.no_record = options.no_record or bool(chain.trouble or late)
    options.quick = options.quick or not played.made.counts
    results.report(rows, options, section="Real runs", machine=played.made.machine)


def _status(found: Mapping[str, Sequence[Pair]], analyzed: Analyzed, chain: Chain) -> int:
    """A pass that failed is the product's, and no slow machine excuses it; what comes late, or differs where something
    came late, may be the machine's.
    """
    if chain.failed:
        return 1
    if chain.trouble:
        return UNTOLD
    if chain.pace.reasons():
        return NOT_HERE
    return 1 if told.disagreements(found) or told.users_moved(analyzed, chain) else 0


def _play(options: argparse.Namespace, runs: list[Run], directory: Path) -> Chain:
    nodes = options.nodes or (min(12, len(runs)) if options.quick or options.run else 24)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("Playing", total=None)
        return play(
            runs,
            directory,
            nodes=nodes,
            processes=min(nodes, options.processes),
            time_scale=options.time_scale,
            judging=JUDGING,
            progress=lambda now, until: progress.update(task, completed=now, total=until),
        )


def _introduce(recorded: Recorded, runs: list[Run]) -> None:
    for reason, names in recorded.apart.items():
        print(f"{len(names)} runs are left out: {reason}")
    made, hours = sum(run.made_hours for run in runs), sum(run.gpu_hours for run in runs)
    played = f"{len(runs)} runs of {len(recorded.runs)}, none cut"
    print(f"{played}: {hours:,.1f} GPU-hours, and {made:,.1f} made for missing rows")


def _explain(runs: list[Run], whole: Analyzed, as_recorded: Analyzed, analyzed: Analyzed) -> None:
    """What the comparison itself changed."""
    chosen = {run.workload for run in runs}
    default = {name: seen for name, seen in whole.incidents.items() if name in chosen}
    switched = [name for name in sorted(chosen) if default.get(name) != as_recorded.incidents.get(name)]
    print(f"analyze's findings that the switched-off rules change: {', '.join(switched) or 'none'}")
    filled = [name for name in sorted(chosen) if as_recorded.incidents.get(name) != analyzed.incidents.get(name)]
    for name in filled:
        before, after = (
            ", ".join(map(str, one.incidents.get(name, ()))) or "nothing" for one in (as_recorded, analyzed)
        )
        print(f"made rows change analyze's word on {name}: {before} before, {after} with them")


if __name__ == "__main__":
    sys.exit(main())
