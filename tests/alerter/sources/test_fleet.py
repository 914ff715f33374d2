"""Evidence from scraped exporters: whose a GPU is, when a job has ended, and what it consumed, each once.

The exporters are fakes in simulated time; their pages are parsed as any other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.history import GPU_COUNTERS
from dutycycle_alerter.model import Consumption, JobEvidence, JobKind
from dutycycle_alerter.settings import JobMatch, KindMatch
from dutycycle_alerter.sources.exposition import SeriesKey, parse
from dutycycle_alerter.sources.fleet import Fleet
from dutycycle_alerter.store.counters import PointRow, SeriesRow
from tests.alerter.exporters import GIB, MODEL, FakeExporter

T0 = 1_750_000_000.0
INTERVAL = 15.0
RESOLUTION = 60.0

Kept = tuple[list[SeriesRow], dict[SeriesKey, list[PointRow]]]
"""What the store has: each series, and its points."""


@dataclass
class Rig:
    """A fleet over some exporters, and the time."""

    exporters: Sequence[FakeExporter]
    fleet: Fleet = field(default_factory=lambda: Fleet(INTERVAL, RESOLUTION))
    now: float = T0
    silent: set[str] = field(default_factory=set)
    consumed: list[tuple[str, Consumption]] = field(default_factory=list)

    def scrape(self, times: int = 1, utilization: float | dict[str, float | None] | None = 0.5) -> None:
        """Let an interval pass and read every exporter that answers, again and again."""
        for _ in range(times):
            self.now += INTERVAL
            for exporter in self.exporters:
                exporter.run(INTERVAL, utilization)
                if exporter.node not in self.silent:
                    self.fleet.ingest(parse(exporter.page()), self.now)

    def run_pass(self, *, commits: bool = True) -> dict[str, JobEvidence]:
        """Read the evidence as a pass does."""
        evidence = self.fleet.jobs(self.now)
        if commits:
            self.consumed += [(item.job.id, part) for item in evidence for part in item.recent]
            self.fleet.committed(self.now)
        return {item.job.id: item for item in evidence}

    def busy(self, workload: str = "slurm/1") -> float:
        """Busy seconds of a job that passes have accounted for."""
        return sum(part.busy for job, part in self.consumed if job == workload)

    def restarted(self, kept: Kept, watermark: float) -> "Rig":
        """Another alerter that goes on from what the store has."""
        rows, points = kept
        fleet = Fleet(INTERVAL, RESOLUTION)
        fleet.restore([(row, points.get(row.key, [])) for row in rows], {}, watermark, self.now)
        return Rig(self.exporters, fleet, self.now, self.silent, self.consumed)


def rig(*nodes: str, **allocations: Sequence[int]) -> Rig:
    """Exporters of nodes (gpu01 by default); workload `slurm/1` has the given GPUs of the first."""
    exporters = [FakeExporter(node) for node in nodes or ("gpu01",)]
    made = Rig(exporters)
    for number, gpus in allocations.items():
        exporters[0].allocate(f"slurm/{number.removeprefix('job')}", *gpus, start=T0)
    return made


# Who is who


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
    assert found["north/slurm/1"].window(900).host.cpu_cores == pytest.approx(4)
    assert made.busy("north/slurm/1") == made.busy("south/slurm/1") > 0
    made.exporters[0].end("slurm/1")
    made.scrape(3)
    assert made.run_pass()["north/slurm/1"].ended is not None
    assert set(made.run_pass()) == {"south/slurm/1"}


# The end of a job


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


# Consumption


def test_a_late_start_counts_nothing_from_before() -> None:
    made = rig(job1=[0])
    made.exporters[0].run(50_000, 1.0)
    made.scrape()
    assert made.run_pass()["slurm/1"].recent == ()
    made.scrape(2, 1.0)
    made.run_pass()
    assert made.busy() == 2 * INTERVAL


def test_consumption_is_told_by_model() -> None:
    made = rig(job1=(0, 1))
    made.exporters[0].allocate("slurm/1", 2, model="A100")
    made.scrape(2)
    made.scrape(3, 0.5)
    parts = {part.model: part for part in made.run_pass()["slurm/1"].recent}
    assert parts.keys() == {MODEL, "A100"}
    assert (parts["A100"].allocated, parts["A100"].observed, parts["A100"].busy) == (60, 60, 30)
    assert parts[MODEL].busy == 2 * parts["A100"].busy
    assert parts["A100"].energy == pytest.approx(60 * 370)


def test_a_pass_that_failed_leaves_its_consumption_to_the_next() -> None:
    made = rig(job1=[0])
    made.scrape()
    for _ in range(3):
        made.scrape(2, 1.0)
        (part,) = made.run_pass(commits=False)["slurm/1"].recent
    assert part.busy == 6 * INTERVAL
    made.run_pass()
    assert made.busy() == 6 * INTERVAL
    assert made.run_pass()["slurm/1"].recent == ()


def test_a_counter_that_is_missing_for_a_while_is_counted_once() -> None:
    """The pass in between must not begin it anew from zero."""
    made = rig(job1=[0])
    made.exporters[0].run(7000, 1.0)
    made.scrape(2, 1.0)
    made.run_pass()
    page = made.exporters[0].page()
    without = "".join(f"{line}\n" for line in page.splitlines() if "busy_seconds" not in line)
    made.now += INTERVAL
    made.fleet.ingest(parse(without), made.now)
    made.run_pass()
    made.scrape(2, 1.0)
    made.run_pass()
    assert made.busy() == INTERVAL + 2 * INTERVAL


def test_a_counter_that_appears_late_counts_from_there() -> None:
    made = rig(job1=[0])
    made.exporters[0].run(7000, 1.0)
    page = "".join(f"{line}\n" for line in made.exporters[0].page().splitlines() if "joules" not in line)
    made.fleet.ingest(parse(page), made.now)
    assert made.run_pass()["slurm/1"].recent == ()
    made.scrape(1, 1.0)
    (part,) = made.run_pass()["slurm/1"].recent
    assert part.energy is None or part.energy == 0
    made.scrape(1, 1.0)
    (part,) = made.run_pass()["slurm/1"].recent
    assert part.energy == pytest.approx(INTERVAL * 670)


ACTION = st.one_of(
    st.tuples(st.just("run"), st.floats(0.5, 500), st.sampled_from([None, 0.0, 0.3, 1.0])),
    st.tuples(st.just("scrape"), st.sampled_from([0, 1]), st.sampled_from(["", "busy", "observed", "allocated"])),
    st.tuples(st.just("pass"), st.booleans(), st.none()),
    st.tuples(st.just("restart"), st.sampled_from([0, 1]), st.none()),
    st.tuples(st.just("blink"), st.sampled_from([0, 1]), st.none()),
)


@settings(max_examples=200)
@given(st.lists(ACTION, max_size=40))
@example([("run", 1.0, 0.3), ("scrape", 0, "busy"), ("pass", True, None)])  # busy comes later than its time
def test_consumption_is_what_the_counters_grew_by_however_scrapes_passes_and_restarts_fall(
    actions: list[tuple[str, object, object]],
) -> None:
    """Two nodes, one job over both and one beside it: every growth that was scraped is counted once, and only once."""
    made = rig("gpu01", "gpu02", job1=[0], job2=[1])
    made.exporters[1].allocate("slurm/1", 0)
    last: dict[tuple[str, str, str], float] = {}
    grown: dict[tuple[str, str], float] = {}

    def scrape(node: int, without: str) -> None:
        made.now += 0.01
        page = "".join(
            f"{line}\n"
            for line in made.exporters[node].page().splitlines()
            if not without or f"workload_gpu_{without}_" not in line
        )
        exposition = parse(page)
        for (where, uuid, _, workload), owned in exposition.owned.items():
            for name, raw in zip(GPU_COUNTERS[:8], owned.counters, strict=True):
                if raw is not None:
                    before = last.get((where + uuid, workload, name), raw)
                    grown[workload, name] = grown.get((workload, name), 0.0) + (raw if raw < before else raw - before)
                    last[where + uuid, workload, name] = raw
        made.fleet.ingest(exposition, made.now)

    scrape(0, "")
    scrape(1, "")
    for kind, first, second in actions:
        if kind == "run":
            made.now += first  # type: ignore[operator]
            for exporter in made.exporters:
                exporter.run(first, second)  # type: ignore[arg-type]
        elif kind == "scrape":
            scrape(first, second)  # type: ignore[arg-type]
        elif kind == "pass":
            made.run_pass(commits=bool(first))
        elif kind == "restart":
            made.exporters[first].restart()  # type: ignore[call-overload]
        else:
            # One answer without any allocation: nothing ends, nothing is counted twice when it is back.
            owned = made.exporters[first].allocations  # type: ignore[call-overload]
            made.exporters[first].allocations = {}  # type: ignore[call-overload]
            scrape(first, "")  # type: ignore[arg-type]
            made.exporters[first].allocations = owned  # type: ignore[call-overload]
            scrape(first, "")  # type: ignore[arg-type]
    scrape(0, "")
    scrape(1, "")
    made.run_pass()
    for workload in ("slurm/1", "slurm/2"):
        for name in ("allocated", "observed", "busy"):
            counted = sum(getattr(part, name) for job, part in made.consumed if job == workload)
            assert counted == pytest.approx(grown[workload, name], rel=1e-9, abs=1e-6), (workload, name)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.4, 1.0]), st.integers(1, 6), st.booleans()), min_size=1, max_size=8))
def test_a_job_that_ends_was_counted_to_its_last_second(stretches: list[tuple[float, int, bool]]) -> None:
    """Its final counters stand on the page until its end has been judged."""
    made = rig(job1=(0, 1))
    made.scrape(1, 0.0)
    worked = 0.0
    for utilization, scrapes, passes in stretches:
        made.scrape(scrapes, utilization)
        worked += 2 * utilization * scrapes * INTERVAL
        if passes:
            made.run_pass()
    made.exporters[0].run(7, 1.0)  # after the last scrape that shows the allocation
    made.exporters[0].end("slurm/1")
    made.scrape(3)
    assert made.run_pass()["slurm/1"].ended is not None
    assert made.busy() == pytest.approx(worked + 2 * 7)
    made.scrape(3)
    assert made.run_pass() == {}


# A clock that is set back


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
    for _ in range(20):
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


# Restarts


def stored(made: Rig, scrapes: int, utilization: float) -> Kept:
    """Scrape, and keep one point per resolution as the source does; passes run once a minute."""
    rows: dict[SeriesKey, SeriesRow] = {}
    points: dict[SeriesKey, list[PointRow]] = {}
    saved = 0.0
    for number in range(scrapes):
        made.scrape(1, utilization)
        if made.now - saved >= RESOLUTION:
            series, hosts = made.fleet.unsaved()
            for row, point in series:
                rows[row.key] = row
                points.setdefault(row.key, []).append(point)
            made.fleet.saved(series, hosts)
            saved = made.now
        if number % 4 == 3:
            made.run_pass()
    return list(rows.values()), points


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


def names(evidence: Iterable[JobEvidence]) -> list[str]:
    return [item.job.id for item in evidence]


def test_jobs_come_in_a_fixed_order() -> None:
    made = rig(job3=[0], job1=[1], job2=[2])
    made.scrape()
    assert names(made.fleet.jobs(made.now)) == ["slurm/1", "slurm/2", "slurm/3"]
