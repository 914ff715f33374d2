"""Builds pods, their owners and their evidence for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dutycycle_alerter.kubernetes.model import Node, Owner, Pod, Reference, Snapshot
from dutycycle_alerter.model import Consumption, Gpu, JobEvidence
from tests.alerter.cases import LATER, START, evidence

TRAIN = Owner("ml", "PyTorchJob", "bert", "owner-1", "kubeflow.org", chain=("PyTorchJob",))
REFERENCE = Reference("kubeflow.org/v1", "PyTorchJob", "bert", "owner-1")


def pod(number: int = 0, **fields: Any) -> Pod:
    """A running worker with one GPU of the job `bert` in the namespace `ml`."""
    values: dict[str, Any] = {
        "namespace": "ml",
        "name": f"bert-worker-{number}",
        "uid": f"uid-{number}",
        "owner": REFERENCE,
        "node": "node0",
        "phase": "Running",
        "started": START,
        "gpus": 1,
    }
    return Pod(**(values | fields))


def known(*pods: Pod, owner: Owner = TRAIN, **fields: Any) -> Snapshot:
    """An API server that answers, and says that these pods are one job's."""
    values: dict[str, Any] = {
        "pods": {one.uid: one for one in pods},
        "owners": {one.uid: owner for one in pods},
        "nodes": {"node0": Node("node0", gpus=8)},
        "fresh": True,
        "read_at": LATER,
    }
    return Snapshot(**(values | fields))


def part(one: Pod, utilization: float | None, **fields: Any) -> JobEvidence:
    """What an exporter knows of one pod: its GPU has had this utilization for as long as anyone asks."""
    name = one.workload
    index = one.name.rpartition("-")[2]
    found = evidence(
        [utilization],
        id=name,
        scheduler="k8s",
        job_id="",
        user=one.namespace,
        namespace=one.namespace,
        pod=one.name,
        recent=(Consumption("H200", 60.0, 60.0, 60.0 * (utilization or 0.0)),),
        **fields,
    )
    gpu = Gpu(one.node or "node0", index, f"GPU-{one.node}-{index}", "", "H200")
    return replace(found, job=replace(found.job, gpus=(gpu,)))
