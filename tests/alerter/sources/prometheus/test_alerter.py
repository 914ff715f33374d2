"""The alerter as it runs, with an engine instead of exporters."""

from __future__ import annotations

import time
from pathlib import Path

from dutycycle_alerter.app import Alerter
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.sources.prometheus.conftest import Story
from tests.prometheus.server import PrometheusServer


def test_it_judges_what_the_engine_knows(prometheus: PrometheusServer, story: Story, tmp_path: Path) -> None:
    section = {"url": prometheus.url, "scrape_interval": story.past.interval}
    settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{tmp_path}/a.sqlite3"})
    with Alerter(settings, lambda: story.at) as alerter:
        deadline = time.monotonic() + 120
        while alerter.store.status().last_pass is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        status = alerter.store.status()
        found, _ = alerter.store.incidents(IncidentFilter())
    assert {"slurm/6", "slurm/4"} <= {incident.subject for incident in found}
    engine = next(target for target in status.targets if target.url == prometheus.url)
    assert engine.last_success == story.at
    assert status.jobs_judged > 5
