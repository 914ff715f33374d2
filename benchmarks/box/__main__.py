"""A fleet in a box: plays seeds of a workload with known truth on a real site, and scores what was told.

Nodes with their exporters (real processes on the NVML double for the first `--processes` of them, one process that
serves all others from the exporter's own service and pages), a real Prometheus and PostgreSQL, two alerters, mail and
Slack; everything runs `--time-scale` times as fast as it is told. Each seed's outcome is kept in a file of `--resume`,
so that a long run can be stopped, goes on where it was, and can be scored again.

Needs gcc, Prometheus and PostgreSQL (`make` installs the latter two). A seed of 256 GPUs takes a little over one core
at 30 times, and two do not carry 60. A run for which passes, scrapes or readings came late says so, is kept as late,
and counts only with `--late`; the same command plays it again.

Exits with 1 where an aim was missed, with 2 where it cannot run here, with 3 where there is nothing to score.

Examples:
  python -m benchmarks.box --quick
  python -m benchmarks.box --resume runs                              # 20 seeds of 6.5 hours: five hours in all
  python -m benchmarks.box --seeds 3,7 --time-scale 20 --processes 4
  python -m benchmarks.box --parameters theirs.toml --resume theirs
  python -m benchmarks.box --resume runs --score                      # what there is, without playing
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
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from benchmarks import results
from tests.fakes.nvml import find_gcc
from tests.postgres.server import program as postgres_program
from tests.prometheus.server import program as prometheus_program

from . import scoring
from .model import Observed, Scenario
from .pace import Pace
from .parameters import DEFAULT, Parameters, ParametersError, load
from .plan import plan
from .play import BoxSettings, play
from .played import CHAIN, JOBS, Played, code, course, digest, read, truths, write
from .report import rows, show_runs
from .scoring import figures
from .scoring.aims import aims

QUICK_NODES, QUICK_GPUS, QUICK_HOURS, QUICK_SCALE = 4, 4, 1.5, 60.0
SEEDS = range(1, 21)
NOTHING = 3
"""There is nothing to score."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
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
        return 2
    directory = options.resume or Path(tempfile.mkdtemp(prefix="box-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        found = _all(options, parameters, directory)
        return _score(found, options)
    except KeyboardInterrupt:
        kept = f"; the same command goes on with what is in {directory}" if options.resume else ""
        print(f"stopped{kept}", file=sys.stderr)
        return 130
    finally:
        if options.resume is None:
            shutil.rmtree(directory, ignore_errors=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.box", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    results.arguments(parser)
    parser.add_argument("--seeds", "--seed", type=_seeds, default=None, help="as 1-20 or 3,7 (1-20; quick: 1)")
    parser.add_argument("--parameters", type=Path, default=DEFAULT, help="the workload's parameters")
    parser.add_argument(
        "--time-scale", type=float, default=None, help="how many times as fast as it is told (30; quick: 60)"
    )
    parser.add_argument(
        "--processes", type=int, default=BoxSettings.processes, help="nodes with an exporter's process of their own (1)"
    )
    usual = BoxSettings()
    for name, about in (
        ("interval", "seconds between two scrapes"),
        ("read-interval", "seconds between two readings of NVML"),
        ("pass-interval", "seconds between two passes of the alerter"),
    ):
        value = getattr(usual, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=float, default=value, help=f"{about}, at full length ({value:g})")
    parser.add_argument("--resume", type=Path, help="keep outcomes here, and play what has none yet")
    parser.add_argument("--score", action="store_true", help="score what is kept, and play nothing")
    parser.add_argument("--late", action="store_true", help="score also what this machine was too slow for")
    options = parser.parse_args(arguments)
    options.seeds = options.seeds or ([1] if options.quick else list(SEEDS))
    options.time_scale = options.time_scale or (QUICK_SCALE if options.quick else BoxSettings.time_scale)
    if options.score and options.resume is None:
        parser.error("--score needs --resume: where the outcomes are")
    return options


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of seeds: write it like 1-20 or 3,7")
        found += range(int(first), int(last) + 1)
    return found


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


def _all(options: argparse.Namespace, parameters: Parameters, directory: Path) -> list[tuple[Scenario, Played]]:
    """Every seed's outcome, played where there is none."""
    found: list[tuple[Scenario, Played]] = []
    settings = _settings(options, parameters.fleet.nodes)
    like = None if options.score else _outline(0, "", "", settings)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        for seed in options.seeds:
            scenario = plan(parameters, seed)
            path = directory / f"seed-{seed}.json"
            kept = _kept(path, scenario, like)
            if not options.score and (kept is None or (kept.spoilt() and not options.late)):
                task = bar.add_task(f"seed {seed}: {len(scenario.jobs)} jobs", total=scenario.length)
                if not console.is_terminal:
                    print(f"seed {seed}: {len(scenario.jobs)} jobs", file=sys.stderr, flush=True)
                kept = _play(scenario, settings, directory, bar, task)
                for note in kept.observed.notes:
                    bar.console.print(f"seed {seed}: {note}")
                if kept.spoilt():
                    bar.console.print(f"seed {seed} does not count: this machine is too slow, see --time-scale")
                write(path, kept)
            if kept is not None:
                like = like or kept
                found.append((scenario, kept))
    return found


def _kept(path: Path, scenario: Scenario, like: Played | None) -> Played | None:
    """The outcome of this very scenario, if there is one that was made as `like` was."""
    if not path.exists():
        return None
    try:
        kept = read(path)
    except ValueError as error:
        print(f"left out: {error}", file=sys.stderr)
        return None
    if why := kept.unlike(like, scenario):
        print(f"left out: {path} is {why}", file=sys.stderr)
        return None
    return kept


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
    digests = {"chain": code(CHAIN), "jobs": code(JOBS)}
    return Played(seed, scenario, parameters, settings.numbers, Observed((), (), {}), **digests, commit=results.ours())


def _play(scenario: Scenario, settings: BoxSettings, directory: Path, bar: Progress, task: Any) -> Played:
    seed = scenario.seed
    own = directory / f"seed-{seed}"
    if own.exists():
        shutil.rmtree(own)
    own.mkdir()

    def tell(at: float, what: str) -> None:
        text = f"seed {seed}: {what}" if what else f"seed {seed}: {len(scenario.jobs)} jobs"
        bar.update(task, completed=max(0.0, at), description=text)

    outline = _outline(seed, digest(scenario), scenario.parameters, settings)
    observed = play(scenario, courses=course, directory=own, settings=settings, progress=tell)
    costs = json.loads((own / "costs.json").read_text())
    shutil.rmtree(own / "prometheus" / "data", ignore_errors=True)
    return replace(outline, observed=observed, cores=costs["cores"], pace=msgspec.convert(costs["pace"], Pace))


def _score(found: Sequence[tuple[Scenario, Played]], options: argparse.Namespace) -> int:
    counting = [(scenario, played) for scenario, played in found if options.late or not played.spoilt()]
    show_runs([played for _, played in found])
    if not counting:
        print("there is nothing to score", file=sys.stderr)
        return NOTHING
    whole = scoring.Score()
    for scenario, played in counting:
        whole += scoring.score(scenario, truths(scenario.jobs), played.observed)
    scoring.show(scoring.tables(whole))
    missed = aims(whole)
    results.show(("aim missed",), [(one,) for one in missed or ["none"]], title="\nAims")
    with suppress(BrokenPipeError):
        results.report(rows(whole, counting), options, section="Fleet in a box")
    if options.quick:
        return 0 if _works(whole) else 1
    return 1 if missed else 0


def _works(score: scoring.Score) -> bool:
    """Of a run that is too short for figures: what had to be told was told at all, and no user of it for nothing."""
    jobs = figures.efficiency(score)
    musts = figures.musts(jobs)
    return (not musts or any(one.found for one in musts)) and not any(mail.owner for mail in score.mails)


if __name__ == "__main__":
    sys.exit(main())
