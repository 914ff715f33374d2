"""What a number of runs were: how each of them fared, and under what the figures of all are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks import results
from benchmarks.results import Row

from . import scoring
from .model import Scenario
from .options import SEEDS
from .played import Played
from .rules import HOUR
from .seeds import Seed, counting, summary


def show_runs(found: Sequence[Played]) -> None:
    """Also those that do not count, and why."""
    cores = [by_kind(played.cores) for played in found]
    names = sorted({name for taken in cores for name in taken})
    lines = [
        (
            played.seed,
            f"{played.settings['time_scale']:g}",
            *(f"{taken[name]:.2f}" if name in taken else None for name in names),
            f"{played.pace.late:.1%}",
            f"{played.pace.passes_made:.0%}",
            "; ".join(played.spoilt()) or None,
        )
        for played, taken in zip(found, cores, strict=True)
    ]
    header = ("seed", "time scale", *names, "late", "passes of due", "does not count, as")
    results.show(header, lines, title="\nCores that each kind of process kept busy")


def by_kind(cores: Mapping[str, float]) -> Mapping[str, float]:
    """Cores of all processes together that differ in a number only."""
    found: dict[str, float] = {}
    for name, taken in cores.items():
        kind = name.rstrip("-0123456789")
        found[kind] = found.get(kind, 0.0) + taken
    return found


def rows(score: scoring.Score, seeds: Sequence[Seed]) -> list[Row]:
    """The score's own, and how it came about; with the versions that were played, and that which scored them where it
    is another one.
    """
    found = counting(seeds)
    kept = [_how(seeds), *scoring.rows(score, found[0][0].parameters)]
    parts = ", ".join(dict.fromkeys(played.made.parts for _, played in found))
    commits = list(dict.fromkeys(played.made.commit for _, played in found))
    scored_by = results.ours()
    ours = ", ".join(commits) + ("" if scored_by in commits else f", scored by {scored_by.removeprefix('dutycycle ')}")
    day = max(played.made.day for _, played in found)
    return [replace(row, versions=row.versions or parts, ours=ours, day=day) for row in kept]


def _how(seeds: Sequence[Seed]) -> Row:
    """All were played with the same settings, but for how fast."""
    found = counting(seeds)
    scenario, played = found[0]
    settings = played.settings
    nodes, real = len(scenario.nodes), round(settings["processes"])
    pace = [one.pace for _, one in found]
    scales = sorted({one.settings["time_scale"] for _, one in found})
    fast = f"{scales[0]:g}" if len(scales) == 1 else f"{scales[0]:g} to {scales[-1]:g}"
    jobs, hours = sum(len(one.jobs) for one, _ in found), sum(_gpu_hours(one) for one, _ in found)
    figure = (
        f"{summary(seeds, len(SEEDS))}; {jobs:,} jobs with {hours:,.0f} GPU-hours on {nodes} nodes of "
        f"{scenario.gpus_per_node} GPUs, {real} of them with an exporter's process on the NVML double, the others of "
        f"the exporter's own parts; read every {settings['read_interval']:g} s, scraped every "
        f"{settings['interval']:g} s, a pass every {settings['pass_interval']:g} s, {fast} times as fast; at worst "
        f"{min(one.passes_made for one in pace):.0%} of the passes were made, and something was overdue for "
        f"{max(one.late for one in pace):.1%} of the time"
    )
    return Row(f"fleet in a box, {scenario.parameters}: what was played", figure)


def _gpu_hours(scenario: Scenario) -> float:
    return sum(len(job.gpus) * (job.end - job.start) for job in scenario.jobs) / HOUR
