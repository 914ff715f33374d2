"""Evidence from scraped exporters: whose a GPU is, and what it did.

The exporters are fakes in simulated time; their pages are parsed as any other.
"""

from collections.abc import Iterable

import pytest

from dutycycle_alerter.model import JobEvidence, JobKind
from dutycycle_alerter.settings import JobMatch, KindMatch
from dutycycle_alerter.sources.exposition import parse
from dutycycle_alerter.sources.fleet import Fleet
from tests.alerter.exporters import GIB, MODEL, FakeExporter
from tests.alerter.sources.fleets import INTERVAL, RESOLUTION, T0, Rig, rig


def test_a_job_is_what_its_series_say() -> None:
    made = rig()
    made.exporters[0].allocate(
        "k8s/speech/train-0/5c1e", 10 % 8, 1, start=T0 - 50, first_process=T0 - 20, namespace="speech", pod="train-0"
    )
    made.exporters[0].allocations["k8s/speech/train-0/5c1e", 1].start = T0 - 60
    made.scrape(4)
    (item,) = made.run_pass().values()
    job = item.job
    assert (job.id, job.scheduler, job.user, job.account) == ("k8s/speech/train-0/5c1e", "k8s", "alice", "lab")
    assert (job.namespace, job.pod, job.partition) == ("speech", "train-0", "gpu")
    assert (job.start, job.first_process) == (T0 - 60, T0 - 20)
    assert [(gpu.node, gpu.index, gpu.uuid, gpu.model) for gpu in job.gpus] == [
        ("gpu01", "1", "GPU-gpu01-1", MODEL),
        ("gpu01", "2", "GPU-gpu01-2", MODEL),
    ]
    assert (item.at, item.watched_from, item.ended, item.visible) == (made.now, T0 + INTERVAL, None, True)


def test_gpus_are_in_the_order_of_their_numbers() -> None:
    made = rig(job1=(10, 2, 0, 1))
    made.scrape()
    assert [gpu.index for gpu in made.run_pass()["slurm/1"].job.gpus] == ["0", "1", "2", "10"]


def test_a_job_that_does_not_say_when_it_began_began_when_it_was_first_seen() -> None:
    made = rig(job1=[0])
    page = "\n".join(line for line in made.exporters[0].page().splitlines() if "start_timestamp" not in line) + "\n"
    made.fleet.ingest(parse(page), T0 + 5)
    assert made.run_pass()["slurm/1"].job.start == T0 + 5


def test_the_evidence_of_a_window_is_what_the_gpus_did_in_it() -> None:
    made = rig(job1=(0, 1))
    made.scrape(60, 0.8)
    made.scrape(60, {"slurm/1": 0.2})
    item = made.run_pass()["slurm/1"]
    for usage in item.window(900).gpus:
        # Between two points that are kept, a minute apart, the counters are taken to have grown evenly.
        assert usage.utilization == pytest.approx(0.2, abs=0.6 * RESOLUTION / 900)
        assert usage.observed == pytest.approx(900)
        assert (usage.memory_used, usage.memory_total, usage.processes) == (30 * GIB, 141 * GIB, 1)
    assert item.window(1800).gpus[0].utilization == pytest.approx(0.5, abs=0.01)
    assert item.window(900).host.cpu_cores == pytest.approx(4)
    assert item.window(900).host.cpu_of_limit == pytest.approx(0.25)


def test_memory_that_is_taken_long_after_the_start_is_no_loading() -> None:
    exporter = FakeExporter("gpu01")
    (held,) = exporter.allocate("slurm/1", 0, start=T0)
    made = Rig([exporter])
    found = []
    for minutes, used in ((5, 10), (10, 40), (15, 40), (15, 90)):
        held.memory_used = used * GIB
        made.scrape(minutes * 4)
        found.append(made.run_pass()["slurm/1"].memory_grew_at)
    assert found[0] == T0
    assert found[1] == pytest.approx(T0 + 300, abs=RESOLUTION + INTERVAL)
    assert found[1:] == [found[1]] * 3


def test_the_order_in_which_exporters_are_read_does_not_matter() -> None:
    one, other = rig("gpu01", "gpu02"), rig("gpu01", "gpu02")
    for made in (one, other):
        for exporter in made.exporters:
            exporter.allocate("slurm/1", 0, 1)
    other.exporters = other.exporters[::-1]
    for made in (one, other):
        made.scrape(10, 0.3)
    first, second = one.run_pass()["slurm/1"], other.run_pass()["slurm/1"]
    assert first == second  # but for `window`, a function
    assert first.window(900) == second.window(900)


def test_labels_of_pods_are_the_jobs_and_entries_are_matched_by_them() -> None:
    exporter = FakeExporter("gpu01")
    exporter.allocate("slurm/1", 0)
    exporter.allocate("slurm/2", 1)
    more = (
        'workload_label{cluster="",workload="slurm/1",label="app",value="vllm-8b"} 1\n'
        'workload_label{cluster="",workload="slurm/1",label="team",value="a"} 1\n'
        'workload_label{cluster="",workload="elsewhere",label="team",value="b"} 1\n'
    )
    fleet = Fleet(15, 60, kinds=(KindMatch(label="app=vllm*", kind=JobKind.SERVING),))
    fleet.ingest(parse(exporter.page() + more), 1000.0)
    jobs = {item.job.id: item.job for item in fleet.evidence(1000.0).jobs}
    assert {job: (one.labels, one.kind) for job, one in jobs.items()} == {
        "slurm/1": ({"app": "vllm-8b", "team": "a"}, JobKind.SERVING),
        "slurm/2": ({}, JobKind.BATCH),
    }


def test_kinds_and_exceptions_are_matched_by_label_first_match_first() -> None:
    fleet = Fleet(
        INTERVAL,
        RESOLUTION,
        kinds=(
            KindMatch(kind=JobKind.SERVING, user="bob", partition="gpu"),
            KindMatch(kind=JobKind.INTERACTIVE, user="*o*"),
        ),
        uneven_by_design=(JobMatch(workload="slurm/2"),),
    )
    made = Rig([FakeExporter()], fleet)
    for number, user in ((1, "alice"), (2, "bob"), (3, "carol"), (4, "bob")):
        made.exporters[0].allocate(f"slurm/{number}", number, user=user, partition="gpu" if number != 4 else "debug")
    made.scrape()
    jobs = {name: item.job for name, item in made.run_pass().items()}
    assert [jobs[f"slurm/{n}"].kind.value for n in (1, 2, 3, 4)] == ["batch", "serving", "interactive", "interactive"]
    assert [name for name, job in jobs.items() if job.expect_uneven] == ["slurm/2"]


def test_jobs_of_two_clusters_with_the_same_number_are_two_jobs() -> None:
    made = rig("gpu01", "gpu02")
    made.exporters[0].allocate("slurm/1", 0, cluster="north", user="alice")
    made.exporters[1].allocate("slurm/1", 0, cluster="south", user="bob")
    made.scrape(2)
    made.scrape(4, 1.0)
    found = made.run_pass()
    assert {name: (item.job.cluster, item.job.user, item.job.nodes) for name, item in found.items()} == {
        "north/slurm/1": ("north", "alice", ("gpu01",)),
        "south/slurm/1": ("south", "bob", ("gpu02",)),
    }
    assert found["north/slurm/1"].window(60).host.cpu_cores == pytest.approx(4)
    assert made.busy("north/slurm/1") == made.busy("south/slurm/1") > 0
    made.exporters[0].end("slurm/1")
    made.scrape(3)
    assert made.run_pass()["north/slurm/1"].ended is not None
    assert set(made.run_pass()) == {"south/slurm/1"}


@pytest.mark.parametrize(("known", "cores"), [(True, 8.0), (False, None)])
def test_the_cores_of_a_job_are_known_where_those_on_all_of_its_nodes_are(known: bool, cores: float | None) -> None:
    made = rig("gpu01", "gpu02", job1=[0])
    made.exporters[1].allocate("slurm/1", 0, start=made.now)
    if not known:
        made.exporters[1].host.clear()
    made.scrape(5)
    found = made.run_pass()["slurm/1"]
    assert found.job.nodes == ("gpu01", "gpu02")
    assert found.window(60).host.cpu_cores == (None if cores is None else pytest.approx(cores))


@pytest.mark.parametrize("scrape", range(1, 9))
def test_a_peak_between_two_points_that_are_kept_is_not_lost(scrape: int) -> None:
    """Memory that ran full for a moment, and a process that lasted as long."""
    made = rig(job1=[0])
    made.scrape(8)
    (item,) = made.exporters[0].allocations.values()
    for number in range(12):
        item.memory_used, item.processes = (130 * GIB, 3) if number == scrape else (20 * GIB, 0)
        made.scrape(1)
    (usage,) = made.run_pass()["slurm/1"].window(180).gpus
    assert (usage.memory_used, usage.processes, usage.share) == (130 * GIB, 3, 1)
    (later,) = made.run_pass()["slurm/1"].window(15).gpus
    assert (later.memory_used, later.processes) == (20 * GIB, 0)


def test_a_reading_that_is_missing_hides_none_between_the_same_points() -> None:
    made = rig(job1=[0])
    made.scrape(8)
    (item,) = made.exporters[0].allocations.values()
    for memory in (30 * GIB, None, None):
        item.memory_used = memory
        made.scrape(1)
    assert made.run_pass()["slurm/1"].window(60).gpus[0].memory_used == 30 * GIB


def test_days_of_scrapes_take_the_room_of_a_day_of_minutes() -> None:
    made = rig(job1=[0])
    for _ in range(40):
        made.now += 3600
        made.scrape(3)
        made.run_pass()
    (tracked,) = made.fleet.series.values()
    (host,) = made.fleet.hosts.values()
    assert len(tracked.history.times) <= 24 * 3 + 2
    assert len(host.times) <= 24 * 3 + 2
    assert made.run_pass()["slurm/1"].watched_from <= made.now - 86400


def names(evidence: Iterable[JobEvidence]) -> list[str]:
    return [item.job.id for item in evidence]


def test_jobs_come_in_a_fixed_order() -> None:
    made = rig(job3=[0], job1=[1], job2=[2])
    made.scrape()
    assert names(made.fleet.jobs(made.now)) == ["slurm/1", "slurm/2", "slurm/3"]
