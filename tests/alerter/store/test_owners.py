"""Owners of workloads: stored by differences, and kept for a while after the end."""

from __future__ import annotations

from dutycycle_alerter.store import owners
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.views import WorkloadOwner

NOW = 1_790_000_000.0


def owner(workload: str, user: str, cluster: str = "") -> WorkloadOwner:
    return WorkloadOwner(cluster, workload, user, "lab", workload, "")


def test_an_owner_is_published_until_a_while_after_the_end(database: Database) -> None:
    one, other = owner("slurm/1", "ada"), owner("slurm/2", "bob")
    changed = owner("slurm/2", "carol")
    for at, present, expected in (
        (0, [one, other], [one, other]),
        (60, [one, changed], [one, changed]),
        (120, [changed], [one, changed]),
        (120 + owners.KEPT, [changed], [one, changed]),
        (121 + owners.KEPT, [changed], [changed]),
        (180 + owners.KEPT, [one, changed], [one, changed]),
        (9000, [one, changed], [one, changed]),
    ):
        with database.write() as connection:
            owners.save(connection, NOW + at, present)
        with database.read() as connection:
            assert owners.everything(connection) == expected, at


def test_one_that_comes_back_is_kept_again(database: Database) -> None:
    one = owner("slurm/1", "ada")
    for at, present in ((0, [one]), (60, []), (120, [one]), (9000, [one])):
        with database.write() as connection:
            owners.save(connection, NOW + at, present)
    with database.read() as connection:
        assert owners.everything(connection) == [one]


def test_a_name_that_two_users_have_in_two_clusters_is_neithers(database: Database) -> None:
    with database.write() as connection:
        owners.save(
            connection, NOW, [owner("slurm/1", "ada", "a"), owner("slurm/1", "bob", "b"), owner("slurm/2", "eve")]
        )
    with database.read() as connection:
        assert owners.users(connection) == {"slurm/2": "eve"}
