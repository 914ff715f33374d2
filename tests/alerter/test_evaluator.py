"""What an evaluator does beside passes: keeping house, whatever its clock shows."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from dutycycle_alerter.evaluator import Evaluator
from dutycycle_alerter.scheduler import Scheduler
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.schema import usage_hour
from tests.alerter.store.test_ledger import account, job, used
from tests.fakes.clock import FakeClock

HOUR, DAY = 3600.0, 86400.0


def test_a_clock_that_is_years_ahead_for_a_while_deletes_no_history(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/store.sqlite3", time_scale=1)
    clock = FakeClock()
    now = clock()
    for days in (1, 100, 799, 801):
        account(database, now - days * DAY, (job(), used(60)))
    settings = Settings.model_validate({"source": {"targets": ["http://127.0.0.1:1/metrics"]}}).scaled()
    evaluator = Evaluator(settings, database, clock, Scheduler(), lost=lambda: None)
    counts = []
    for ahead in (0.0, 801 * DAY, 801 * DAY + HOUR, 2 * HOUR):
        clock.now = now + ahead
        evaluator._keep_house()
        with database.read() as connection:
            counts.append(connection.execute(sa.select(sa.func.count()).select_from(usage_hour)).scalar_one())
    evaluator.close()
    database.close()
    assert counts == [3, 3, 3, 3]
