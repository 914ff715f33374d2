"""Real engines that begin with the story of `story.py`; each is started once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.alerter.sources.prometheus.past import Past
from tests.alerter.sources.prometheus.story import make
from tests.prometheus.server import PrometheusServer, VictoriaMetricsServer


@dataclass(frozen=True)
class Story:
    """The past, and the instant at which it is looked at."""

    past: Past
    at: float


@pytest.fixture(scope="session")
def story() -> Story:
    return Story(*make())


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory, story: Story) -> Iterator[PrometheusServer]:
    with PrometheusServer(tmp_path_factory.mktemp("prometheus"), openmetrics=story.past.openmetrics()) as server:
        yield server


@pytest.fixture(scope="session")
def victoriametrics(tmp_path_factory: pytest.TempPathFactory, story: Story) -> Iterator[VictoriaMetricsServer]:
    with VictoriaMetricsServer(tmp_path_factory.mktemp("victoria"), openmetrics=story.past.openmetrics()) as server:
        yield server
