"""Plans a run of a fleet: which jobs there are, where and when they run, and what happens to GPUs.

python -m benchmarks.box.plan --seed 1                           a table of what would be played
python -m benchmarks.box.plan --seed 1 --parameters other.toml
python -m benchmarks.box.plan --seed 1 --jobs                    each job, with its conditions
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from . import plan_table, workload
from .faults import faults
from .mechanisms import simulate
from .model import Gpu, Job, Scenario
from .parameters import DEFAULT, Fleet, Parameters, ParametersError, load
from .placing import Pool
from .workload import HOUR, Request

FIRST_JOB = 10_001
SHORTEST = 120.0
"""Seconds before the end of a run after which nothing begins any more."""


def plan(parameters: Parameters, seed: int) -> Scenario:
    """The same for the same parameters and seed at every time. Raises ParametersError where a job has no room."""
    random = np.random.default_rng(seed)
    length = parameters.fleet.hours * HOUR
    pools = _pools(parameters)
    wanted: dict[tuple[str, str], list[Request]] = {kind: [] for kind in pools}
    for request in workload.requests(parameters, random):
        if request.at >= length:
            break
        wanted[_pool_of(request, pools, parameters)].append(request)
    placed = sorted(
        (
            (start, request, gpus, kind)
            for kind, pool in pools.items()
            for request, start, gpus in pool.place(wanted[kind], length - SHORTEST)
        ),
        key=lambda one: (one[0], one[1].at, one[2]),
    )
    jobs = tuple(
        _job(FIRST_JOB + number, request, start, gpus, kind, parameters.fleet)
        for number, (start, request, gpus, kind) in enumerate(placed)
    )
    models = {node: model for (_, model), pool in pools.items() for node in pool.nodes}
    return Scenario(
        seed,
        tuple(sorted(models)),
        parameters.fleet.gpus_per_node,
        length,
        jobs,
        faults(parameters.faults, jobs, length, random),
        parameters.name,
        models,
        parameters.fleet.sample_period,
        parameters.fleet.full,
    )


def _pools(parameters: Parameters) -> dict[tuple[str, str], Pool]:
    """Nodes by scheduler and model."""
    fleet = parameters.fleet
    names = [f"gpu{number + 1:02d}" for number in range(fleet.nodes)]
    split = round(fleet.nodes * (1 - fleet.kubernetes))
    found = {}
    for scheduler, nodes in (("slurm", names[:split]), ("k8s", names[split:])):
        newer = round(len(nodes) * (1 - fleet.older))
        for model, some in (("H100", nodes[:newer]), ("A100", nodes[newer:])):
            if some:
                found[scheduler, model] = Pool(tuple(some), fleet.gpus_per_node)
    return found


def _pool_of(request: Request, pools: Mapping[tuple[str, str], Pool], parameters: Parameters) -> tuple[str, str]:
    """Older nodes get their share of the jobs, except of those that need more nodes than there are of them."""
    wanted = "A100" if request.where < parameters.fleet.older else "H100"
    least = -(-request.gpus // parameters.fleet.gpus_per_node)
    kinds = [
        (scheduler, model)
        for scheduler in (request.scheduler, "slurm", "k8s")
        for model in (wanted, "H100", "A100")
        if (scheduler, model) in pools and len(pools[scheduler, model].nodes) >= least
    ]
    if not kinds:
        raise ParametersError(f"a job of {request.gpus} GPUs fits on none of the fleet's nodes")
    return kinds[0]


def _job(
    number: int, request: Request, start: float, gpus: tuple[Gpu, ...], kind: tuple[str, str], fleet: Fleet
) -> Job:
    scheduler, model = kind
    nodes = len({node for node, _ in gpus})
    return Job(
        number,
        request.user,
        request.account,
        request.partition,
        request.mechanism,
        request.parameters,
        request.mixed,
        request.seed,
        start,
        min(fleet.hours * HOUR, start + request.seconds),
        gpus,
        scheduler,
        max(1, request.cores_per_gpu * request.gpus // nodes),
        model,
        fleet.sample_period,
    )


def main(arguments: list[str] | None = None) -> int:
    """Prints a plan, and what is true of it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.box.plan",
        description=main.__doc__,
        epilog=__doc__.split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parameters", type=Path, default=DEFAULT, help="file of parameters (%(default)s)")
    parser.add_argument("--jobs", action="store_true", help="each job, with its conditions")
    options = parser.parse_args(arguments)
    try:
        scenario = plan(load(options.parameters), options.seed)
    except (ParametersError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    console = Console(stderr=True)
    tracked = track(scenario.jobs, "playing jobs", console=console, transient=True, disable=not console.is_terminal)
    truths = ((job, simulate(job).truth) for job in tracked)
    for line in plan_table.jobs(truths) if options.jobs else plan_table.table(scenario, truths):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
