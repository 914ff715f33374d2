"""Passes of the alerter in a process of its own: what each took, and where. Prints JSON, one line a pass."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from pathlib import Path

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings import Prometheus, Settings
from dutycycle_alerter.sources.prometheus.source import PrometheusSource
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import Database, open_database


def settings_of(url: str, interval: float) -> Settings:
    """The configuration that is measured: the defaults, at this scrape interval."""
    return Settings.model_validate({"prometheus": {"url": url, "scrape_interval": interval, "timeout": 600}}).scaled()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--at", type=float, required=True)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--one-core", action="store_true")
    asked = parser.parse_args()
    if asked.one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    settings = settings_of(asked.url, asked.interval)
    database = open_database(f"sqlite:///{asked.store}", time_scale=settings.time_scale)
    client = Client(settings.prometheus or Prometheus())
    source = PrometheusSource(settings, database, client)
    now = asked.at
    reached: dict[str, tuple[float, float]] = {}
    engine = Engine(
        settings,
        source,
        database,
        lambda: now,
        reached=lambda step: reached.update({step: (time.perf_counter(), time.process_time())}),
    )
    source.restore()
    for number in range(asked.passes):
        now = asked.at + 60.0 * number
        queries, waited, size = client.queries, client.seconds, client.bytes
        engine.run_pass()
        [target] = source.targets()
        print(
            json.dumps(
                {
                    "wall": reached["done"][0] - reached["begun"][0],
                    "cpu": reached["done"][1] - reached["begun"][1],
                    "reading": reached["read"][1] - reached["begun"][1],
                    "judging": reached["judged"][1] - reached["read"][1],
                    "writing": reached["done"][1] - reached["judged"][1],
                    "queries": client.queries - queries,
                    "waited": client.seconds - waited,
                    "bytes": client.bytes - size,
                    "resident": _resident(),
                    "peak": _peak(),
                    "error": target.error,
                    "open": _open(database),
                }
            ),
            flush=True,
        )
    source.close()
    client.close()


def _open(database: Database) -> int:
    with database.read() as connection:
        return len(incidents.active(connection))


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def _peak() -> float:
    """Of this program alone: what getrusage says begins with the size of the process that started it."""
    found = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[0]) * 1024 / 1e6


if __name__ == "__main__":
    main()
