"""Evidence from scraped exporters over a restart of the alerter, and what is stored for it."""

import pytest

from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Judging
from dutycycle_alerter.sources.exposition import parse
from tests.alerter.sources.fleets import INTERVAL, RESOLUTION, rig, stored


@pytest.mark.parametrize("scrapes", [1, 3, 4, 5, 6, 7, 50, 51, 52, 53])
@pytest.mark.parametrize("down", [0, 1, 20])
def test_after_a_restart_the_evidence_is_the_same_within_one_resolution(scrapes: int, down: int) -> None:
    made = rig(job1=(0, 1))
    kept = stored(made, scrapes, 0.5)
    again = made.restarted(kept, watermark=made.now)
    for _ in range(down):
        again.now += INTERVAL
        again.exporters[0].run(INTERVAL, 0.5)
    made.now = again.now
    for one in (made, again):
        one.fleet.ingest(parse(made.exporters[0].page()), made.now)
    before, after = made.run_pass(commits=False)["slurm/1"], again.run_pass(commits=False)["slurm/1"]
    assert after.job == before.job
    assert (after.ended, after.visible) == (before.ended, before.visible)
    assert after.watched_from == pytest.approx(before.watched_from, abs=RESOLUTION)
    for length in (900, 1800):
        for one, other in zip(before.window(length).gpus, after.window(length).gpus, strict=True):
            assert other.observed == pytest.approx(one.observed, abs=RESOLUTION)
            assert other.busy == pytest.approx(one.busy, abs=RESOLUTION)


@pytest.mark.parametrize("scrapes", [4, 5, 6, 7, 8, 50, 51, 52, 53])
@pytest.mark.parametrize("down", [0, 1, 200])
def test_a_restart_neither_loses_nor_doubles_consumption(scrapes: int, down: int) -> None:
    """What the ledger had already lies between the last point that was stored and the first that is scraped again."""
    made = rig(job1=[0])
    made.scrape(1, 0.0)
    made.run_pass()
    kept = stored(made, scrapes, 1.0)
    watermark = made.now - (scrapes % 4) * INTERVAL  # when the last pass ran
    made = made.restarted(kept, watermark)
    made = made.restarted(kept, watermark)  # it died again before it had scraped anything
    for _ in range(down):
        made.now += INTERVAL
        made.exporters[0].run(INTERVAL, 1.0)
    made.scrape(1, 1.0)
    made.run_pass()
    made.scrape(1, 1.0)
    made.run_pass()
    assert made.busy() == pytest.approx((scrapes + down + 2) * INTERVAL)


def test_a_restart_while_the_exporter_restarts_too_counts_what_it_shows() -> None:
    made = rig(job1=[0])
    kept = stored(made, 8, 1.0)
    counted = made.busy()
    again = made.restarted(kept, made.now)
    again.exporters[0].restart()
    again.scrape(2, 1.0)
    again.run_pass()
    assert again.busy() - counted == pytest.approx(2 * INTERVAL, abs=INTERVAL)


def test_a_job_that_had_ended_before_the_restart_is_never_judged_again() -> None:
    """Its counters are still in the store, and its last half hour may well have been idle."""
    made = rig(job1=[0], job2=[1])
    kept = stored(made, 200, 0.0)
    made.exporters[0].end("slurm/1")
    made.exporters[0].forget("slurm/1")
    again = made.restarted(kept, made.now)
    assert not again.run_pass()["slurm/1"].visible
    for _ in range(3):
        again.scrape()
        item = again.run_pass()["slurm/1"]
        assert item.ended is not None or not item.visible
        assert item.recent == ()
    assert item.ended == kept[0][0].last_seen
    assert set(again.run_pass()) == {"slurm/2"}


def test_after_a_restart_nothing_is_visible_before_the_first_answer() -> None:
    made = rig(job1=[0])
    kept = stored(made, 100, 0.5)
    again = made.restarted(kept, made.now)
    assert not again.run_pass()["slurm/1"].visible
    again.scrape()
    assert again.run_pass()["slurm/1"].visible


@pytest.mark.parametrize(
    ("levels", "rule"),
    [
        # It idled for most of the outage and has worked for the last 20 minutes: its average over two hours is theirs.
        ([(100, 0.0), (20, 1.0)], "underused"),
        # It idled for nearly all of the outage: what it did at first is no work of the last minutes.
        ([(5, 1.0), (115, 0.0)], "idle"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_the_average_of_an_outage_does_not_pass_for_the_last_minutes(
    levels: list[tuple[float, float]], rule: str, restarts: bool
) -> None:
    """The exporters counted on while nobody read them; of when, the alerter knows nothing."""
    made = rig(job1=(0, 1))
    kept = stored(made, 400, levels[0][1])
    for minutes, level in levels:
        made.now += minutes * 60
        made.exporters[0].run(minutes * 60, level)
    if restarts:
        made = made.restarted(kept, made.now)
    made.scrape(1, levels[-1][1])
    item = made.run_pass()["slurm/1"]
    assert item.visible
    verdict = judge(item, Judging()).verdict(rule)
    assert (verdict.outcome, verdict.reason[:21]) == (Outcome.UNKNOWN, "measured for less tha")
    made.scrape(125, levels[-1][1])
    item = made.run_pass()["slurm/1"]
    assert item.window(1800).gpus[0].utilization == pytest.approx(levels[-1][1])
    assert judge(item, Judging()).verdict(rule).outcome is (Outcome.FIRING if rule == "idle" else Outcome.CLEAR)


def test_what_was_consumed_in_an_outage_is_consumed() -> None:
    """And a window that reaches back beyond it has all of it."""
    made = rig(job1=[0])
    made.scrape(40, 0.5)
    made.run_pass()
    made.now += 3600
    made.exporters[0].run(3600, 1.0)
    made.scrape(1, 1.0)
    item = made.run_pass()["slurm/1"]
    assert made.busy() == pytest.approx(0.5 * 39 * INTERVAL + 3600 + INTERVAL)
    assert item.window(7200).gpus[0].busy == made.busy()


def test_only_points_that_are_new_are_to_be_stored() -> None:
    made = rig(job1=[0])
    made.scrape(3)
    series, hosts = made.fleet.unsaved()
    assert [(row.key[3], point.t) for row, point in series] == [("slurm/1", made.now)]
    assert [(key, point.t) for key, point in hosts] == [(("gpu01", "slurm/1"), made.now)]
    assert made.fleet.unsaved() == (series, hosts), "what was not said to be stored is told again"
    made.fleet.saved(series, hosts)
    assert made.fleet.unsaved() == ([], [])
    made.scrape()
    assert len(made.fleet.unsaved()[0]) == 1
    again = made.restarted(([row for row, _ in series], {row.key: [point] for row, point in series}), made.now)
    assert again.fleet.unsaved() == ([], [])


def test_a_series_without_points_is_not_restored() -> None:
    made = rig(job1=[0])
    made.scrape()
    series, _ = made.fleet.unsaved()
    again = made.restarted(([row for row, _ in series], {}), made.now)
    assert again.run_pass() == {}
