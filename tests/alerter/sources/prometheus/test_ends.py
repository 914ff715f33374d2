"""A job has ended when its exporter answers without it, and never because Prometheus lost sight of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings import Prometheus, Settings
from dutycycle_alerter.sources.prometheus import queries
from dutycycle_alerter.sources.prometheus.asking import Deadline, ask
from dutycycle_alerter.sources.prometheus.identity import Answers, Identity, Known
from tests.alerter.exporters import Answer, FakeExporter, serving
from tests.prometheus.server import PrometheusServer

SCALE = 30.0
INTERVAL = 15 / SCALE
PATIENCE = 60.0


@dataclass
class Live:
    """An exporter that a Prometheus scrapes, and who asks it for the jobs."""

    exporter: FakeExporter
    server: PrometheusServer
    settings: Settings
    client: Client
    identity: Identity
    down: bool = False
    asked_at: float = 0.0

    def page(self) -> str | Answer:
        return (503, b"") if self.down else self.exporter.page()

    def job(self) -> Known | None:
        self.asked_at = now = time.time()
        answers = Answers()
        asked = queries.identity(self.settings, back=60)
        if ask(self.client, asked, now, answers.fold, deadline=Deadline(PATIENCE), all_needed=True):
            return None
        jobs = self.identity.update(answers, now)
        self.identity.committed(jobs)
        return next(iter(jobs), None)

    def until(self, condition: Callable[[Known | None], bool]) -> Known | None:
        """Ask until it holds. Before that nothing may have ended."""
        deadline = time.monotonic() + PATIENCE
        while not condition(job := self.job()):
            assert job is None or job.ended is None
            assert time.monotonic() < deadline, job
            time.sleep(INTERVAL)
        return job


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    exporter = FakeExporter(gpus=1, time_scale=SCALE)
    exporter.allocate("slurm/1", 0, start=time.time())
    found: list[Live] = []

    def page() -> str | Answer:
        return found[0].page()

    with serving(page) as (url,):
        target = urlsplit(url)
        scrape = f"honor_labels: true\nmetrics_path: {target.path}"
        with PrometheusServer(tmp_path / "p", interval=f"{round(INTERVAL * 1000)}ms", scrape=scrape) as server:
            section = Prometheus(url=server.url)
            settings = Settings(prometheus=section, time_scale=SCALE).scaled()
            client = Client(section)
            found.append(Live(exporter, server, settings, client, Identity(INTERVAL, SCALE)))
            server.configure([target.netloc])
            yield found[0]
            client.close()


def visible(job: Known | None) -> bool:
    return job is not None and job.visible


def unseen(job: Known | None) -> bool:
    return job is None or not job.visible


def test_only_an_exporter_that_answers_without_it_ends_a_job(live: Live) -> None:
    """Through an exporter that is down, a Prometheus that is down and comes back, and an NVML that cannot be read."""
    live.until(visible)
    live.down = True
    live.until(unseen)
    for _ in range(5):
        time.sleep(INTERVAL)
        live.until(unseen)
    live.down = False
    live.until(visible)
    live.server.stop()
    assert live.job() is None
    live.server.start()
    live.until(visible)
    live.exporter.visible = False
    live.until(unseen)
    live.exporter.visible = True
    live.until(visible)
    # Not the time of its end, before which this process may stall.
    seen_at = live.asked_at
    live.exporter.end("slurm/1")
    ended = live.until(lambda job: job is not None and job.ended is not None)
    assert ended is not None
    assert ended.ended is not None
    assert seen_at - 5 * INTERVAL <= ended.ended
    # It was said once.
    assert live.job() is None
