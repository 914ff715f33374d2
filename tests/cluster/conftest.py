"""The fixture of the whole cluster's Slurm."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.required import lacking
from tests.slurm.accounting import lacking as lacking_for_accounting
from tests.slurm.cluster import PROGRAMS

from .slurm import MortalCluster


@pytest.fixture
def requeue_delay() -> int:
    """Wall seconds for which Slurm makes a requeued job wait."""
    return 5


@pytest.fixture
def mortal_cluster(requeue_delay: int) -> Iterator[MortalCluster]:
    """Skips where Slurm and its accounting cannot run: not root, or not installed, which in CI is a failure."""
    if os.geteuid() != 0:
        lacking("root (for Slurm's daemons, jobs of other users and device files)")
    missing = [program for program in (*PROGRAMS, "sacct") if shutil.which(program) is None] + lacking_for_accounting()
    if missing:
        lacking(", ".join(missing))
    with MortalCluster(requeue_delay) as cluster:
        yield cluster
