"""The whole of /metrics, as text, for nodes that always do the same: what a scraper sees, reviewed line by line.

UPDATE_GOLDEN=1 pytest tests/exporter/test_golden.py     # rewrites the files; read the difference
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dutycycle_exporter.collected import COLLECTED
from dutycycle_exporter.contract import FAMILIES
from tests.fakes.cgroup import Use
from tests.fakes.node import Work
from tests.fakes.nvml import A100, H100, H200, RTX_3080_TI, V100, Level, Paused, Steps

GOLDEN = Path(__file__).parent / "golden"


def normalised(text):
    """Without what differs from run to run: how long the collectors took, when the thread that waits for XIDs was told,
    our version, and the last bits of sums.
    """
    text = re.sub(r"^(gpu_xid_last_timestamp_seconds\{.*\}) .*$", r"\1 TIME", text, flags=re.M)
    text = re.sub(r"^(dutycycle_exporter_collector_duration_seconds\{.*\}) .*$", r"\1 DURATION", text, flags=re.M)
    text = re.sub(r'(dutycycle_exporter_build_info\{version=)"[^"]*"', r'\1"VERSION"', text)
    return re.sub(r"(?<=\} )\d+\.\d{7,}$", lambda sum_: repr(round(float(sum_[0]), 6)), text, flags=re.M)


TRAINING = {"sm": 0.8, "occupancy": 0.3, "tensor": 0.4, "hmma": 0.4, "dram": 0.5, "fp16": 0.1}


def a100(make_rig):
    """Four A100 under Slurm: a stalled job of two, one that checkpoints, and one that has no process."""
    rig = make_rig(gpus=4, model=A100, name="n1").turn()
    for gpu in (0, 1):
        rig.allocate(gpu, 101, account="physics", partition="gpu", array_job_id=100, array_task_id=1)
    rig.allocate(3, 103, user="bob", uid=1001)
    work = Work(uid=1000, use=Use(cpu_cores=7.5, io_pressure=0.25), cpu_limit=8)
    rig.node.slurm_job(101, {0: Steps(10, 0.4), 1: Steps(10, 0.4)}, work)
    rig.node.slurm_job(102, {2: Paused(Level(0.9), every=60, length=40)}, Work(uid=1001))
    rig.node.driver.throttle(0, "sw_thermal", 0.25)
    rig.node.driver.remapped(2, corrected=1, uncorrected=0, pending=1, failure=0)
    rig.node.driver.ecc_errors(2, corrected=5, uncorrected=1)
    rig.node.driver.sram_errors(2, corrected=2, parity=1, threshold_exceeded=True)
    rig.node.driver.xid(2, 94)
    return rig.turn(60)


def h200(make_rig):
    """Two H200 with everything on and a driver that counts cycles: one trains, a process on it has ended."""
    rig = make_rig(gpus=2, model=H200, name="n2", collect=frozenset(COLLECTED))
    rig.node.driver.set_driver("595.45.04", cuda=13020)
    rig.reader.close()
    rig.reader = rig.new_reader(frozenset(COLLECTED))
    rig.node.driver.accounting(0, True)
    rig.turn()
    rig.allocate(0, 201, account="physics", partition="gpu")
    rig.node.slurm_job(201, {0: Level(0.9)}, Work(uid=1000, activity=TRAINING))
    first = rig.node.slurm_job(201, {0: Steps(2, 0.5)}, Work(uid=1000, command=("python", "warm.py")))
    rig.node.driver.gpm_excess(0, 1.5)
    rig.turn(5)
    first.stop()
    rig.node.driver.xid(0, 79)
    return rig.turn(55)


def mig(make_rig):
    """One H100 in MIG mode and one that is not: a job has one of the instances, a pod's process runs on another."""
    rig = make_rig(gpus=2, model=H100, name="n3")
    _, large, _ = rig.node.driver.set_mig(0, ["1g.10gb", "3g.40gb", "1g.10gb"])
    rig.turn()
    rig.allocate(large, 301, account="physics", partition="mig")
    rig.node.slurm_job(301, {(0, 1): Steps(10, 0.5)}, Work(activity=TRAINING))
    rig.node.pod("0f3c9d7e-6f0e-4b43-9f43-1d4cf1a2b3c4", {(0, 0): Level(0.25)}, Work(memory=2**30))
    return rig.turn(60)


def shared_gpu(make_rig):
    """Two consumer GPUs: three pods share the first, of which one idles; the second has run out of work."""
    rig = make_rig(gpus=0, name="n4")
    for _ in range(2):
        gpu = rig.node.driver.add_gpu(RTX_3080_TI, samples_when_idle=False)
        rig.node.pci.add(gpu.bus_id)
    rig.turn()
    rig.node.pod("0f3c9d7e-6f0e-4b43-9f43-1d4cf1a2b3c4", {0: Level(0.25)}, Work(memory=2**30))
    rig.node.pod("7b1c2d3e-4f50-4161-8273-849596a7b8c9", {0: Level(0.5)}, Work(memory=2**31))
    rig.node.pod("aa1c2d3e-4f50-4161-8273-849596a7b8c9", {0: Level(0.0)}, Work(memory=2**29))
    return rig.turn(60)


def workstation(make_rig):
    """An A100 and a V100 without any scheduler: the first is nobody's, on the second somebody computes."""
    rig = make_rig(gpus=1, model=A100, name="n5", local=True)
    rig.node.pci.add(rig.node.driver.add_gpu(V100).bus_id)
    rig.turn()
    rig.node.driver.retired_pages(1, sbe=2, dbe=1, pending=0)
    work = Work(uid=1001, command=("/usr/bin/python3", "train.py"), use=Use(cpu_cores=2.5))
    rig.node.shell_job({1: Steps(2, 0.3)}, work)
    return rig.turn(60)


NODES = (a100, h200, mig, shared_gpu, workstation)


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
def test_metrics_of_a_node(node, make_rig):
    text = normalised(node(make_rig).text())
    path = GOLDEN / f"{node.__name__}.prom"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.fixture(params=NODES, ids=lambda node: node.__name__)
def golden(request):
    return (GOLDEN / f"{request.param.__name__}.prom").read_text().replace("DURATION", "0").replace("TIME", "0")


def test_promtool_finds_nothing_to_complain_about(golden):
    # Beside the interpreter of the virtual environment, where `make test` puts it.
    promtool = shutil.which("promtool", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if promtool is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is missing; CI must check /metrics with it")
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=golden, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_family_is_the_contracts_and_says_what_it_is(golden):
    """Kind, labels and help of each, in the contract's order; counters end in _total; no series is there twice."""
    families = list(text_string_to_metric_families(golden))
    published = [FAMILIES.get(family.name) or FAMILIES[f"{family.name}_total"] for family in families]
    assert published == [family for family in FAMILIES.values() if family in published]
    series = set()
    for family, declared in zip(families, published, strict=True):
        assert (family.type, family.documentation) == (declared.kind, declared.help)
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(declared.labels)
            assert sample.name.endswith("_total") == (declared.kind == "counter")
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in series
            series.add(key)
    typed = re.findall(r"^# TYPE (\S+)", golden, flags=re.M)
    assert typed == re.findall(r"^# HELP (\S+)", golden, flags=re.M)
    assert {line.split("{")[0].split(" ")[0] for line in golden.splitlines() if line[0] != "#"} <= {
        *typed,
        *(f"{name}{end}" for name in typed for end in ("_bucket", "_count", "_sum")),
    }


def test_parsed_and_written_again_it_is_the_same(golden):
    registry = CollectorRegistry(auto_describe=False)
    families = list(text_string_to_metric_families(golden))
    registry.register(Families(families))
    again = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert [family.samples for family in again] == [family.samples for family in families]


class Families:
    """A collector of families that are there already."""

    def __init__(self, families):
        self._families = families

    def describe(self):
        return []

    def collect(self):
        return self._families


def test_together_they_show_every_family_that_there_is():
    """But what only failures bring, and pods whose labels the API server tells."""
    text = "".join((GOLDEN / f"{node.__name__}.prom").read_text() for node in NODES)
    missing = {name for name in FAMILIES if f"# TYPE {name} " not in text}
    assert missing == {
        "workload_label",
        "dutycycle_exporter_attribution_failures_total",
        "dutycycle_exporter_read_failures_total",
        "dutycycle_exporter_samples_dropped_total",
    }
