"""Fixtures of the tests against a real Slurm: one cluster for all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.watching import Watch, connect
from tests.fakes.nvml import Libraries
from tests.required import lacking

from .accounting import lacking as lacking_for_accounting
from .asking import VIEWER, Connect
from .cluster import PROGRAMS, Cluster
from .exporters import Exporters


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Skips where Slurm cannot run: not root, or not installed, which in CI is a failure."""
    if os.geteuid() != 0:
        lacking("root (for Slurm's daemons, jobs of other users and device files)")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        lacking(", ".join(missing))
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def exporters(cluster: Cluster, nvml_libraries: Libraries) -> Iterator[Exporters]:
    with Exporters(cluster, nvml_libraries) as exporters:
        yield exporters


@pytest.fixture(autouse=True)
def no_jobs(cluster: Cluster, exporters: Exporters) -> Iterator[None]:
    """Every test begins and ends with a cluster that is free, and published as such."""
    yield
    cluster.cancel_all()
    exporters.agree(lambda owners: not owners, "all GPUs are free")


@pytest.fixture(scope="session")
def slurm(cluster: Cluster) -> Cluster:
    if cluster.accounting is None:
        lacking(", ".join(lacking_for_accounting()))
    return cluster


@pytest.fixture
def by(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Connects by a way."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    token = tmp_path / "token"
    token.write_text(slurm.token(VIEWER))
    made: list[Watch] = []

    def connected(way: str, **changed: Any) -> Watch:
        settings: dict[str, Any] = {"timeout": 60, "nodes_interval": "1ms", "full_interval": "1ms", **changed}
        if way != "commands":
            url = f"http://127.0.0.1:{slurm.rest_port}" if way == "tcp" else f"unix://{slurm.rest_socket}"
            settings = {"url": url, "user": VIEWER, "token_file": token, **settings}
        made.append(connect(Slurm.model_validate(settings)))
        return made[-1]

    yield connected
    for watch in made:
        watch.close()
