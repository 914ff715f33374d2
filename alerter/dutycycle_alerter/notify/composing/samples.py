"""Made-up parcels of every kind, with which a site's templates are tried before anything is to be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dutycycle_alerter.incidents.model import (
    Cause,
    Diagnosis,
    Incident,
    OpenRule,
    Resolution,
    Severity,
    State,
)
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.composing.content import Report, Table
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind, Picture, Recipient, Telling, To
from dutycycle_alerter.settings.notify import News

_AT = 1_790_000_000.0
_OWNER = Recipient(To.OWNER, "alice")
_BECAUSE = "all GPUs of the job were idle for at least 2 h"
_UNSUBSCRIBE = "https://gpus.example.org/unsubscribe/AXUA"


@dataclass(frozen=True, slots=True)
class Sample:
    """A parcel and what comes with it."""

    parcel: Parcel
    unsubscribe: str = ""
    pictures: Mapping[int, Picture] = field(default_factory=dict)
    report: Report | None = None


def samples() -> list[Sample]:
    """To owners and operators: opened, changed, resolved, hesitating, of a GPU, several, a digest, a report, a test."""
    idle, pods, over, device = _idle(), _pods(), _over(), _device()
    incidents, picture = ParcelKind.INCIDENTS, Picture("incident-1", b"", "Mean utilization of each GPU: node1:0 0 %.")
    return [
        Sample(Parcel("1", incidents, _OWNER, (replace(idle, because=_BECAUSE),), _AT), pictures={1: picture}),
        Sample(Parcel("2", incidents, OPERATORS, (idle,), _AT)),
        Sample(Parcel("3", incidents, OPERATORS, (pods,), _AT)),
        Sample(Parcel("4", incidents, _OWNER, (over,), _AT), _UNSUBSCRIBE),
        Sample(Parcel("5", incidents, OPERATORS, (device,), _AT)),
        Sample(Parcel("6", incidents, OPERATORS, (idle, over, device), _AT)),
        Sample(Parcel("7", incidents, OPERATORS, (idle, pods, over, device), _AT)),
        Sample(Parcel("8", ParcelKind.DIGEST, OPERATORS, (idle, over) * 10, _AT)),
        Sample(Parcel("9", ParcelKind.REPORT, OPERATORS, (), _AT, report=(_AT - 7 * 86400, _AT)), report=_REPORT),
        Sample(Parcel("10", ParcelKind.TEST, OPERATORS, (), _AT)),
    ]


_REPORT = Report(
    "GPUs from 1 to 8 Nov",
    ("120 GPU-hours were wasted.",),
    (Table("Users who wasted most", ("User", "GPU-hours"), (False, True), (("alice", "100"), ("bob", "20")), 3),),
    "users",
    "A histogram of users by mean utilization.",
)


def _idle() -> Item:
    gpus = tuple(Gpu(f"node{1 + n // 4}", str(n % 4), f"GPU-{n}", model="H100") for n in range(8))
    diagnosis = Diagnosis(
        (Cause.NO_PROCESS,),
        ("all 8 GPUs at 0 % utilization over 2 h", "no process holds a GPU"),
        ("Cancel the job if nothing will start in it any more.",),
        commands=("srun --jobid=4711 --overlap nvidia-smi", "scancel 4711"),
    )
    incident = Incident(
        id=1,
        subject="slurm/4711",
        rule="idle",
        severity=Severity.CRITICAL,
        state=State.OPEN,
        started_at=_AT - 7200,
        opened_at=_AT - 5400,
        updated_at=_AT,
        diagnosis=diagnosis,
        gpus=gpus,
        rules=(OpenRule("idle", _AT - 5400, Severity.CRITICAL), OpenRule("underused", _AT - 5400, Severity.WARNING)),
        job_gpus=8,
        cluster="lab",
        scheduler="slurm",
        user="alice",
        account="physics",
        partition="gpu",
        wasted=57_600.0,
        energy=4e6,
    )
    return Item(incident, (Telling(News.OPENED, _AT - 5400), Telling(News.ESCALATED, _AT)))


def _pods() -> Item:
    incident = _idle().incident
    gpus = tuple(replace(gpu, workload=f"k8s/ml/train-{n}/uid-{n}") for n, gpu in enumerate(incident.gpus))
    causes = (Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK)
    diagnosis = replace(incident.diagnosis, causes=causes, tell_apart="data loading: it rises; small work: it stays.")
    changed = replace(
        incident,
        id=2,
        rule="stalled",
        subject="lab/k8s/ml/PyTorchJob/train/uid",
        scheduler="k8s",
        namespace="ml",
        gpus=gpus,
        job_gpus=16,
        state=State.ACKNOWLEDGED,
        actor="bob",
        diagnosis=diagnosis,
    )
    return Item(changed, (Telling(News.UPDATED, _AT, "I look into it", "bob"),))


def _over() -> Item:
    incident = replace(
        _idle().incident, id=3, state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=_AT, rules=()
    )
    return Item(incident, (Telling(News.RESOLVED, _AT, "the job ended: COMPLETED"),))


def _device() -> Item:
    incident = Incident(
        id=4,
        subject="gpu/node1/GPU-0",
        rule="gpu_fault",
        severity=Severity.CRITICAL,
        state=State.OPEN,
        started_at=_AT - 60,
        opened_at=_AT - 60,
        updated_at=_AT,
        diagnosis=Diagnosis((Cause.FAULT,), ("XID 79",), ("Reboot the node.",), commands=("dmesg",)),
        gpus=(Gpu("node1", "0", "GPU-0"),),
        rules=(OpenRule("gpu_fault", _AT - 60, Severity.CRITICAL),),
        kind="gpu_fault",
        figures={"xid": 79.0},
    )
    return Item(incident, (Telling(News.OPENED, _AT - 60),))
