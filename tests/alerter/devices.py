"""Builds evidence of GPUs and nodes for tests: healthy unless something else is said."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.incidents.device_lifecycle import advance_device, gpu_subject, node_subject
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import DeviceWindow, Gpu, GpuEvidence, NodeEvidence
from dutycycle_alerter.rules.device_diagnosis import diagnose_gpu, diagnose_node
from dutycycle_alerter.rules.device_fault import judge_gpu_fault, judge_node_fault
from dutycycle_alerter.rules.device_memory import judge_leaked_memory
from dutycycle_alerter.rules.device_throttled import judge_throttled
from tests.alerter.cases import LATER, SETTINGS, START

GIB = 2.0**30
MIB = 2.0**20
BASELINE = 0.5 * GIB
GPU = Gpu("node0", "3", "GPU-3", model="H200")
INSTANCE = replace(GPU, mig="MIG-a")


def device(
    gpu: Gpu = GPU,
    *,
    at: float = LATER,
    memory: float | None = BASELINE,
    processes: float | None = 0.0,
    allocated: bool | None = False,
    thermal: float | None = 0.0,
    power_cap: float | None = 0.0,
    utilization: float | None = 0.0,
    now: float | None = None,
    **fields: object,
) -> GpuEvidence:
    """A GPU that was like this over every window; `now` is its present memory, where it differs."""

    def window(length: float) -> DeviceWindow:
        return DeviceWindow(length, memory, processes, allocated, thermal, power_cap, utilization)

    values: dict[str, object] = {
        "watched_from": START,
        "memory_used": memory if now is None else now,
        "memory_total": 141 * GIB,
        "memory_baseline": BASELINE,
    }
    return GpuEvidence(gpu, at, window, **(values | fields))  # type: ignore[arg-type]


def incident_of(evidence: GpuEvidence | NodeEvidence, rule: str = "gpu_fault", number: int = 7) -> Incident:
    """What a pass opens on evidence that fires."""
    if isinstance(evidence, NodeEvidence):
        verdict = judge_node_fault(evidence, SETTINGS)
        subject, diagnosis = node_subject(evidence.node, whole=8), diagnose_node(verdict, evidence.node, [])
    else:
        judges = {"gpu_fault": judge_gpu_fault, "leaked_memory": judge_leaked_memory, "throttled": judge_throttled}
        verdict = judges[rule](evidence, SETTINGS)
        subject = gpu_subject(evidence.gpu)
        diagnosis = diagnose_gpu(verdict, evidence.gpu, jobs=evidence.jobs)
    incident = advance_device(None, subject, verdict, lambda: diagnosis, SETTINGS, now=evidence.at).incident
    assert incident is not None
    return replace(incident, id=number)


def one_of_each() -> list[Incident]:
    """An incident of every class, numbered from 1: an XID, what a driver asks for, a lost GPU, a leak, heat, power."""
    return [
        incident_of(device(xids={95: LATER - 60}, jobs=("slurm/41207",)), number=1),
        incident_of(device(recovery_action=1.0), number=2),
        incident_of(NodeEvidence("node1", LATER, 8, 6), number=3),
        incident_of(device(INSTANCE, memory=9 * GIB), "leaked_memory", 4),
        incident_of(device(thermal=0.2), "throttled", 5),
        incident_of(device(replace(GPU, uuid="GPU-9"), power_cap=0.8), "throttled", 6),
    ]
