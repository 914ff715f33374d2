"""Every query of every dashboard over a real Prometheus: 2,000 GPUs, a day with a sample a minute, 300 users.

No query should take more than 2 s. What the recording rules take for one evaluation is printed, too, and the board of
users over 90 days of recorded hours.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import yaml

from benchmarks import results
from benchmarks.cluster.day import DAY, HOUR, USERS, Day, increments
from benchmarks.cluster.fleet import MODEL, Fleet
from benchmarks.interruptible import run_until_interrupted
from benchmarks.results import Row, command_version
from dutycycle_dashboards import render
from dutycycle_dashboards.building import links
from tests.dashboards.answers.asking import instant
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.evaluated import RULES
from tests.prometheus.server import PrometheusServer, program

MIDNIGHT = 1_780_000_000 // DAY * DAY
MOST = 2.0
"""Seconds that a query may take."""
SLOWEST = 12
"""Queries that are printed one by one; of the others the number and the sum."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    results.arguments(parser)
    parser.add_argument("--gpus", type=int, help="2,000")
    parser.add_argument("--all", action="store_true", help="print every query, not the slowest alone")
    parser.add_argument("--only", choices=("day", "days"))
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if asked.only != "days":
            rows += a_day(Path(folder) / "day", asked.gpus or (100 if asked.quick else 2000), every=asked.all)
        if asked.only != "day":
            rows.append(many_days(Path(folder) / "days", 10 if asked.quick else 90, every=asked.all))
    results.report(rows, asked)


def a_day(folder: Path, gpus: int, *, every: bool) -> list[Row]:
    day = Day(Fleet(gpus), MIDNIGHT)
    folder.mkdir()
    text = folder / "day.om"
    samples = day.write(text)
    server = PrometheusServer(folder, openmetrics=text)
    text.unlink()
    of = f"a Prometheus of {gpus:,} GPUs, a day ({samples / 1e6:.1f} million samples, one a minute)"
    chosen = {links.JOB: {"workload": [day.job]}, links.NODE: {"node": [day.node]}}
    with server:
        rules = evaluations(server, day.end)
        queries = boards(server, list(render.dashboards()), day.end, DAY, chosen, every=every)
    return [
        Row(f"every query of all dashboards over {of}, over 24 h, median of 3", queries, versions=_engine()),
        Row(f"one evaluation of the recording rules over {of}", rules, versions=_engine()),
    ]


def many_days(folder: Path, days: int, *, every: bool) -> Row:
    end = MIDNIGHT + DAY
    times = range(end - days * DAY + HOUR, end, HOUR)
    owner = {"cluster": "bench", "scheduler": "slurm", "model": MODEL}
    owners = [
        {**owner, "user": f"user{n}", "account": f"project{n % 60}", "partition": f"gpu{n % 4}"} for n in range(USERS)
    ]
    folder.mkdir()
    text = folder / "days.om"
    with text.open("w") as file:
        file.writelines(increments(owners, times, "1h"))
        file.write("# EOF\n")
    server = PrometheusServer(folder, openmetrics=text, block="5000h")
    text.unlink()
    with server:
        queries = boards(server, [links.USERS], end, days * DAY, {}, every=every)
    what = f"the users' board over {days} days of recorded hours of {USERS} users, median of 3"
    return Row(what, queries, versions=_engine())


def _engine() -> str:
    return command_version(program("prometheus"))


def evaluations(server: PrometheusServer, at: float) -> str:
    """How long each group takes."""
    told = []
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        each = [timed(partial(instant, server.url, rule["expr"], at)) for rule in group["rules"]]
        told.append(f"{group['name']} {sum(each):.2f} s, its slowest rule {max(each):.2f} s")
    return "; ".join(told)


def boards(
    server: PrometheusServer,
    uids: list[str],
    at: float,
    length: float,
    chosen: dict[str, dict[str, list[str]]],
    *,
    every: bool,
) -> str:
    """Shows the seconds of each query, the median of three; returns what is to be said of all."""
    found: list[tuple[float, str]] = []
    silent = 0
    for uid in uids:
        dashboard = Dashboard(server.url, render.dashboards()[uid], at - length, at, chosen.get(uid))
        for panel in dashboard.panels():
            for target in panel["targets"]:
                seconds = timed(partial(dashboard.ask, panel, target))
                silent += not dashboard.ask(panel, target)
                found.append((seconds, f"{uid} / {panel['title']} {target['refId']}"))
    found.sort(reverse=True)
    results.show(
        ("s", "query", ""),
        [
            (f"{seconds:.3f}", what, f"OVER {MOST:g} s" if seconds > MOST else "")
            for seconds, what in (found if every else found[:SLOWEST])
        ],
        title="all queries" if every else f"the slowest {SLOWEST} of {len(found)} queries",
    )
    over = sum(seconds > MOST for seconds, _ in found)
    slowest = ", ".join(f"{what} {seconds:.2f} s" for seconds, what in found[:3])
    return (
        f"{len(found)} queries, {sum(s for s, _ in found):.1f} s all together, median"
        f" {1000 * statistics.median(seconds for seconds, _ in found):.0f} ms, {over or 'none'} over {MOST:g} s;"
        f" slowest: {slowest}; {silent} had no answer there"
    )


def timed(ask: Callable[[], object], times: int = 3) -> float:
    """The median."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
