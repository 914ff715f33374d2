"""One simulated cluster per test run, stores copied from it, and real recordings where there are any."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dutycycle_alerter.store.database import open_database
from tests.alerter.cluster import simulate
from tests.required import lacking

REAL_RUNS = Path(__file__).parents[2] / "../shared/data/wandb_runs_v2.csv.gz"


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


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite store with every table and nothing in them, to be copied."""
    path = tmp_path_factory.mktemp("template") / "store.sqlite3"
    open_database(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def made_sqlite(sqlite_template: Path, tmp_path: Path) -> Path:
    """A store of the test's own in a file; copied, because migrations take ten times as long."""
    return Path(shutil.copy(sqlite_template, tmp_path / "store.sqlite3"))


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Path | str:
    """An alerter's new store, for what must hold on either database: an SQLite file, or a URL."""
    if request.param == "sqlite":
        return Path(request.getfixturevalue("made_sqlite"))
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def real_runs() -> Path:
    """Recordings of real runs, which are kept beside the repository and not in it."""
    if not REAL_RUNS.exists():
        lacking("recordings of real runs beside the repository (../shared/data)")
    return REAL_RUNS
