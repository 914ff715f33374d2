"""When a job of scraped exporters has ended, and when nobody can know."""

import pytest

from tests.alerter.sources.fleets import INTERVAL, T0, rig


def test_two_answers_without_the_allocation_end_nothing_and_the_third_does() -> None:
    """A restarted kubelet lists no pods for a second."""
    made = rig(job1=[0])
    made.scrape(4)
    last = made.now
    made.exporters[0].end("slurm/1")
    for absent in (1, 2):
        made.scrape()
        item = made.run_pass()["slurm/1"]
        assert item.ended is None, absent
    made.scrape()
    assert made.run_pass()["slurm/1"].ended == last
    assert made.run_pass() == {}


def test_while_an_allocation_is_missing_nothing_is_known_of_its_job() -> None:
    """It has ended or it has not: judging it meanwhile could open an incident of a job that is over."""
    made = rig(job1=[0], job2=[1])
    made.scrape(4)
    made.exporters[0].end("slurm/1")
    made.scrape()
    assert {name: item.visible for name, item in made.run_pass().items()} == {"slurm/1": False, "slurm/2": True}


def test_an_allocation_that_comes_back_in_time_never_ended() -> None:
    made = rig(job1=[0])
    (item,) = made.exporters[0].allocations.values()
    for _ in range(5):
        made.scrape(2)
        item.present = False
        made.scrape(2)
        item.present = True
    made.scrape()
    evidence = made.run_pass()["slurm/1"]
    assert (evidence.ended, evidence.visible) == (None, True)


def test_a_silent_exporter_ends_nothing_and_makes_its_jobs_invisible() -> None:
    made = rig("gpu01", "gpu02", job1=[0])
    made.exporters[1].allocate("slurm/2", 0)
    made.scrape(4)
    made.silent.add("gpu01")
    made.scrape(3)
    assert made.run_pass()["slurm/1"].visible, "three intervals without an answer are still seen"
    made.scrape(97)
    evidence = made.run_pass()
    assert {name: (item.ended, item.visible) for name, item in evidence.items()} == {
        "slurm/1": (None, False),
        "slurm/2": (None, True),
    }
    made.silent.clear()
    made.scrape()
    assert made.run_pass()["slurm/1"].visible


def test_an_exporter_that_cannot_see_its_gpus_ends_nothing() -> None:
    """Its NVML child is being replaced: it answers, but vouches for no GPU."""
    made = rig(job1=[0])
    made.scrape(4)
    made.exporters[0].visible = False
    made.exporters[0].end("slurm/1")
    made.scrape(20)
    item = made.run_pass()["slurm/1"]
    assert (item.ended, item.visible) == (None, False)
    made.exporters[0].visible = True
    made.scrape(3)
    assert made.run_pass()["slurm/1"].ended is not None


def test_a_job_over_two_nodes_ends_when_it_has_ended_on_both() -> None:
    made = rig("gpu01", "gpu02", job1=[0, 1])
    made.exporters[1].allocate("slurm/1", 0, 1)
    made.scrape(4)
    assert made.run_pass()["slurm/1"].job.nodes == ("gpu01", "gpu02")
    made.silent.add("gpu02")
    made.exporters[0].end("slurm/1")
    made.scrape(10)
    item = made.run_pass()["slurm/1"]
    assert (item.ended, item.visible) == (None, False), "of gpu02 nothing is known"
    made.silent.clear()
    last = made.now + INTERVAL
    made.scrape()
    made.exporters[1].end("slurm/1")
    made.scrape(3)
    assert made.run_pass()["slurm/1"].ended == last


def test_one_silent_node_makes_the_whole_job_invisible() -> None:
    made = rig("gpu01", "gpu02", job1=[0])
    made.exporters[1].allocate("slurm/1", 0)
    made.scrape(4)
    made.silent.add("gpu02")
    made.scrape(4)
    item = made.run_pass()["slurm/1"]
    assert (item.visible, item.job.nodes) == (False, ("gpu01", "gpu02"))


def test_a_gpu_that_leaves_a_job_is_no_longer_judged_and_what_it_did_is_counted() -> None:
    made = rig(job1=(0, 1))
    made.scrape(5, 1.0)
    made.run_pass()
    made.exporters[0].end("slurm/1", 1)
    made.scrape(2, 1.0)
    assert not made.run_pass()["slurm/1"].visible
    made.scrape(1, 1.0)
    item = made.run_pass()["slurm/1"]
    assert ([gpu.index for gpu in item.job.gpus], item.visible, item.ended) == (["0"], True, None)
    assert made.busy() == pytest.approx(INTERVAL * (4 + 3 + 4))


def test_a_gpu_that_joins_a_job_is_judged_from_when_it_was_seen() -> None:
    made = rig(job1=[0])
    made.scrape(10)
    made.exporters[0].allocate("slurm/1", 1)
    made.scrape(2)
    item = made.run_pass()["slurm/1"]
    assert len(item.job.gpus) == 2
    assert item.watched_from == T0 + 11 * INTERVAL


def test_a_job_id_that_is_used_again_is_another_job() -> None:
    made = rig(job1=[0])
    made.scrape(10, 1.0)
    made.run_pass()
    made.exporters[0].end("slurm/1")
    made.scrape(3)
    assert made.run_pass()["slurm/1"].ended is not None
    made.exporters[0].forget("slurm/1")
    made.exporters[0].allocate("slurm/1", 0, start=made.now, user="bob")
    made.scrape(4, 0.0)
    item = made.run_pass()["slurm/1"]
    assert (item.job.user, item.ended, item.watched_from) == ("bob", None, T0 + 14 * INTERVAL)
    assert item.window(900).gpus[0].busy == 0
    assert made.busy() == pytest.approx(9 * INTERVAL)


def test_what_ended_before_anybody_watched_is_none_of_ours() -> None:
    made = rig(job1=[0])
    made.exporters[0].run(5000, 1.0)
    made.exporters[0].end("slurm/1")
    made.scrape(2)
    assert made.run_pass() == {}


def test_jobs_of_a_node_that_is_gone_for_good_are_let_go() -> None:
    made = rig("gpu01", "gpu02", job1=[0])
    made.exporters[1].allocate("slurm/2", 0)
    made.scrape(2)
    made.silent.add("gpu01")
    made.now += 86400
    made.scrape()
    assert set(made.run_pass()) == {"slurm/1", "slurm/2"}
    assert set(made.run_pass()) == {"slurm/2"}


def test_half_a_job_is_not_judged_because_the_other_half_was_silent_for_a_day() -> None:
    made = rig("gpu01", "gpu02", job1=[0])
    made.exporters[1].allocate("slurm/1", 0)
    made.scrape(2)
    made.silent.add("gpu02")
    made.now += 86400
    made.scrape()
    made.run_pass()
    item = made.run_pass()["slurm/1"]
    assert (item.job.nodes, item.visible) == (("gpu01", "gpu02"), False)
