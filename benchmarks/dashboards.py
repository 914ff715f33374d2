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

from benchmarks.cluster.day import DAY, HOUR, USERS, Day, increments
from benchmarks.cluster.fleet import MODEL, Fleet
from dutycycle_dashboards import render
from dutycycle_dashboards.building import links
from tests.dashboards.answers.asking import instant
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.evaluated import RULES
from tests.prometheus.server import PrometheusServer

MIDNIGHT = 1_780_000_000 // DAY * DAY
MOST = 2.0
"""Seconds that a query may take."""
SLOWEST = 12
"""Queries that are printed one by one; of the others the number and the sum."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 GPUs, and 10 days in place of 90")
    parser.add_argument("--gpus", type=int, help="2,000")
    parser.add_argument("--all", action="store_true", help="print every query, not the slowest alone")
    parser.add_argument("--only", choices=("day", "days"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.only != "days":
            a_day(Path(folder) / "day", asked.gpus or (100 if asked.quick else 2000), every=asked.all)
        if asked.only != "day":
            many_days(Path(folder) / "days", 10 if asked.quick else 90, every=asked.all)


def a_day(folder: Path, gpus: int, *, every: bool) -> None:
    day = Day(Fleet(gpus), MIDNIGHT)
    folder.mkdir()
    text, began = folder / "day.om", time.perf_counter()
    samples = day.write(text)
    written = time.perf_counter() - began
    server = PrometheusServer(folder, openmetrics=text)
    text.unlink()
    filled = time.perf_counter() - began - written
    print(
        f"{gpus:,} GPUs, a day, {samples:,} samples: written in {written:.0f} s, backfilled in {filled:.0f} s",
        flush=True,
    )
    chosen = {links.JOB: {"workload": [day.job]}, links.NODE: {"node": [day.node]}}
    with server:
        evaluations(server, day.end)
        boards(server, list(render.dashboards()), day.end, DAY, chosen, every=every)


def many_days(folder: Path, days: int, *, every: bool) -> None:
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
    print(f"{days} days of recorded hours of {USERS} users", flush=True)
    with server:
        boards(server, [links.USERS], end, days * DAY, {}, every=every)


def evaluations(server: PrometheusServer, at: float) -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        each = [timed(partial(instant, server.url, rule["expr"], at)) for rule in group["rules"]]
        print(f"  one evaluation of {group['name']}: {sum(each):.2f} s, its slowest rule {max(each):.2f} s", flush=True)


def boards(
    server: PrometheusServer,
    uids: list[str],
    at: float,
    length: float,
    chosen: dict[str, dict[str, list[str]]],
    *,
    every: bool,
) -> None:
    """Seconds of each query, the median of three."""
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
    for seconds, what in found if every else found[:SLOWEST]:
        print(f"  {seconds:.3f} s  {what}{'  OVER 2 s' if seconds > MOST else ''}")
    over = sum(seconds > MOST for seconds, _ in found)
    print(
        f"  {len(found)} queries, {silent} of them without an answer: {over} over {MOST:g} s, median"
        f" {statistics.median(seconds for seconds, _ in found):.3f} s, all together {sum(s for s, _ in found):.1f} s",
        flush=True,
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
    main()
