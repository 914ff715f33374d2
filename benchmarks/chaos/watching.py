"""Looks at the site all the time, as a monitor beside it: the store, every page, every process; and at itself."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self

import psycopg
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from .alerters import Replica
from .machines import Machine
from .processes import Program
from .promises.bounds import PATIENCE
from .record import AlerterPage, Ended, ExporterPage, Firing, Look
from .site import Site

STORE_EVERY = 0.3
FIRING_EVERY = 1.0
PAGES_EVERY = 2.0
ALERTERS_ANSWER = 10.0
"""Wall seconds within which an alerter's page, for which it asks its database, is to be there."""
_STALL = 1.0

_ACTIVE = "SELECT subject, kind, array_agg(id ORDER BY id) FROM incident WHERE state <> 'resolved' GROUP BY 1, 2"
_INSTANCE = re.compile(r'^gpu_info\{[^\n]*\bmig="([^"]+)"', re.MULTILINE)
_LEASE = "SELECT holder, epoch FROM lease"


class Watcher:
    """A context manager; threads while it lasts."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._every, args=(STORE_EVERY, self._look), name="looks", daemon=True),
            threading.Thread(target=self._every, args=(PAGES_EVERY, self._ask), name="pages", daemon=True),
            threading.Thread(target=self._every, args=(FIRING_EVERY, self._fire), name="firing", daemon=True),
            threading.Thread(target=self._feel, name="stalls", daemon=True),
        ]
        self._pool = ThreadPoolExecutor(4)
        self.looks: list[Look] = []
        self.firing: list[Firing] = []
        self.alerts: set[tuple[str, str]] = set()
        """What every alert said that Alertmanager showed, and whose it was."""
        self.exporters: list[ExporterPage] = []
        self.alerters: list[AlerterPage] = []
        self.ended: list[Ended] = []
        self.stalls: list[tuple[float, float]] = []
        self.failures: list[str] = []
        """What went wrong in the watching itself."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown()

    def _every(self, seconds: float, what: Callable[[], None]) -> None:
        while not self._stopping.wait(seconds):
            try:
                what()
            except (OSError, psycopg.Error):
                continue  # whom it asks may be away: that is what this is for
            except Exception as error:  # noqa: BLE001 - told at the end
                self.failures.append(f"{what.__name__}: {error!r}")

    def _feel(self) -> None:
        before = time.time()
        while not self._stopping.wait(0.1):
            now = time.time()
            if now - before > _STALL:
                self.stalls.append((before, now))
            before = now

    def _look(self) -> None:
        server = self._site.database.server
        where = f"host={server.directory} port={server.port} user=admin dbname={self._site.database.name}"
        with psycopg.connect(where, connect_timeout=2, options="-c statement_timeout=2000") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            active = tuple((subject, kind, tuple(numbers)) for subject, kind, numbers in connection.execute(_ACTIVE))
            lease = connection.execute(_LEASE).fetchone() or ("", 0)
        self.looks.append(Look(time.time(), active, lease[0], lease[1]))

    def _fire(self) -> None:
        """What fires, as whoever asks Alertmanager past all faults of the network sees it."""
        began = time.time()
        alerts = self._site.receivers.alertmanager.alerts()
        at = time.time()
        self.firing.append(Firing(at, at - began, tuple(sorted(alert.incident for alert in alerts))))
        self.alerts.update((f"alert of incident {alert.incident}", alert.text) for alert in alerts)

    def _ask(self) -> None:
        machines = [self._pool.submit(exporter_page, one) for one in self._site.machines.values()]
        replicas = [self._pool.submit(alerter_page, one) for one in self._site.replicas.values()]
        self.exporters += [page.result() for page in machines]
        self.alerters += [page.result() for page in replicas]
        for program in self._site.programs:
            if program.ended_by_itself():
                self.ended.append(_ended(program))
        self.failures += self._site.receivers.hook.take_failures()
        self._site.supervise()


def exporter_page(machine: Machine) -> ExporterPage:
    """What an exporter says now."""
    at, began = time.time(), time.monotonic()
    page = ExporterPage(machine.name, at, 0.0, 0)
    try:
        status, text = machine.get("/metrics", timeout=PATIENCE)
        page = replace(_read_exporter(page, text) if status == 200 else page, status=status)
    except (OSError, ValueError):  # what ends in its midst is no answer
        return replace(page, took=time.monotonic() - began)
    try:
        alive, why = machine.get("/-/healthy", timeout=PATIENCE)
    except OSError:
        alive, why = 0, ""
    return replace(page, alive=alive, why=why, took=time.monotonic() - began)


def _read_exporter(page: ExporterPage, text: str) -> ExporterPage:
    """The page with what its text says. Raises ValueError where that is cut."""
    page = replace(page, utilizations=text.count("\ngpu_utilization_ratio{"))
    page = replace(page, instances=frozenset(_INSTANCE.findall(text)))
    for line in text.splitlines():
        if line.startswith("gpu_visible{"):
            page = replace(page, visible=_value(line))
        elif 'collector="nvml"' in line and line.startswith("dutycycle_exporter_collector_success{"):
            page = replace(page, success=_value(line))
        elif 'collector="nvml"' in line and line.startswith("dutycycle_exporter_collector_age_seconds{"):
            page = replace(page, age=_value(line))
        elif 'collector="kubelet"' in line and line.startswith("dutycycle_exporter_collector_success{"):
            page = replace(page, kubelet=_value(line))
        elif line.startswith("dutycycle_exporter_child_restarts_total{"):
            page = replace(page, restarts=page.restarts + _value(line))
    return page


def alerter_page(replica: Replica) -> AlerterPage:
    """What an alerter says of itself now."""
    at, began = time.time(), time.monotonic()
    try:
        status, text = replica.get("/metrics", timeout=ALERTERS_ANSWER)
        took = time.monotonic() - began
        read = text_string_to_metric_families(text) if status == 200 else ()
        families = [one for one in read if one.name.startswith("dutycycle_")]
    except (OSError, ValueError):  # what ends in its midst is no answer
        return AlerterPage(replica.name, at, time.monotonic() - began, 0)
    if status != 200:
        return AlerterPage(replica.name, at, took, status)
    samples = {
        (sample.name, sample.labels.get("target", next(iter(sample.labels.values()), ""))): sample.value
        for family in families
        if family.name.startswith("dutycycle_alerter_")
        for sample in family.samples
    }
    return AlerterPage(
        replica=replica.name,
        at=at,
        took=took,
        status=status,
        leads=samples.get(("dutycycle_alerter_leader", "")) == 1,
        epoch=samples.get(("dutycycle_alerter_lease_epoch", ""), 0.0),
        store=samples.get(("dutycycle_alerter_store_up", "")) == 1,
        last_pass=samples.get(("dutycycle_alerter_last_pass_timestamp_seconds", ""), 0.0),
        sources={
            "prometheus" if target.startswith("https://") else target: value
            for (name, target), value in samples.items()
            if name == "dutycycle_alerter_source_up"
        },
        watch_failures=_watch_failures(families),
        failing={
            sample.labels["receiver"]: sample.value
            for family in families
            for sample in family.samples
            if sample.name == "dutycycle_receiver_failing_seconds"
        },
    )


def _watch_failures(families: Iterable[Metric]) -> dict[str, float]:
    """By source, whatever was the reason; 0 of one that is watched and never failed."""
    found: dict[str, float] = {}
    for sample in (sample for family in families for sample in family.samples):
        if sample.name in ("dutycycle_alerter_watch_events_total", "dutycycle_alerter_watch_failures_total"):
            failed = sample.value if sample.name.endswith("failures_total") else 0.0
            source = sample.labels["source"].partition(" ")[0].partition("/")[0]
            found[source] = found.get(source, 0.0) + failed
    return found


def _value(line: str) -> float:
    return float(line.rpartition(" ")[2])


def _ended(program: Program) -> Ended:
    return Ended(program.name, time.time(), program.log()[-2000:])
