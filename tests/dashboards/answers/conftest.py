"""One Prometheus for all that asks the fleet of known truth."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboards.answers import alerting, exposition
from tests.dashboards.answers.fleet import DAY, MIDNIGHT, Fleet
from tests.prometheus.evaluated import evaluate
from tests.prometheus.server import PrometheusServer

_MAKING = 900
"""Seconds that a test may take whose worker makes the data, or waits for another's: several workers share few cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "fleet_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(_MAKING))


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture(scope="session")
def fleet_data(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Prometheus' data: a day of scrapes, and what the real recording rules make of them until two hours later.

    Made once for all workers of a run. It is there as a whole or not at all: who makes it may be stopped.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fleet"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            part = tmp_path_factory.mktemp("fleet-part")
            _make(fleet, part)
            part.rename(shared)
    return shared / "data"


def _make(fleet: Fleet, directory: Path) -> None:
    text = directory / "fleet.om"
    with text.open("w") as file:
        file.writelines(exposition.openmetrics(fleet))
        file.writelines(alerting.openmetrics())
        file.write("# EOF\n")
    with PrometheusServer(directory, openmetrics=text) as server:
        text.unlink()
        evaluate(server, [(MIDNIGHT, MIDNIGHT + DAY + 7200)])


@pytest.fixture(scope="session")
def fleet_server(fleet_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    directory = tmp_path_factory.mktemp("fleet-server")
    shutil.copytree(fleet_data, directory / "data", ignore=shutil.ignore_patterns("lock", "queries.active"))
    with PrometheusServer(directory) as server:
        yield server
