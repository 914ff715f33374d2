"""Two alerters in one process, on one PostgreSQL: what each of them does, and what it leaves to the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter import app
from dutycycle_alerter.app import Alerter
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.settings import Settings
from tests.alerter.exporters import FakeExporter, serving
from tests.alerter.waiting import wait_until

SCALE = 120.0
"""A scrape every eighth of a second, a pass every half."""

LENGTH = 20.0
"""Seconds of a lease: a machine that stalls must not lose it."""


@pytest.fixture(autouse=True)
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_SHORTEST", LENGTH)


@pytest.fixture
def target() -> Iterator[str]:
    exporter = FakeExporter("gpu01", 2, time_scale=SCALE)
    exporter.allocate("slurm/1", 0, start=1.0)

    def page() -> str:
        exporter.run(0.1, 0.5)
        return exporter.page()

    with serving(page) as (url,):
        yield url


def configured(url: str, name: str, **sections: object) -> Settings:
    return Settings.model_validate({"database": url, "time_scale": SCALE, "replica": name, **sections})


def test_one_works_both_show_and_the_second_goes_on_where_the_first_stopped(postgres_url: str, target: str) -> None:
    source = {"targets": (target,)}
    with Alerter(configured(postgres_url, "b", source=source)) as first:
        wait_until(lambda: first.store.status().jobs_judged or first.store.users(since=0, until=1e12))
        with Alerter(configured(postgres_url, "c", source=source), lambda: 7.0) as second:
            assert (first.standing().leads, second.standing().leads) == (True, False)
            assert [gpu.gpu.label for gpu in second.store.gpus()] == ["gpu01:0", "gpu01:1"]
            # By the database's clock, whatever its own shows.
            wait_until(lambda: not any(gpu.stale for gpu in second.store.gpus()))
            assert abs(second.clock() - first.clock()) < 60
            assert second.tasks().keys() == {"lease"}
            wait_until(lambda: second.tasks()["lease"].runs >= 2)
            assert second.tasks().keys() == {"lease"}, "it neither scrapes nor judges nor keeps house"
            first.__exit__(None, None, None)
            (used,) = second.store.users(since=0, until=1e12)
            wait_until(lambda: second.standing().leads)
            wait_until(lambda: "pass" in second.tasks() and second.tasks()["pass"].last_success)
            wait_until(lambda: second.store.users(since=0, until=1e12)[0].allocated > used.allocated)
            evaluating = second.store.status().evaluating
            assert evaluating is not None
            assert (evaluating.replica, evaluating.epoch) == ("c", 2)


def test_a_follower_whose_configuration_cannot_be_used_says_so_at_once(postgres_url: str, tmp_path: Path) -> None:
    """And not when the other has died."""
    unusable = [{"kubeconfig": str(tmp_path / "missing")}]
    with Alerter(configured(postgres_url, "a")) as leader:
        replica = Alerter(configured(postgres_url, "b", kubernetes=unusable))
        with pytest.raises(ConfigError, match="missing"):
            replica.__enter__()
        assert leader.standing().leads
