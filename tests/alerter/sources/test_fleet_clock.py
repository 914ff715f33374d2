"""Evidence from scraped exporters while the alerter's clock is set back."""

import pytest

from tests.alerter.sources.fleets import INTERVAL, RESOLUTION, Rig, rig, stored


def set_back(made: Rig, seconds: float) -> None:
    made.now -= seconds
    made.fleet.heed_clock(made.now + INTERVAL)  # as it is when the next round begins


@pytest.mark.parametrize("step", [17.0, 600.0, 3600.0, 30 * 86400.0])
def test_a_clock_that_was_set_back_blinds_nobody_and_counts_everything_once(step: float) -> None:
    made = rig("gpu01", "gpu02", job1=[0])
    made.exporters[1].allocate("slurm/2", 0)
    made.scrape(1, 0.0)
    for _ in range(10):
        made.scrape(20, 0.8)
        made.run_pass()
    set_back(made, step)
    made.silent.add("gpu02")
    for round_ in range(1, 41):
        made.scrape(1, 0.8)
        evidence = made.run_pass()
        item = evidence["slurm/1"]
        assert (item.visible, item.ended) == (True, None), round_
        assert item.watched_from <= made.now
        for length in (60, 900, 1800):
            (usage,) = item.window(length).gpus
            assert usage.observed <= length + RESOLUTION
            assert usage.busy <= 0.8 * usage.observed + 1e-6
    assert made.busy() == pytest.approx(0.8 * 240 * INTERVAL)
    assert not evidence["slurm/2"].visible, "its exporter is silent, whenever it answered by the old clock"
    made.silent.clear()
    made.exporters[0].end("slurm/1")
    made.scrape(3)
    ended = made.run_pass()["slurm/1"].ended
    assert ended is not None
    assert ended <= made.now


def test_after_a_step_of_the_clock_no_host_uses_more_cores_than_it_does() -> None:
    made = rig(job1=[0])
    made.scrape(100)
    set_back(made, 900)
    for _ in range(60):
        made.scrape()
        cores = made.run_pass()["slurm/1"].window(900).host.cpu_cores
        assert cores is None or cores == pytest.approx(4)
    assert cores is not None


def test_a_clock_that_is_corrected_by_less_than_an_interval_loses_no_history() -> None:
    made = rig(job1=[0])
    made.scrape(100)
    since = made.run_pass()["slurm/1"].watched_from
    set_back(made, INTERVAL)
    made.scrape(5)
    item = made.run_pass()["slurm/1"]
    assert (item.watched_from, item.visible) == (since, True)


@pytest.mark.parametrize("step", [600.0, 30 * 86400.0])
@pytest.mark.parametrize("behind", [0, 3])
def test_a_clock_that_was_set_back_during_a_restart_counts_nothing_twice(step: float, behind: int) -> None:
    made = rig(job1=[0])
    made.scrape(1, 0.0)
    made.run_pass()
    kept = stored(made, 80, 1.0)
    counted = made.busy()
    made.now -= step
    again = made.restarted(kept, made.now + step - behind * INTERVAL)
    assert not again.run_pass()["slurm/1"].visible
    again.scrape(8, 1.0)
    item = again.run_pass()["slurm/1"]
    assert (item.visible, item.ended) == (True, None)
    assert item.window(900).gpus[0].observed <= 900 + RESOLUTION
    # Of what came since the last point that was stored, nobody can tell whether the ledger has it.
    assert 7 * INTERVAL <= again.busy() - counted <= (8 + behind) * INTERVAL + 1e-6
