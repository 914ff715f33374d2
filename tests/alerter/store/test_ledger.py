"""The usage ledger: sums by hour, job and model, once for each pass, and users' reports made from them."""

import random
from dataclasses import replace

import pytest
import sqlalchemy as sa

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.store import ledger
from dutycycle_alerter.store.database import Database, get_meta, set_meta
from dutycycle_alerter.store.schema import usage_hour
from dutycycle_alerter.usage import UserUsage
from tests.alerter.store.test_incidents import add, incident

HOUR = 3600.0
START = 480_000 * HOUR


def job(number: int = 1, user: str = "alice") -> Job:
    return Job(f"slurm/{number}", (Gpu("gpu1", "0"),), START, user=user, account="lab", scheduler="slurm")


def used(seconds: float, busy: float = 0.5, *, model: str = "H200", energy: float | None = None) -> Consumption:
    return Consumption(model, seconds, 0.9 * seconds, busy * seconds, energy)


def account(database: Database, at: float, *items: tuple[Job, Consumption], hour: float = HOUR) -> None:
    with database.write() as connection:
        ledger.add(connection, at, items, hour=hour)


def users(database: Database, since: float = 0, until: float = 1e12, factor: float = 1) -> list[UserUsage]:
    with database.read() as connection:
        return ledger.users(connection, since=since, until=until, factor=factor)


def rows(database: Database) -> list[tuple[float, str, str, float, float | None]]:
    with database.read() as connection:
        columns = usage_hour.c
        query = usage_hour.select().order_by(columns.hour, columns.job, columns.model)
        return [(r.hour, r.job, r.model, r.allocated, r.energy) for r in connection.execute(query)]


def test_passes_of_an_hour_add_up_in_one_row_per_job_and_model(database: Database) -> None:
    for minute in range(60):
        account(database, START + 60 * minute, (job(1), used(60)), (job(1), used(30, model="A100")), (job(2), used(10)))
    assert rows(database) == [
        (START, "slurm/1", "A100", pytest.approx(1800), None),
        (START, "slurm/1", "H200", pytest.approx(3600), None),
        (START, "slurm/2", "H200", pytest.approx(600), None),
    ]


@pytest.mark.parametrize(
    ("at", "hour", "row"),
    [
        (START, HOUR, START),
        (START + 3599.9, HOUR, START),
        (START + HOUR, HOUR, START + HOUR),
        (START + 130, HOUR / 30, START + 120),
    ],
)
def test_the_row_is_that_of_the_hour_in_which_the_pass_lies(
    database: Database, at: float, hour: float, row: float
) -> None:
    account(database, at, (job(), used(60)), hour=hour)
    account(database, at, (job(), used(60)), hour=hour)
    assert [(r[0], r[3]) for r in rows(database)] == [(row, 120)]


def test_energy_that_is_known_of_some_passes_is_kept(database: Database) -> None:
    for energy in (None, 100.0, None, 50.0):
        account(database, START, (job(), used(60, energy=energy)))
    assert rows(database)[0][4] == 150


@pytest.mark.parametrize("name", ["idle", "spread"])
def test_what_is_known_of_some_passes_is_kept_and_zero_is_known(database: Database, name: str) -> None:
    """NULL (of a row from before, too) is not 0."""
    kept = []
    for value in (None, 0.0, None, 50.0, None):
        account(database, START, (job(), replace(used(60), **{name: value})))
        with database.read() as connection:
            kept.append(connection.execute(sa.select(usage_hour.c[name])).scalar_one())
    assert kept == [None, 0, 0, 50, 50]


def whose(database: Database) -> list[tuple[str, ...]]:
    with database.read() as connection:
        columns = usage_hour.c
        query = sa.select(columns.cluster, columns.scheduler, columns.user, columns.account).order_by(columns.hour)
        return [tuple(row) for row in connection.execute(query)]


def test_use_from_before_its_owner_is_known_is_theirs_and_the_job_is_counted_once(database: Database) -> None:
    """Whoever names the owner (a scheduler, a node) may answer passes later than what measures."""
    nameless = replace(job(user=""), account="", scheduler="")
    account(database, START, (nameless, used(100)))
    account(database, START + 100, (job(), used(3000)))
    (alice,) = users(database)
    assert (alice.user, alice.jobs, alice.allocated) == ("alice", 1, 3100)
    assert whose(database) == [("", "slurm", "alice", "lab")]


def test_an_owner_that_is_known_stays_whatever_comes_later(database: Database) -> None:
    for user, lab in (("alice", ""), ("", "lab"), ("bob", "other")):
        account(database, START, (replace(job(user=user), account=lab), used(60)))
    assert whose(database) == [("", "slurm", "alice", "lab")]


def test_an_owner_is_found_among_what_one_pass_says_of_a_job(database: Database) -> None:
    account(database, START, (replace(job(user=""), account=""), used(60)), (job(), used(60)))
    assert whose(database) == [("", "slurm", "alice", "lab")]


def test_a_transaction_that_fails_adds_nothing_and_its_repetition_once(database: Database) -> None:
    """Sum and watermark change together, or not at all."""

    def one_pass(*, fails: bool) -> None:
        with database.write() as connection:
            ledger.add(connection, START, [(job(), used(60))])
            set_meta(connection, "watermark", START)
            if fails:
                raise RuntimeError("power")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="power"):
            one_pass(fails=True)
    assert rows(database) == []
    one_pass(fails=False)
    assert [r[3] for r in rows(database)] == [60]
    with database.read() as connection:
        assert get_meta(connection, "watermark") == START


def test_users_are_summed_over_jobs_models_and_hours_of_the_range(database: Database) -> None:
    for hour in range(4):
        at = START + hour * HOUR
        account(database, at, (job(1), used(100, 0.1, energy=7)), (job(2), used(100, 0.3, model="A100")))
        account(database, at, (job(3, "bob"), used(100, 0.8)))
    alice, bob = users(database, START + HOUR, START + 3 * HOUR)
    assert (alice.user, alice.jobs, alice.allocated, alice.observed) == ("alice", 2, 400, pytest.approx(360))
    assert (alice.busy, alice.energy) == (pytest.approx(80), 14)
    assert (bob.user, bob.jobs, bob.busy, bob.energy) == ("bob", 1, pytest.approx(160), None)
    assert users(database, START + 4 * HOUR) == []


def test_the_most_wasteful_user_comes_first(database: Database) -> None:
    account(database, START, (job(1, "x"), used(100, 0.8)), (job(2, "y"), used(500, 0.7)), (job(3, "z"), used(90, 0.0)))
    assert [usage.user for usage in users(database)] == ["y", "z", "x"]


def test_seconds_and_joules_are_shown_on_the_scale_of_people(database: Database) -> None:
    account(database, START, (job(), used(60, 0.5, energy=10)))
    (usage,) = users(database, factor=30)
    assert (usage.allocated, usage.busy, usage.energy) == (1800, 900, 300)
    assert usage.mean_percent == pytest.approx(100 * 0.5 / 0.9)


def test_incidents_are_counted_to_the_user_in_whose_job_they_opened(database: Database) -> None:
    account(database, START, (job(), used(60)), (job(2, "bob"), used(60)))
    add(
        database,
        incident("slurm/1", opened_at=START),
        incident("slurm/1", state=State.RESOLVED, opened_at=START + 10),
        incident("slurm/9", opened_at=START - 1),
    )
    assert {usage.user: usage.incidents for usage in users(database, START, START + HOUR)} == {"alice": 2, "bob": 0}


def test_the_order_of_jobs_in_a_pass_does_not_matter(database: Database) -> None:
    items = [(job(n, f"user{n % 3}"), used(10 * n)) for n in range(1, 12)]
    account(database, START, *items)
    before = rows(database)
    random.Random(7).shuffle(items)
    account(database, START, *items)
    assert [(r[1], r[3]) for r in rows(database)] == [(r[1], 2 * r[3]) for r in before]
