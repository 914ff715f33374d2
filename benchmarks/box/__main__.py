"""A fleet in a box: plays seeds of a workload with known truth on a real site, and scores what was told.

Nodes with their exporters (real processes on the NVML double for the first `--processes` of them, one process that
serves all others from the exporter's own service and pages), a real Prometheus and PostgreSQL, two alerters, mail and
Slack; everything runs `--time-scale` times as fast as it is told. Each seed's outcome is kept in a file of `--resume`,
so that a long run can be stopped, goes on where it was, and can be scored again.

Needs gcc, Prometheus and PostgreSQL (`make` installs the latter two). A seed of 256 GPUs takes about one and a half
cores at 60 times; where that is not to be had, passes and scrapes come late, and the run says so.

Examples:
  python -m benchmarks.box --quick
  python -m benchmarks.box --seeds 1-20 --resume runs                 # 6.5 hours each: two and a half hours in all
  python -m benchmarks.box --seeds 3,7 --time-scale 30 --processes 2
  python -m benchmarks.box --seeds 1-20 --parameters theirs.toml --resume theirs
  python -m benchmarks.box --seeds 1-20 --resume runs --score         # what there is, without playing
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

import pytest
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from benchmarks import results
from tests.fakes.nvml import find_gcc
from tests.postgres.server import program as postgres_program
from tests.prometheus.server import program as prometheus_program

from .model import Scenario
from .parameters import DEFAULT, Parameters, ParametersError, load
from .plan import plan
from .play import NOT_ALL, BoxSettings, play
from .played import Played, Simulating, digest, read, write

QUICK_NODES, QUICK_GPUS, QUICK_HOURS, QUICK_SCALE = 4, 4, 1.5, 60.0
PRECISION, RECALL, CAUSES = 0.99, 0.98, 0.9
"""What is aimed at."""

TOO_LATE = 0.2
"""Share of the time in which something was overdue from which on a run says nothing of what was played."""


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
    parser.add_argument("--seeds", "--seed", type=_seeds, default=None, help="as 1-20 or 3,7 (1)")
    parser.add_argument("--parameters", type=Path, default=DEFAULT, help="the workload's parameters")
    parser.add_argument("--time-scale", type=float, default=None, help="how many times as fast as it is told (60)")
    parser.add_argument(
        "--processes", type=int, default=None, help="nodes with an exporter's process of their own (none; quick: 1)"
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
    options = parser.parse_args(arguments)
    options.seeds = options.seeds or [1]
    options.time_scale = options.time_scale or (QUICK_SCALE if options.quick else BoxSettings.time_scale)
    options.processes = int(options.quick) if options.processes is None else options.processes
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
    found = []
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        for seed in options.seeds:
            scenario = plan(parameters, seed)
            path = directory / f"seed-{seed}.json"
            kept = _kept(path, scenario)
            if kept is None and not options.score:
                task = bar.add_task(f"seed {seed}: {len(scenario.jobs)} jobs", total=scenario.length)
                if not console.is_terminal:
                    print(f"seed {seed}: {len(scenario.jobs)} jobs", file=sys.stderr, flush=True)
                kept = _play(seed, scenario, options, directory, bar, task)
                for note in kept.observed.notes:
                    bar.console.print(f"seed {seed}: {note}")
                if kept.observed.late > TOO_LATE or NOT_ALL in kept.observed.notes:
                    bar.console.print(f"seed {seed} counts for nothing: this machine is too slow, see --time-scale")
                    continue
                write(path, kept)
            if kept is not None:
                found.append((scenario, kept))
    return found


def _kept(path: Path, scenario: Scenario) -> Played | None:
    """The outcome of this very scenario, if there is one."""
    if not path.exists():
        return None
    try:
        kept = read(path)
    except ValueError as error:
        print(f"left out: {error}", file=sys.stderr)
        return None
    if kept.scenario != digest(scenario):
        print(f"left out: {path} is of another plan than today's", file=sys.stderr)
        return None
    return kept


def _play(
    seed: int, scenario: Scenario, options: argparse.Namespace, directory: Path, bar: Progress, task: object
) -> Played:
    own = directory / f"seed-{seed}"
    if own.exists():
        shutil.rmtree(own)
    truths = own / "truths"
    truths.mkdir(parents=True)
    courses = Simulating(truths)

    def tell(at: float, what: str) -> None:
        text = f"seed {seed}: {what}" if what else f"seed {seed}: {len(scenario.jobs)} jobs"
        bar.update(task, completed=max(0.0, at), description=text)  # type: ignore[arg-type]

    settings = BoxSettings(
        time_scale=options.time_scale,
        processes=min(options.processes, len(scenario.nodes)),
        interval=options.interval,
        read_interval=options.read_interval,
        pass_interval=options.pass_interval,
    )
    observed = play(scenario, courses=courses, directory=own, settings=settings, progress=tell)
    costs = json.loads((own / "costs.json").read_text())["cores"]
    shutil.rmtree(own / "prometheus" / "data", ignore_errors=True)
    played = Played(
        seed,
        digest(scenario),
        scenario.parameters,
        settings.numbers,
        courses.truths(),
        observed,
        costs,
    )
    shutil.rmtree(truths)
    return played


def _score(found: Sequence[tuple[Scenario, Played]], options: argparse.Namespace) -> int:
    from . import scoring  # noqa: PLC0415 - a run that is only played does without

    if not found:
        print("there is nothing to score", file=sys.stderr)
        return 2
    whole = scoring.Score()
    for scenario, played in found:
        whole += scoring.score(scenario, played.truths, played.observed)
    scoring.show(scoring.tables(whole))
    _show_costs([played for _, played in found])
    with suppress(BrokenPipeError):
        results.report(scoring.rows(whole), options, section="Fleet in a box")
    return 0 if _reached(whole) or options.quick else 1


def _show_costs(found: Sequence[Played]) -> None:
    names = sorted({name for played in found for name in played.cores})
    rows = [
        (
            played.seed,
            f"{played.settings['time_scale']:g}",
            *(_cores(played, name) for name in names),
            f"{played.observed.late:.1%}",
        )
        for played in found
    ]
    results.show(("seed", "time scale", *names, "late"), rows, title="\nCores that each process kept busy")


def _cores(played: Played, name: str) -> str | None:
    return f"{played.cores[name]:.2f}" if name in played.cores else None


def _reached(score: object) -> bool:
    """Whether the aims are reached where there is something to judge."""
    from .scoring import figures  # noqa: PLC0415 - as above

    jobs = figures.efficiency(score)  # type: ignore[arg-type]
    shares = (
        (figures.precision(jobs), PRECISION),
        (figures.recall(jobs), RECALL),
        (figures.cause_accuracy(jobs), CAUSES),
    )
    return all(share.value is None or share.value >= aim for share, aim in shares) and not any(
        mail.owner for mail in jobs.mails
    )


if __name__ == "__main__":
    sys.exit(main())
