"""Parcels of tests: incidents as the rules make them of evidence, at a fixed time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Incident, OpenRule, Resolution, Severity, State
from dutycycle_alerter.model import Gpu, JobEvidence
from dutycycle_alerter.notify.composing import Composition
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind, Recipient, Telling, To
from dutycycle_alerter.reports.model import RuleOutcomes, WhereHours
from dutycycle_alerter.reports.weekly import WeeklyReport
from dutycycle_alerter.rules import judge
from dutycycle_alerter.rules.device_diagnosis import diagnose_gpu
from dutycycle_alerter.rules.device_fault import judge_gpu_fault
from dutycycle_alerter.settings import Costs, Settings
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.usage import GroupUsage
from dutycycle_alerter.views import GpuSeries, Point
from tests.alerter.cases import LATER, SETTINGS, evidence, job
from tests.alerter.devices import device
from tests.alerter.rules.test_rules import NO_GAPS, gaps

SITE = {
    "web": {"public_url": "https://gpus.example.org"},
    "costs": {"gpu_hour": 2.5, "currency": "EUR", "co2_grams_per_kwh": 380},
    "notify": {
        "timezone": "Europe/Oslo",
        "dashboard_url": "https://grafana.example.org/d/job?var-user={user}&var-job={job}&from={from}&to={to}",
    },
}
ALICE = Recipient(To.OWNER, "alice")
NOW = LATER + 600
IDLE_LONG = "all GPUs of the job were idle for at least 2 h"
WASTED = "your jobs together wasted more than 24 GPU-hours within 7 d"
UNSUBSCRIBE = "https://gpus.example.org/unsubscribe/AXUA"


def settings(**changes: object) -> Settings:
    """The site's settings, scaled."""
    return Settings.model_validate(SITE | changes).scaled()


def composition(chosen: Settings | None = None, **parts: object) -> Composition:
    """The site's composer; its links are the same in every run."""
    chosen = chosen or settings()
    links = Links(chosen.web.public_url, b"k" * 32, chosen.notify.dashboard_url)
    return Composition(chosen, links, **parts)  # type: ignore[arg-type]


def opened(item: JobEvidence, **changes: object) -> Incident:
    """The incident that the rules open on this evidence."""
    incident = advance(None, judge(item, SETTINGS), SETTINGS).incident
    assert incident is not None
    # Since the evidence was read, it went on in the same way.
    wasted = incident.wasted * (NOW - incident.started_at) / (LATER - incident.started_at)
    return replace(incident, **({"id": 7, "wasted": wasted, "energy": 1.9e6} | changes))  # type: ignore[arg-type]


def idle_on_slurm() -> Incident:
    """Eight idle GPUs that no process holds, for two hours."""
    whole = job(8, nodes=2, id="slurm/4711", job_id="4711", account="physics", partition="h200", cpus=64.0)
    return opened(evidence([0.0] * 8, the_job=whole, gpu_fields=NO_GAPS | {"processes": 0.0}))


def partly_on_kubernetes() -> Incident:
    """Three of four pods' GPUs do nothing."""
    gpus = tuple(
        Gpu(f"worker{1 + n // 2}", str(n % 2), f"GPU-{n}", "", "H100", f"k8s/vision/train-{n}/uid-{n}")
        for n in range(4)
    )
    values = {"id": "lab/k8s/vision/PyTorchJob/train/8e1f", "cluster": "lab", "scheduler": "k8s", "namespace": "vision"}
    owner = {"pod": "train-0", "owner": "PyTorchJob", "owner_group": "kubeflow.org", "name": "train", "job_id": ""}
    whole = replace(job(4), gpus=gpus, **(values | owner))  # type: ignore[arg-type]
    return opened(
        evidence([0.8, 0.0, 0.0, 0.0], the_job=whole, gpu_fields=NO_GAPS), workloads=tuple(g.workload for g in gpus)
    )


def hesitating() -> Incident:
    """GPUs that wait, and nothing says for what."""
    whole = job(4, id="slurm/4800", job_id="4800")
    return opened(evidence([0.4] * 4, the_job=whole, gpu_fields=gaps(0.4)), id=8)


def fault() -> Incident:
    """A GPU that has fallen off the bus."""
    found = device(xids={79: LATER}, jobs=("slurm/4711",))
    verdict = judge_gpu_fault(found, SETTINGS)
    return Incident(
        subject="gpu/node7/GPU-7",
        rule="gpu_fault",
        severity=Severity.CRITICAL,
        state=State.OPEN,
        started_at=LATER,
        opened_at=LATER,
        updated_at=LATER,
        diagnosis=diagnose_gpu(verdict, found.gpu, jobs=found.jobs, schedulers=("slurm",)),
        gpus=(found.gpu,),
        rules=(OpenRule("gpu_fault", LATER, Severity.CRITICAL),),
        id=9,
        kind="gpu_fault",
        figures=dict(verdict.figures),
    )


def told(incident: Incident, *tellings: Telling, to: Recipient = OPERATORS, because: str = "") -> Parcel:
    """One incident to somebody."""
    return Parcel("key-1", ParcelKind.INCIDENTS, to, (Item(incident, tellings, because=because),), NOW)


def resolved(incident: Incident) -> Incident:
    """Its job has ended."""
    over = LATER + 300
    wasted = incident.wasted * (over - incident.started_at) / (NOW - incident.started_at)
    return replace(
        incident, state=State.RESOLVED, resolution=Resolution.ENDED, resolved_at=over, wasted=wasted, rules=()
    )


def many(number: int) -> tuple[Item, ...]:
    """Incidents of several rules and users, one wasting more than the other."""
    kinds = [idle_on_slurm(), hesitating(), partly_on_kubernetes()]
    return tuple(
        Item(
            replace(
                kinds[n % 3],
                id=100 + n,
                subject=f"slurm/{5000 + n}",
                cluster="",
                user=f"user{n % 7}",
                wasted=3600.0 * n,
            ),
            (Telling(News.OPENED, LATER),),
        )
        for n in range(number)
    )


def parcels() -> dict[str, Parcel]:
    """Every case that has golden messages."""
    idle, noticed = idle_on_slurm(), Telling(News.OPENED, LATER)
    critical = replace(
        idle, severity=Severity.CRITICAL, rules=tuple(replace(rule, severity=Severity.CRITICAL) for rule in idle.rules)
    )
    acknowledged = replace(hesitating(), state=State.ACKNOWLEDGED, actor="bob")
    return {
        "idle-owner": told(idle, noticed, to=ALICE, because=IDLE_LONG),
        "partly-idle-kubernetes": told(partly_on_kubernetes(), noticed),
        "hesitation": told(hesitating(), noticed, to=ALICE, because=WASTED),
        "acknowledged": told(acknowledged, Telling(News.UPDATED, LATER + 60, "I ask her", "bob")),
        "device-fault": told(fault(), noticed),
        "escalated": told(critical, Telling(News.ESCALATED, LATER + 60), to=ALICE, because=WASTED),
        "resolved": told(resolved(idle), Telling(News.RESOLVED, LATER + 300, "the job ended: COMPLETED"), to=ALICE),
        "three": Parcel(
            "key-3",
            ParcelKind.INCIDENTS,
            OPERATORS,
            (Item(fault(), (noticed,)), Item(idle, (noticed,)), Item(hesitating(), (noticed,))),
            NOW,
        ),
        "digest": Parcel("key-30", ParcelKind.DIGEST, OPERATORS, (*many(30), Item(fault(), (noticed,))), NOW),
        "weekly": Parcel("key-w", ParcelKind.REPORT, OPERATORS, (), NOW, report=(NOW - 7 * 86400, NOW)),
        "test": Parcel("key-t", ParcelKind.TEST, OPERATORS, (), NOW),
    }


def weekly(since: float, until: float) -> WeeklyReport:
    """A week of three users, one of whom has a name that is no name."""
    people = tuple(
        GroupUsage(name, 3600.0 * hours, 3600.0 * hours, 36.0 * hours * mean, energy=1e7, idle=0.0, jobs=3, incidents=1)
        for name, hours, mean in (("alice", 400, 4), ("<b>bob</b>", 100, 61), ("", 20, 93))
    )
    totals = GroupUsage("", 1_872_000.0, 1_872_000.0, 300_000.0, energy=3e7, jobs=9, incidents=3)
    bins = tuple(int(n in (0, 12, 18)) for n in range(20))
    return WeeklyReport(
        since=since,
        until=until,
        gpus_seen=True,
        totals=totals,
        before=replace(totals, busy=900_000.0, jobs=7),
        histogram=bins,
        under=1,
        hours_under=1_440_000.0,
        unmeasured=4,
        top=people,
        where=WhereHours(
            busy=300_000.0, idle=900_000.0, low=672_000.0, waited=36_000.0, spread=72_000.0, placed=720_000.0
        ),
        rules=(RuleOutcomes("idle", opened=12, told=9, intended=3, wrong=3), RuleOutcomes("stalled", opened=4)),
        open_incidents=3,
        ledger_from=since - 90 * 86400,
        costs=Costs(gpu_hour=2.5, currency="EUR"),
    )


def curves(incident: Incident, until: float) -> Sequence[GpuSeries]:
    """GPUs that worked until the condition began."""
    start = incident.started_at - 3600
    times = [start + 60 * n for n in range(1, math.floor((until - start) / 60) + 1)]
    return [
        GpuSeries(gpu, tuple(Point(t, 0.9 if t < incident.started_at else 0.0) for t in times)) for gpu in incident.gpus
    ]
