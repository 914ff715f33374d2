"""Two alerters as they run in production, on one real PostgreSQL: one evaluates, both answer, and whatever happens to
the one that evaluates the other goes on, with the same incident and nothing counted twice.

The clock of one of them is five minutes ahead, and its way to the database can be cut.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import urllib3
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dutycycle_alerter.incidents.model import EventKind
from dutycycle_alerter.store.reader import StoreReader, open_reader
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter, serving
from tests.alerter.test_engine_killed import check_history
from tests.e2e.site import Process, wait_for
from tests.ports import AlerterAddresses
from tests.postgres.proxy import Proxy
from tests.postgres.server import PostgresServer

TIME_SCALE = 80.0
PASS = 6.0
"""Wall seconds between passes."""

LENGTH = PASS
"""Wall seconds of a lease. Who is kept from the processor for so long loses it, as it has to."""

LOOK = 0.05
"""Wall seconds between looks at the store."""

SCRAPE = 0.5

AHEAD = 300.0
PATIENCE = 240.0

SERVE = """
import faulthandler, signal, sys, time
faulthandler.register(signal.SIGUSR1)
true, ahead = time.time, float(sys.argv.pop(1))
time.time = lambda: true() + ahead
from dutycycle_alerter.cli import main
main()
"""


class Replica(Process):
    """`dutycycle serve` on a machine whose clock is `ahead` seconds ahead."""

    def __init__(self, name: str, directory: Path, database: str, target: str, *, ahead: float = 0.0) -> None:
        self.addresses = AlerterAddresses.free()
        config = directory / f"{name}.yaml"
        scrape = f"{SCRAPE * TIME_SCALE:g}s"
        settings = {
            "replica": name,
            "database": database,
            "time_scale": TIME_SCALE,
            "source": {"targets": [target], "interval": scrape, "resolution": scrape},
            "schedule": {"pass_interval": f"{PASS * TIME_SCALE:g}s"},
            "web": self.addresses.settings,
        }
        config.write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-c", SERVE, str(ahead), "serve", "--config", str(config), "--log-level", "info"]
        super().__init__(name, command, directory, {})

    def page(self, path: str) -> str:
        with urllib3.PoolManager(retries=False, timeout=60.0) as pool:
            return pool.request("GET", self.addresses.url(path)).data.decode()

    def status(self) -> dict[str, Any]:
        with urllib3.PoolManager(retries=False, timeout=60.0) as pool:
            found: dict[str, Any] = pool.request("GET", self.addresses.url("/api/v1/status")).json()
        return found

    def metric(self, name: str, **labels: str) -> float | None:
        for family in text_string_to_metric_families(self.page("/metrics")):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None

    def leads(self) -> bool:
        return self.metric("dutycycle_alerter_leader") == 1

    def follows(self) -> bool:
        return self.metric("dutycycle_alerter_leader") == 0


class Watcher(Thread):
    """Looks at the store all the time: when each term's lease was to end, and when its first pass was, by the
    database's clock. `stalled` is for how many seconds it could not look.
    """

    def __init__(self, store: StoreReader) -> None:
        super().__init__(name="watcher", daemon=True)
        self.ends: dict[int, float] = {}
        self.first_pass: dict[int, float] = {}
        self.stalled = 0.0
        self._before: dict[int, float | None] = {}
        self._store = store
        self._stopped = Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            status = self._store.status()
            if status.evaluating is not None:
                epoch = status.evaluating.epoch
                self.ends[epoch] = status.evaluating.expires_at
                before = self._before.setdefault(epoch, status.last_pass)
                if status.last_pass is not None and status.last_pass != before:
                    self.first_pass.setdefault(epoch, status.last_pass)
            self._stopped.wait(LOOK)
            self.stalled += max(0.0, time.monotonic() - began - 2 * LOOK)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class Cluster:
    """The two, and what anybody can see of them in the store."""

    def __init__(self, a: Replica, b: Replica, store: StoreReader, watcher: Watcher) -> None:
        self.a, self.b, self.store, self.watcher = a, b, store, watcher
        self.epoch = 0

    def after(self, what: str, leader: Replica) -> None:
        """Wait until the leader has had a pass in a term of its own, and check that it is the only one."""
        former, stalled = self.epoch, self.watcher.stalled

        def evaluates() -> bool:
            status = self.store.status()
            evaluating = status.evaluating
            return (
                evaluating is not None
                and evaluating.replica == leader.name
                and evaluating.epoch > self.epoch
                and evaluating.expires_at > status.now
            )

        wait_for(evaluates, f"{leader.name} takes over after {what}", within=PATIENCE)
        status = self.store.status()
        assert status.evaluating is not None
        self.epoch = epoch = status.evaluating.epoch
        first = wait_for(lambda: self.watcher.first_pass.get(epoch), f"{leader.name} has a pass", within=PATIENCE)
        if former:
            late, slack = first - self.watcher.ends[former], self.watcher.stalled - stalled
            print(f"{what}: {leader.name} had a pass {late:.1f} s after the lease's end; {slack:.1f} s of stalls")
            # The lease was renewed a length before its end: two passes later, and one scrape, there is a pass.
            assert late <= 2 * PASS + SCRAPE - LENGTH + slack
        wait_for(leader.leads, f"{leader.name} says so", within=PATIENCE)

    def wait_for_follower(self, follower: Replica) -> None:
        """It answers, from the store, and does nothing else."""
        wait_for(follower.follows, f"{follower.name} follows", within=PATIENCE)
        known = wait_for(lambda: follower.status()["evaluating"], f"{follower.name} reads the store", within=PATIENCE)
        assert known["replica"] != follower.name
        assert f"{known['replica']} evaluates; {follower.name} serves this" in follower.page("/")
        assert f"{known['replica']} evaluates" in follower.page("/-/ready")
        # What it began while it evaluated may wait for an answer for a while yet.
        wait_for(lambda: not self._scrapes(follower), f"{follower.name} scrapes no more", within=PATIENCE)

    def _scrapes(self, replica: Replica) -> bool:
        before = replica.metric("dutycycle_alerter_task_runs_total", task="scrape")
        time.sleep(2.5 * SCRAPE)
        return replica.metric("dutycycle_alerter_task_runs_total", task="scrape") != before


@contextmanager
def cluster(directory: Path, postgres: PostgresServer, url: str, target: str) -> Iterator[tuple[Cluster, Proxy]]:
    store = open_reader(url)
    with closing(store), Proxy(postgres.port) as proxy:
        a = Replica("a", directory, url, target)
        b = Replica("b", directory, url.replace(f":{postgres.port}/", f":{proxy.port}/"), target, ahead=AHEAD)
        watcher, failed = Watcher(store), True
        try:
            watcher.start()
            yield Cluster(a, b, store, watcher), proxy
            failed = False
        finally:
            watcher.stop()
            for replica in (a, b):
                if replica.alive:
                    os.kill(replica.pid, signal.SIGCONT)
                    if failed:  # where each of its threads is
                        os.kill(replica.pid, signal.SIGUSR1)
                        time.sleep(0.5)
                replica.kill()
                if failed:
                    sys.stderr.write(f"--- {replica.name}\n{replica.log()[-12000:]}\n")


@pytest.mark.timeout(1500)
def test_whatever_happens_to_the_one_that_evaluates_the_other_goes_on(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str
) -> None:
    exporter = FakeExporter("gpu01", 2, time_scale=TIME_SCALE)
    exporter.allocate("slurm/1", 0, start=time.time() - 3600)
    ran_until: float | None = None

    def page() -> str:
        nonlocal ran_until
        now = time.monotonic()
        exporter.run(0.0 if ran_until is None else now - ran_until, 0.0)
        ran_until = now
        return exporter.page()

    with serving(page) as (target,), cluster(tmp_path, postgres, postgres_url, target) as (both, proxy):
        a, b, began = both.a, both.b, time.time()
        a.start()
        both.after("the start", a)
        b.start()
        both.wait_for_follower(b)
        wait_for(lambda: "slurm/1" in b.page("/"), "the incident is shown", within=PATIENCE)
        check_that_people_can_act(both, postgres_url)

        a.stop()
        both.after("a clean stop", b)
        a.start()
        both.wait_for_follower(a)

        proxy.refuse()
        both.after("connections that are refused", a)
        assert b.follows(), "it knows without the database"
        proxy.heal()
        both.wait_for_follower(b)

        os.kill(a.pid, signal.SIGSTOP)
        both.after("a pause", b)
        os.kill(a.pid, signal.SIGCONT)
        both.wait_for_follower(a)
        assert a.metric("dutycycle_alerter_leases_lost_total") == 1

        proxy.hang()
        both.after("connections that hang", a)
        wait_for(b.follows, "b knows without the database", within=PATIENCE)
        proxy.heal()
        both.wait_for_follower(b)
        assert b.metric("dutycycle_alerter_leases_lost_total") == 2

        a.kill()
        both.after("a kill", b)
        check_what_is_left(both.store, exporter, began)


def check_that_people_can_act(both: Cluster, database: str) -> None:
    """On the command line of a machine whose clock is wrong; the replica that follows shows it."""
    with urllib3.PoolManager(retries=False, timeout=60.0) as pool:
        found = pool.request("GET", both.b.addresses.url("/api/v1/incidents")).json()["incidents"]
    assert [(item["subject"], item["rule"], item["state"]) for item in found] == [("slurm/1", "idle", "open")]
    number = str(found[0]["id"])
    command = [sys.executable, "-c", SERVE, str(AHEAD), "incidents", "ack", number, "--as", "carol"]
    done = subprocess.run([*command, "--database", database], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "acknowledged" in both.b.page(f"/incidents/{number}")


def check_what_is_left(store: StoreReader, exporter: FakeExporter, began: float) -> None:
    """One incident with one history, in the time of the database; and all of the usage, once."""
    found, total = store.incidents(IncidentFilter())
    assert total == 1
    events = store.events(found[0].id)
    kinds = [event.kind for event in events]
    check_history(found[0], kinds)
    assert kinds.count(EventKind.ACKNOWLEDGED) == 1
    assert all(began - 1 <= event.at <= time.time() + 1 for event in events)
    assert began <= (store.status().last_pass or 0) <= time.time() + 1
    (user,) = store.users(since=0, until=1e12)
    true = exporter.allocations["slurm/1", 0].counters["allocated"]
    # What the last pass has not seen yet is missing. Where a term begins, usage is read off between two scrapes.
    assert true - 2 * PASS <= user.allocated / TIME_SCALE <= 1.01 * true
