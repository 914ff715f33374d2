"""The site around the nodes: a real Prometheus and PostgreSQL, two `dutycycle serve`, and what each process takes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.site import BIN, Process
from tests.ports import AlerterAddresses
from tests.postgres.server import PostgresServer
from tests.prometheus.server import PrometheusServer

from .model import Job
from .nodes.settings import NodeSettings
from .sinks import Sinks

REPLICAS = ("a", "b")
_FEWER_COLLECTIONS = {"GOGC": "400"}
"""Of Prometheus' garbage: it takes a fifth less of the processors so, of which the box wants all."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Alerter(Process):
    """`dutycycle serve`, one of two on the same database."""

    def __init__(self, name: str, directory: Path, settings: Mapping[str, Any]) -> None:
        addresses = AlerterAddresses.free()
        self.url = addresses.url()
        self._metrics = addresses.url("/metrics")
        config = directory / f"alerter-{name}.yaml"
        web = {**addresses.settings, "public_url": self.url}
        config.write_text(yaml.safe_dump({"replica": name, "web": web, **settings}))
        command = [str(BIN / "dutycycle"), "serve", "--config", str(config), "--log-level", "info"]
        super().__init__(f"alerter-{name}", command, directory, {})

    def metrics(self) -> dict[tuple[str, str], float]:
        """Its own, by name and task."""
        with urllib3.PoolManager(retries=False, timeout=30.0) as pool:
            page = pool.request("GET", self._metrics).data.decode()
        return {
            (sample.name, sample.labels.get("task", "")): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }


@dataclass(frozen=True)
class Site:
    """What runs around the nodes, as long as it is `running`."""

    sinks: Sinks
    postgres: PostgresServer
    prometheus: PrometheusServer
    database: str
    alerters: Sequence[Alerter]

    def check(self) -> None:
        """Raises where one of its processes has died."""
        for alerter in self.alerters:
            if not alerter.alive:
                raise RuntimeError(f"{alerter.name} has died:\n{alerter.log()[-4000:]}")

    def serves(self) -> bool:
        """Whether all alerters answer; the one that stands by may come up after the first pass of the other."""
        self.check()
        try:
            return all(alerter.metrics() for alerter in self.alerters)
        except urllib3.exceptions.HTTPError:
            return False

    @property
    def processes(self) -> dict[str, int]:
        """Process ids."""
        postgres = self.postgres._processes()[0]  # noqa: SLF001 - a test's own
        alerters = {alerter.name: alerter.pid for alerter in self.alerters}
        return {"prometheus": self.prometheus.pid, "postgres": postgres, **alerters}


@contextmanager
def running(
    directory: Path, targets: Mapping[str, str], nodes: NodeSettings, rest: Mapping[str, Any], owner_hours: float
) -> Iterator[Site]:
    """`targets` are the nodes' pages, "HOST:PORT" by node; `rest` are the alerters' settings that do not depend on
    where things are. Users are mailed from so many wasted GPU-hours on.
    """
    with ExitStack() as stack:
        sinks = stack.enter_context(Sinks())
        postgres = stack.enter_context(PostgresServer())
        database = postgres.url(postgres.create())
        interval = f"{round(1000 * nodes.interval / nodes.time_scale)}ms"
        prometheus = stack.enter_context(
            PrometheusServer(
                directory / "prometheus", targets=targets.values(), interval=interval, environment=_FEWER_COLLECTIONS
            )
        )
        settings = {
            "time_scale": nodes.time_scale,
            "database": database,
            "prometheus": {"url": prometheus.url, "scrape_interval": f"{nodes.interval:g}s"},
            "notify": sinks.settings(owner_hours),
            **rest,
        }
        alerters = []
        for name in REPLICAS:
            alerter = Alerter(name, directory, settings)
            stack.callback(alerter.stop)
            alerters.append(alerter.start())
        yield Site(sinks, postgres, prometheus, database, alerters)


def kinds(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Which jobs are no batch jobs: a Slurm job by its partition; a pod has none, and is named itself."""
    found: list[dict[str, Any]] = []
    for kind in ("interactive", "serving"):
        found.append({"partition": kind, "kind": kind})
        pods = [f"k8s/{job.user}/{job.pod}/*" for job in jobs if job.scheduler != "slurm" and job.partition == kind]
        if pods:
            found.append({"workload": pods, "kind": kind})
    return found


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """What processes, and those below them, have taken so far; those that have ended left out."""
    parents = dict(_parents())
    found: dict[str, float] = {}
    for name, pid in pids.items():
        family = {pid}
        for child in sorted(parents):
            if parents[child] in family:
                family.add(child)
        known = [seconds for one in family if (seconds := _cpu(one)) is not None]
        if known:
            found[name] = sum(known)
    return found


def _parents() -> list[tuple[int, int]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                found.append((int(entry.name), int(fields[1])))
    return found


def _cpu(pid: int) -> float | None:
    """Of a process and of its children that have ended."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICKS if fields else None


def _stat(pid: int) -> list[str]:
    """The fields after its name."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
