"""Ownership as a scraper sees it: the exporter's own processes on a fake node."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.site import Site, wait_for
from tests.fakes.cgroup import Use
from tests.fakes.node import Work
from tests.fakes.nvml import Level

WAIT = 120.0


@pytest.fixture
def site(tmp_path, nvml_libraries):
    with Site(tmp_path, nvml_libraries, time_scale=20.0) as site:
        yield site


def series(exporter, name):
    """Labels and value of each series of one metric."""
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(exporter.metrics())
        for sample in family.samples
        if sample.name == name
    ]


def owners(exporter):
    return {(labels["gpu"], labels["workload"]): value for labels, value in series(exporter, "gpu_allocation")}


def test_every_kind_of_owner_is_published_with_its_share_its_names_and_its_host(site):
    node = site.add_node("n1", gpus=4, options=("--attribution.local", "--cluster=alps"))
    exporter = site.exporters["n1"]
    uuids = [gpu.uuid for gpu in node.driver.gpus]
    names = {"user": "ada", "account": "physics", "partition": "gpu"}
    exporter.prolog.start(12, uuids[:1], array_job_id=10, array_task_id=2, start=1_700_000_000, **names)
    exporter.prolog.start(13, uuids[3:], shared=True, user="ben")
    exporter.prolog.start(14, uuids[3:], shared=True, user="eve")
    node.slurm_job(12, {0: Level(0.9)}, Work(use=Use(cpu_cores=2), cpu_limit=8))
    node.pod("1b-2c", {1: Level(0.5)})
    shell = node.shell_job({2: Level(0.5)})
    node.start()
    exporter.start()
    expected = {("0", "slurm/10_2"): 1, ("1", "k8s///1b-2c"): 1, ("3", "slurm/13"): 0.5, ("3", "slurm/14"): 0.5}

    def local():
        return [workload for gpu, workload in owners(exporter) if gpu == "2"]

    wait_for(lambda: len(owners(exporter)) == 5, "five owners", within=WAIT)
    [name] = local()
    assert name.startswith(f"local/{shell.pids[0]}-")
    assert owners(exporter) == expected | {("2", name): 1}
    labels = {labels["workload"]: labels for labels, _ in series(exporter, "gpu_allocation")}["slurm/10_2"]
    assert {key: labels[key] for key in ("cluster", "scheduler", "job_id", *names)} == {
        "cluster": "alps",
        "scheduler": "slurm",
        "job_id": "10_2",
        **names,
    }
    starts = {labels["workload"]: start for labels, start in series(exporter, "gpu_allocation_start_timestamp_seconds")}
    assert starts["slurm/10_2"] == 1_700_000_000
    assert "slurm/13" not in starts
    limits = {labels["workload"]: limit for labels, limit in series(exporter, "workload_cpu_limit_cores")}
    assert limits["slurm/10_2"] == 8
    assert name not in limits
    assert [value for _, value in series(exporter, "dutycycle_exporter_attribution_failures_total")] == []

    exporter.prolog.end(13, uuids[3:], shared=True)
    shell.stop()
    del expected["3", "slurm/13"]
    expected["3", "slurm/14"] = 1
    wait_for(lambda: owners(exporter) == expected, "the ends of a file and of a process group", within=WAIT)
