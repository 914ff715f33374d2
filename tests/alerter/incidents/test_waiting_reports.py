"""A report that waits for accounting says the same when it is filed, and keeps nothing of the pass meanwhile."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from dutycycle_alerter.fold import Pass, Reports
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Job, JobEvidence, WindowEvidence
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.workloads import Word
from tests.alerter.cases import START, evidence

HOUR = 3600.0
SETTINGS = Settings.model_validate({}).model_copy(update={"slurm": Slurm()}).scaled()


class Windows:
    """What a source makes windows from: the tables of a whole pass."""

    def __init__(self, item: JobEvidence) -> None:
        self._item = item

    def of(self, length: float) -> WindowEvidence:
        return self._item.window(length)


class Accounting:
    """The scheduler's word on figures; they are not there yet while `known` is None."""

    known: Final | None = None

    def final(self, job: Job) -> Final | None:
        return self.known


def fold(database: Database, reports: Reports, word: Accounting, items: list[JobEvidence], now: float) -> None:
    with database.write() as connection:
        policies = PoliciesInForce(SETTINGS, now)
        reports.fold(connection, Pass(now, cast("Word", word), policies), items)
    reports.committed()


@pytest.mark.parametrize("lasted", [1.5 * HOUR, 5 * HOUR, 30 * HOUR])
@pytest.mark.parametrize("longest", [None, 2 * HOUR])
@pytest.mark.parametrize("final", [Final(), Final(cpu_seconds=600.0, state="COMPLETED")])
def test_a_report_that_waits_keeps_its_windows_only(
    tmp_path: Path, lasted: float, longest: float | None, final: Final
) -> None:
    now = START + lasted
    memory: dict[str, object] = {"memory_used": 1e9, "memory_total": 80e9}
    shown = evidence([0.1, 0.1], at=now, ended=now, cpus=64.0, time_limit=240 * HOUR, gpu_fields=memory)
    filed = []
    for waits in (False, True):
        database = open_database(f"sqlite:///{tmp_path / f'{waits}.sqlite3'}", time_scale=1)
        reports, word = Reports(SETTINGS), Accounting()
        tables = Windows(shown)
        kept = weakref.ref(tables)
        items = [replace(shown, window=tables.of, longest=longest)]
        if waits:
            fold(database, reports, word, items, now)
            assert list(reports.jobs())
            del tables, items
            gc.collect()
            assert kept() is None
            items = []
        word.known = final
        fold(database, reports, word, items, now)
        assert not reports.jobs()
        filed.append(_filed(database))
        database.close()
    assert filed[0] == filed[1]
    # How much memory it ever had is not known of all of a longer life, and there is nothing else to say.
    nothing = final == Final() and longest is not None and lasted > longest
    assert (filed[0] is None) is nothing


def _filed(database: Database) -> Incident | None:
    with database.write() as connection:
        return incidents.latest(connection, ["slurm/1"], "report").get("slurm/1")
