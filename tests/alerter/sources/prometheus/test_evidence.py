"""Evidence that a real Prometheus gives is that of the scripted past, and the same as the scrape source's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from dutycycle_alerter.model import Evidence, GpuEvidence, JobEvidence, Usage
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.rules.units import memory_ratio
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.views import TargetStatus
from tests.alerter.exporters import GIB
from tests.alerter.sources.prometheus.conftest import Story
from tests.alerter.sources.prometheus.past import START, Past


@dataclass
class Seen:
    """What was seen, and by what."""

    evidence: Evidence
    targets: tuple[TargetStatus, ...]
    settings: Settings
    past: Past
    at: float

    def job(self, job: str) -> JobEvidence:
        return next(item for item in self.evidence.jobs if item.job.id == job)

    def usage(self, job: str, window: float = 900) -> Usage:
        (usage,) = self.job(job).window(window).gpus
        return usage

    def gpu(self, node: str, index: int) -> GpuEvidence:
        gpus = self.evidence.gpus
        return next(item for item in gpus if (item.gpu.node, item.gpu.index) == (node, str(index)))


SHARDS = ['node=~"gpu0[12]"', 'node!~"gpu0[12]"']
"""slurm/12 has GPUs in both."""


@pytest.fixture(scope="module", params=["prometheus", "prometheus in shards", "victoriametrics"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, story: Story) -> Iterator[Seen]:
    server = request.getfixturevalue(request.param.split()[0])
    directory = tmp_path_factory.mktemp("store")
    section = {"url": server.url, "scrape_interval": story.past.interval}
    if request.param.endswith("shards"):
        section |= {"shards": SHARDS}
    settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{directory}/a.sqlite3"})
    database = open_database(settings.database)
    source = PrometheusSource(settings.scaled(), database)
    with source.evidence(story.at) as evidence:
        yield Seen(evidence, source.targets(), settings.scaled(), story.past, story.at)
    source.close()
    database.close()


def about(value: float) -> object:
    """An engine extrapolates to the edges of a window, or counts one sample more."""
    return pytest.approx(value, rel=0.04, abs=1e-6)


def test_every_job_is_there_with_its_gpus_and_owner(seen: Seen) -> None:
    assert {item.job.id for item in seen.evidence.jobs} == {f"slurm/{n}" for n in range(1, 14)} - {"slurm/5"}
    job = seen.job("slurm/1").job
    assert [(gpu.node, gpu.index, gpu.uuid, gpu.model) for gpu in job.gpus] == [
        ("gpu01", "0", "GPU-gpu01-0", "NVIDIA H200"),
        ("gpu01", "1", "GPU-gpu01-1", "NVIDIA H200"),
    ]
    assert (job.user, job.account, job.scheduler, job.job_id) == ('o"brien\\', "x\ny", "slurm", "1")
    assert (job.start, job.first_process) == (START, START + 5)
    assert seen.job("slurm/2").job.first_process is None
    assert seen.job("slurm/12").job.nodes == ("gpu02", "gpu03")


@pytest.mark.parametrize("window", [900.0, 1800.0])
def test_what_a_job_did_is_what_the_scrape_source_saw(seen: Seen, window: float) -> None:
    """The same pages, read in both ways."""
    scraped = {item.job.id: item for item in seen.past.fleet.evidence(seen.at).jobs}
    for job in ("slurm/1", "slurm/2", "slurm/3", "slurm/4", "slurm/6", "slurm/9", "slurm/12", "slurm/13"):
        ours, theirs = seen.job(job).window(window), scraped[job].window(window)
        for mine, other in zip(ours.gpus, theirs.gpus, strict=True):
            for name in ("observed", "busy", "gap_lt2", "gap_2to30", "gap_30to600", "gap_ge600", "energy", "sm"):
                expected = getattr(other, name)
                assert getattr(mine, name) == (None if expected is None else about(expected)), (job, name)
            # It is asked for over the window of `underused` alone.
            assert mine.low == (about(other.low) if window == 1800 else None), job
        assert ours.host.cpu_cores == about(theirs.host.cpu_cores or 0)
        assert ours.host.cpu_of_limit == about(0.25)
        assert ours.host.io_pressure == about(0.25)
        assert ours.host.cpu_pressure == 0


def test_windows_hold_what_happened_in_them(seen: Seen) -> None:
    usage = seen.job("slurm/1").window(900).gpus[0]
    assert (usage.observed, usage.busy, usage.share) == (about(900), about(450), 1)
    assert (usage.gap_lt2, usage.gap_2to30, usage.gap_30to600) == (about(90), about(45), 0)
    assert (usage.sm, usage.tensor, usage.dram) == (about(180), about(90), about(135))
    assert (usage.power_limit, usage.memory_total) == (700, 141 * GIB)
    assert usage.idle_power == 65
    # By its last minutes is told what holds the GPUs of a job that does nothing.
    assert usage.processes == 2
    usage = seen.job("slurm/1").window(1800).gpus[0]
    assert (usage.memory_used, usage.processes) == (20 * GIB, 2)
    usage = seen.job("slurm/1").window(7200).gpus[0]
    assert (usage.observed, usage.busy) == (about(7200), about(3600))
    # It also has what a job held in its first hours, to show which GPUs were never used.
    assert (usage.memory_used, usage.processes) == (30 * GIB, 2)


def test_the_most_memory_of_a_life_is_known_where_the_longest_window_holds_all_of_that(seen: Seen) -> None:
    """At a first pass; later ones know what they read before."""
    known = {}
    for item in seen.evidence.jobs:
        in_window = memory_ratio(item.window(7200).gpus)
        whole = seen.at - max(item.job.start, item.watched_from) < 7200
        found = None if item.memory_peak is None else item.memory_peak.share
        assert found == (in_window if whole else None), item.job.id
        known[found is not None] = item
    assert set(known) == {True, False}


def test_what_a_host_did_in_a_part_of_a_window_is_not_what_it_did_in_the_window(seen: Seen) -> None:
    """Ten minutes, of which a quarter was spent waiting, would be a sixth of the quarter of an hour."""
    (scraped,) = (item for item in seen.past.fleet.evidence(seen.at).jobs if item.job.id == "slurm/8")
    for host in (seen.job("slurm/8").window(900).host, scraped.window(900).host):
        assert (host.cpu_cores, host.cpu_of_limit, host.io_pressure, host.cpu_pressure) == (None,) * 4
    assert scraped.window(300).host.io_pressure == about(0.25)


def test_a_trace_of_use_is_not_rounded_to_idleness(seen: Seen) -> None:
    """A job at 0.04 % was once cancelled for a mean that was rounded to 0."""
    for window in (900, 1800, 7200):
        assert seen.usage("slurm/2", window).utilization == about(0.0004)


def test_who_shares_a_gpu_is_measured_apart(seen: Seen) -> None:
    busy, idle = seen.usage("slurm/3"), seen.usage("slurm/4")
    assert (busy.share, busy.observed, busy.busy) == (0.5, about(450), about(360))
    assert (idle.share, idle.observed, idle.busy) == (0.5, about(450), 0)
    assert seen.gpu("gpu01", 3).jobs == ("slurm/3", "slurm/4")


def test_low_samples_are_counted_for_each_holder(seen: Seen) -> None:
    found = {number: seen.usage(f"slurm/{number}", 1800) for number in (2, 3, 4, 7)}
    assert {number: usage.low for number, usage in found.items()} == {
        2: about(1800), 3: 0, 4: about(found[4].observed), 7: 0
    }  # fmt: skip


def test_a_tenant_before_leaves_no_trace(seen: Seen) -> None:
    """slurm/5 kept the GPU busy in the same two hours."""
    assert seen.usage("slurm/6", 1800).utilization == 0
    assert seen.usage("slurm/6", 7200).utilization == 0
    assert judge(seen.job("slurm/6"), seen.settings.judging).verdict("idle").outcome is Outcome.FIRING


def test_a_restarted_exporter_costs_no_evidence(seen: Seen) -> None:
    """Half an hour ago its counters began at 0 again."""
    usage = seen.usage("slurm/7", 1800)
    assert (usage.observed, usage.utilization) == (about(1800), about(0.6))


def test_a_gap_in_scraping_is_bridged(seen: Seen) -> None:
    assert seen.usage("slurm/9", 900).observed == about(900)
    assert seen.usage("slurm/9", 900).utilization == about(0.3)


def test_what_was_not_measured_is_unknown_and_not_idle(seen: Seen) -> None:
    assert seen.usage("slurm/8", 1800).observed == 0
    verdict = judge(seen.job("slurm/8"), seen.settings.judging).verdict("idle")
    assert verdict.outcome is Outcome.UNKNOWN
    assert seen.usage("slurm/2", 900).sm is None
    assert seen.usage("slurm/8", 900).throttle_thermal is None


@pytest.mark.parametrize("job", ["slurm/10", "slurm/11"])
def test_a_job_whose_exporter_is_silent_is_unknown_and_not_over(seen: Seen, job: str) -> None:
    item = seen.job(job)
    assert (item.ended, item.visible) == (None, False)
    assert not judge(item, seen.settings.judging).informed


def test_twice_the_same_series_count_once_and_are_told(seen: Seen) -> None:
    usage = seen.usage("slurm/13", 900)
    assert (usage.observed, usage.busy) == (about(900), about(360))
    assert (usage.gap_lt2, usage.link_bytes) == (about(90), about(900e9))
    assert "1 allocations are there twice" in seen.targets[0].note
    assert seen.targets[0].error == ""


def test_links_are_nvlink_or_else_pcie_and_throttling_the_kinds_of_heat_or_else_the_one(seen: Seen) -> None:
    first, second = seen.job("slurm/1").window(900).gpus
    assert (first.link_bytes, second.link_bytes) == (about(900e9), about(900e9))
    assert (first.throttle_thermal, second.throttle_thermal) == (about(90), about(180))
    assert seen.usage("slurm/3", 900).throttle_thermal == about(90)


def test_jobs_were_watched_for_as_long_as_the_engine_has_them(seen: Seen) -> None:
    assert seen.job("slurm/1").watched_from == seen.at - 7200
    # Not before its allocation; the two hours before were another's.
    assert seen.job("slurm/6").watched_from == seen.at - 1800


def test_gpus_and_nodes_are_as_they_say(seen: Seen) -> None:
    leaked, healthy = seen.gpu("gpu01", 7), seen.gpu("gpu02", 3)
    assert (leaked.memory_used, leaked.memory_total, leaked.memory_baseline) == (10 * GIB, 141 * GIB, 0.5 * GIB)
    window = leaked.window(900)
    assert (window.memory_used, window.processes, window.allocated, window.utilization) == (10 * GIB, 0, False, 0)
    assert (window.throttle_thermal, window.throttle_power) == (about(0.2), about(0.1))
    assert healthy.window(900).memory_used == 0.5 * GIB
    assert seen.gpu("gpu01", 0).window(900).allocated is True
    assert seen.gpu("gpu01", 6).window(900).throttle_thermal is None
    ill = seen.gpu("gpu01", 5)
    assert (ill.recovery_action, ill.remap_failed, list(ill.xids)) == (2, False, [79])
    assert seen.gpu("gpu02", 2).remap_failed is True
    assert (healthy.recovery_action, healthy.remap_failed, healthy.visible) == (0, False, True)
    assert healthy.watched_from == seen.at - 900
    quiet = seen.gpu("gpu04", 0)
    assert (quiet.visible, quiet.recovery_action) == (False, None)
    nodes = {item.node: (item.expected, item.visible) for item in seen.evidence.nodes}
    assert nodes["gpu01"] == (8, 8)
    assert nodes["gpu03"] == (5, 4)
    assert nodes["gpu04"] == (None, None)


def test_a_pass_does_not_move_the_usage_ledger_back_or_ahead(seen: Seen) -> None:
    """Nothing was accounted for before: counting begins two scrapes ago."""
    assert seen.evidence.accounted_until == seen.at - 120
    assert all(item.recent == () for item in seen.evidence.jobs)
