"""A fleet in a box: plays seeds of a workload with known truth on a real site, and scores what was told.

Nodes with their exporters (real processes on the NVML double for the first `--processes` of them, two processes that
serve all others from the exporter's own service and pages), a real Prometheus and PostgreSQL, two alerters, mail and
Slack; everything runs `--time-scale` times as fast as it is told. Each seed's outcome is kept in a file of `--resume`,
so that a long run can be stopped, goes on where it was, and can be scored again. Those behind RESULTS.md's figures
of parameters.toml are in benchmarks/evidence/box.

Needs gcc, Prometheus and PostgreSQL (`make` installs the latter two), and for 256 GPUs at 50 times two cores of which
nobody else wants anything; 40 times leave room for a little other work. A run for which passes, scrapes or readings
came late says so, is kept as late, and counts only with `--late`; after two of these in a row it stops. One in which
the harness itself failed never counts. The same command, or one with a lower `--time-scale`, plays both again.

Exits with 1 where an aim was missed, with 77 where it cannot run here, with 3 where there is nothing to score.

Examples:
  python -m benchmarks.box --quick
  python -m benchmarks.box --resume runs                              # 20 seeds, each eight minutes and a start
  python -m benchmarks.box --seeds 3,7 --time-scale 20 --processes 4
  python -m benchmarks.box --parameters theirs.toml --resume theirs
  python -m benchmarks.box --resume runs --score                      # what there is, without playing
  python -m benchmarks.box --resume benchmarks/evidence/box --score   # the published figures
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from rich.progress import track

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.interruptible import INTERRUPTED, interruptible
from tests.fakes.nvml import find_gcc
from tests.postgres.server import program as postgres_program
from tests.prometheus.server import program as prometheus_program

from . import scoring
from .model import Observed, Scenario
from .options import options as command_line
from .pace import Pace
from .parameters import Parameters, ParametersError, load
from .plan import plan
from .play import BoxSettings, play
from .played import CHAIN, JOBS, Played, code, course, digest, file_name, read, truths, write
from .report import rows, show_runs
from .scoring import figures
from .scoring.aims import aims, missed
from .seeds import Seed, counting
from .showing import Showing

QUICK_NODES, QUICK_GPUS, QUICK_HOURS = 4, 4, 1.5
NOTHING = 3
"""There is nothing to score."""
LATE_IN_A_ROW = 2
"""Seeds that came late one after the other, after which no more are played: this machine is too slow."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = command_line(arguments, __doc__ or "")
    try:
        parameters = load(options.parameters)
    except ParametersError as error:
        print(error, file=sys.stderr)
        return 2
    if options.quick:
        smaller = {"nodes": QUICK_NODES, "gpus_per_node": QUICK_GPUS, "hours": QUICK_HOURS}
        fleet = parameters.fleet.model_copy(update=smaller)
        parameters = replace(parameters, fleet=fleet)
    if not options.score and (reason := _lacking()):
        print(f"cannot run here: {reason}", file=sys.stderr)
        return NOT_HERE
    # The programs that are started in it read its paths from where they are.
    directory = (options.resume or Path(tempfile.mkdtemp(prefix="box-"))).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with interruptible():
            found = _all(options, parameters, directory)
            return _score(found, options)
    except ParametersError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = f"; the same command goes on with what is in {directory}" if options.resume else ""
        print(f"stopped{kept}", file=sys.stderr)
        return INTERRUPTED
    finally:
        if options.resume is None:
            shutil.rmtree(directory, ignore_errors=True)


def _lacking() -> str:
    """What this machine has not; empty where it has everything."""
    if find_gcc() is None:
        return "gcc is missing"
    try:
        prometheus_program("prometheus")
        postgres_program("postgres")
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        return str(error)
    return ""


def _all(options: argparse.Namespace, parameters: Parameters, directory: Path) -> list[Seed]:
    """Every seed's outcome, played where there is none."""
    settings = _settings(options, parameters.fleet.nodes)
    like = None if options.score else _outline(0, "", "", settings)
    found: dict[int, Seed] = {}
    for seed in options.seeds:
        found[seed] = _kept(directory / file_name(seed), Seed(plan(parameters, seed)), like, late_counts=options.late)
        like = like or found[seed].played
    due = [] if options.score else [seed for seed, one in found.items() if one.why]
    late = 0
    with Showing(Console(stderr=True), len(due), settings.time_scale) as showing:
        for seed in due:
            if late == LATE_IN_A_ROW and not options.late:
                remedy = "take a lower --time-scale, or end what runs beside"
                print(f"stopped: {late} seeds in a row came late; {remedy}", file=sys.stderr)
                break
            scenario = found[seed].scenario
            if like is not None and not like.same_code(_outline(0, "", "", settings)):
                print("stopped: the code has changed since the first seed", file=sys.stderr)
                break
            played = _play(scenario, settings, directory, showing)
            write(directory / file_name(seed), played)
            found[seed] = found[seed].with_outcome(played, late_counts=options.late)
            late = late + 1 if played.pace.reasons() else 0
    return list(found.values())


def _kept(path: Path, seed: Seed, like: Played | None, *, late_counts: bool) -> Seed:
    """With the outcome of this very scenario, if there is one that was made as `like` was."""
    if not path.exists():
        return seed
    try:
        kept = read(path)
    except ValueError as error:
        print(f"left out: {error}", file=sys.stderr)
        return replace(seed, why="its file cannot be read")
    if why := kept.unlike(like, seed.scenario):
        print(f"left out: {path} is {why}", file=sys.stderr)
        return replace(seed, why=why)
    return seed.with_outcome(kept, late_counts=late_counts)


def _settings(options: argparse.Namespace, nodes: int) -> BoxSettings:
    return BoxSettings(
        time_scale=options.time_scale,
        processes=min(options.processes, nodes),
        interval=options.interval,
        read_interval=options.read_interval,
        pass_interval=options.pass_interval,
    )


def _outline(seed: int, scenario: str, parameters: str, settings: BoxSettings) -> Played:
    """What today's code leaves of a run, but for its outcome."""
    empty = Observed((), (), {})
    return Played(seed, scenario, parameters, settings.numbers, empty, chain=code(CHAIN), jobs=code(JOBS))


def _play(scenario: Scenario, settings: BoxSettings, directory: Path, showing: Showing) -> Played:
    own = directory / f"seed-{scenario.seed}"
    if own.exists():
        shutil.rmtree(own)
    own.mkdir()
    showing.begin(scenario.seed, len(scenario.jobs), scenario.length)
    outline = replace(_outline(scenario.seed, digest(scenario), scenario.parameters, settings), made=_making())
    observed = play(scenario, courses=course, directory=own, settings=settings, progress=showing.tell)
    costs = json.loads((own / "costs.json").read_text())
    shutil.rmtree(own / "prometheus" / "data", ignore_errors=True)
    played = replace(
        outline,
        observed=observed,
        cores=costs["cores"],
        pace=msgspec.convert(costs["pace"], Pace),
    )
    for note in observed.notes:
        showing.say(note)
    if why := played.spoilt():
        slow = ": this machine is too slow, see --time-scale" if played.pace.reasons() else ""
        showing.say(f"does not count{slow or ': ' + '; '.join(why)}")
    showing.end()
    return played


def _making() -> results.Provenance:
    """Of a run that begins here and now."""
    return results.provenance(
        results.command_version(prometheus_program("prometheus")),
        results.command_version(postgres_program("postgres")),
        results.versions("psycopg"),
    )


def _score(seeds: Sequence[Seed], options: argparse.Namespace) -> int:
    found = counting(seeds)
    show_runs([seed.played for seed in seeds if seed.played is not None])
    if not found:
        print("there is nothing to score", file=sys.stderr)
        return NOTHING
    whole = scoring.Score()
    # What is true of a run is computed anew, which takes a while.
    console = Console(stderr=True)
    for scenario, played in track(found, "scoring", console=console, transient=True, disable=not console.is_terminal):
        processes = round(played.settings["processes"])
        whole += scoring.score(scenario, truths(scenario.jobs), played.observed, processes)
    scoring.show(scoring.tables(whole))
    lost = missed(aims(whole))
    results.show(("aim missed",), [(str(one),) for one in lost] or [("none",)], title="\nAims")
    machine = " and ".join(dict.fromkeys(played.made.machine for _, played in found))
    with suppress(BrokenPipeError):
        results.report(rows(whole, seeds), options, section="Fleet in a box", machine=machine)
    if options.quick:
        return 0 if _works(whole) else 1
    return 1 if lost else 0


def _works(score: scoring.Score) -> bool:
    """Of a run that is too short for figures: what had to be told was told at all, and no user of it for nothing."""
    jobs = figures.efficiency(score)
    musts = figures.musts(jobs)
    return (not musts or any(one.found for one in musts)) and not any(mail.owner for mail in score.mails)


if __name__ == "__main__":
    sys.exit(main())
