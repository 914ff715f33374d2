"""Fixtures of the tests against a real Slurm: one cluster for all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.fakes.nvml import Libraries
from tests.required import lacking

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
