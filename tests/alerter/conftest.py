"""One simulated cluster per test run, stores copied from it, and real recordings where there are any."""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.alerter.cluster import simulate

REAL_RUNS = Path(__file__).parents[2] / "../shared/data/wandb_runs.csv.gz"


@dataclass(frozen=True)
class Simulated:
    """A finished store, and the time at which it was current."""

    path: Path
    now: float


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Three hours of the cluster of `cluster.jobs`, up to the present."""
    path, now = tmp_path_factory.mktemp("cluster") / "cluster.sqlite3", time.time()
    simulate(path, now)
    return Simulated(path, now)


@pytest.fixture
def store_file(simulated: Simulated, tmp_path: Path) -> Path:
    """A copy of the simulated store, to be changed at will."""
    return Path(shutil.copy(simulated.path, tmp_path / "store.sqlite3"))


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where an alerter's store is to be, for what must hold on either database: an SQLite file, or a URL."""
    return tmp_path / "store.sqlite3" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def real_runs() -> Path:
    """Recordings of real runs, which are kept beside the repository and not in it."""
    if not REAL_RUNS.exists():
        missing = "no real recordings beside the repository (../shared/data)"
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(f"{missing}: a run that decides must not leave out what they show")
        pytest.skip(missing)
    return REAL_RUNS
