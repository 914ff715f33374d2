"""The fixture of the whole cluster's Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .slurm import MortalCluster


@pytest.fixture
def mortal_cluster() -> Iterator[MortalCluster]:
    with MortalCluster() as cluster:
        yield cluster
