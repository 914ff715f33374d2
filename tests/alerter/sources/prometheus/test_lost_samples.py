"""A Prometheus has lost what the ledger was made from: through the whole alerter, nothing is in the ledger twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import get_meta, open_database
from dutycycle_alerter.store.schema import usage_hour
from dutycycle_alerter.store.status import TOTAL, WATERMARK
from tests.alerter.sources.prometheus.conftest import Story
from tests.alerter.sources.prometheus.past import START
from tests.alerter.sources.prometheus.test_faults import Proxy, serving
from tests.fakes.clock import FakeClock
from tests.prometheus.server import PrometheusServer

LOST = (2700.0, 3140.0)
"""Seconds after START of which the second engine has no samples."""
BEFORE, AFTER = (300, 900, 1500, 2100, 2700, 3000), (3400, 3900, 4500)
"""When there are passes over the first engine, and over the second."""


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory, story: Story) -> Iterator[PrometheusServer]:
    kept = [line for line in story.past.openmetrics().splitlines(keepends=True) if not _is_lost(line)]
    with PrometheusServer(tmp_path_factory.mktemp("forgetful"), openmetrics="".join(kept)) as server:
        yield server


def _is_lost(line: str) -> bool:
    return line != "# EOF\n" and LOST[0] <= float(line.rpartition(" ")[2]) - START < LOST[1]


def ledger(story: Story, engines: Sequence[str], path: Path, *, taken_over: bool) -> tuple[dict[str, float], float]:
    """GPU-seconds by job after passes over the one engine and then the other, and how long after START they end."""
    clock, proxy = FakeClock(START), Proxy(engines[0])
    with serving(proxy) as url:
        section = {"url": url, "scrape_interval": story.past.interval, "timeout": 20}
        given = {"prometheus": section, "database": f"sqlite:///{path}"}
        settings = Settings.model_validate(given).scaled()
        database = open_database(settings.database)
        source = PrometheusSource(settings, database)
        engine = Engine(settings, source, database, clock)

        def run(times: Sequence[float]) -> None:
            for at in times:
                clock.now = START + at
                engine.run_pass()

        run(BEFORE)
        with database.read() as connection:
            assert get_meta(connection, TOTAL) > 0
        proxy.engine = engines[1]
        if taken_over:
            engine.close()
            source.close()
            source = PrometheusSource(settings, database)
            engine = Engine(settings, source, database, clock)
        run(AFTER)
        with database.read() as connection:
            rows = connection.execute(
                sa.select(usage_hour.c.job, sa.func.sum(usage_hour.c.allocated)).group_by(usage_hour.c.job)
            ).all()
            until = get_meta(connection, WATERMARK) - START
        engine.close()
        source.close()
        database.close()
    return dict(tuple(row) for row in rows), until


@pytest.mark.parametrize("taken_over", [False, True], ids=["the same alerter", "another one"])
def test_the_ledger_has_nothing_twice(
    prometheus: PrometheusServer, forgetful: PrometheusServer, story: Story, tmp_path: Path, *, taken_over: bool
) -> None:
    """Until 3000 s passes were over the whole Prometheus, then over one that has lost what it answered with last."""
    whole, until = ledger(story, (prometheus.url, prometheus.url), tmp_path / "whole", taken_over=taken_over)
    lossy, same = ledger(story, (prometheus.url, forgetful.url), tmp_path / "lossy", taken_over=taken_over)
    assert until == same
    interval = story.past.interval
    for job, gpus in (("slurm/1", 2), ("slurm/7", 1), ("slurm/12", 2), ("slurm/13", 1)):
        assert whole[job] == pytest.approx(gpus * (until - (BEFORE[0] - 2 * interval))), job
        # One that has taken over knows how long that was, to a scrape.
        assert whole[job] <= lossy[job] + 1e-6, job
        assert lossy[job] <= whole[job] + gpus * interval * taken_over + 1e-6, job
