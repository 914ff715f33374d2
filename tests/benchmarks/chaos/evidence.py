"""A run that kept every promise, made by hand: tests spoil one thing of it."""

from __future__ import annotations

from benchmarks.chaos import promises
from benchmarks.chaos.happened import Happened
from benchmarks.chaos.promises import Violation
from benchmarks.chaos.record import (
    AlerterPage,
    Condition,
    ExporterPage,
    JobTruth,
    Look,
    Record,
    StoredDelivery,
    StoredEvent,
    StoredIncident,
    StoredNotice,
    Taken,
    Write,
)

BEGAN, ENDED = 1000.0, 1600.0
IDLE, BUSY = "slurm/1", "slurm/2"
OPENED, RESOLVED = 1050.0, 1420.0

KILLED = Happened(
    "exporter-killed",
    "n1",
    began=1200.0,
    ended=1210.0,
    blinds=frozenset({"n1"}),
    silences=frozenset({"exporter-n1"}),
    loses=True,
)
AWAY = Happened(
    "prometheus-killed",
    "prometheus",
    began=1300.0,
    ended=1330.0,
    blinds=frozenset({"*"}),
    says=frozenset({"source:prometheus"}),
)
FAULTS = (KILLED, AWAY)


def violations(record: Record) -> list[Violation]:
    return promises.violations(promises.check(record))


def clean() -> Record:
    """Ten minutes at sixty times the pace: a job that idles until it ends, one that works, and two faults."""
    condition = Condition(frozenset({"idle"}), BEGAN, 1400.0, window=30.0, after=30.0)
    nodes = frozenset({"n1"})
    jobs = (
        JobTruth("notebook", IDLE, "ada", nodes, 1, BEGAN, 1400.0, 1399.9, 10.0, (condition,)),
        JobTruth("train", BUSY, "ben", nodes, 2, BEGAN, None, ENDED, 10.0, utilization=0.9),
    )
    events = (
        StoredEvent(1, 1, OPENED, "opened", ""),
        StoredEvent(2, 1, RESOLVED, "resolved", "", {"resolution": "ended"}),
    )
    incident = StoredIncident(
        1, IDLE, "efficiency", "idle", "resolved", 1030.0, OPENED, RESOLVED, "ended", "ada", nodes
    )
    notices, deliveries, taken = [], [], []
    for number, (receiver, audience, news, at) in enumerate(
        (receiver, audience, news, at)
        for receiver, audience in (("mail", "operators"), ("chat", "operators"), ("mail", "owner"))
        for news, at in (("opened", OPENED), ("resolved", RESOLVED))
    ):
        key = f"{receiver}-{news}" if audience == "operators" else f"ada-{receiver}-{news}"
        notices.append(StoredNotice(number, 1, receiver, audience, news, at, number, None))
        deliveries.append(StoredDelivery(number, key, receiver, at, 1, at + 1, None, "", key))
        taken.append(Taken("slack" if receiver == "chat" else receiver, key, at + 1, (), (1,), (), "idle"))
    return Record(
        began=BEGAN,
        ended=ENDED,
        time_scale=60.0,
        interval=0.5,
        pass_interval=2.0,
        lease=2.0,
        gpus={"n1": 8},
        faults=FAULTS,
        jobs=jobs,
        incidents=(incident,),
        events=events,
        notices=tuple(notices),
        deliveries=tuple(deliveries),
        taken=tuple(taken),
        looks=tuple(Look(at, ((IDLE, "efficiency", (1,)),), "a#1", 1) for at in (1100.0, 1200.0)),
        writes=(Write(OPENED, "incident", "a", "a#1", 1), Write(RESOLVED, "incident", "a", "a#1", 1)),
        exporters=tuple(exporter_page(float(at)) for at in range(1012, 1600, 2)),
        alerters=tuple(alerter_page(float(at)) for at in range(1012, 1600, 2)),
        pages=(("http://a/", "<p>&lt;img"),),
        ledger={IDLE: 380.0, BUSY: 1160.0},
        measured={IDLE: (370.0, 0.0), BUSY: (1150.0, 1035.0)},
        hostile=("<img",),
    )


def exporter_page(at: float) -> ExporterPage:
    if KILLED.began <= at <= KILLED.ended:
        return ExporterPage("n1", at, 0.1, 0, alive=0)
    return ExporterPage("n1", at, 0.1, 200, visible=8, success=1, age=0.2, utilizations=8)


def alerter_page(at: float) -> AlerterPage:
    sources = {"prometheus": 0.0 if AWAY.began + 5 <= at <= AWAY.ended + 5 else 1.0, "slurm": 1.0}
    return AlerterPage("a", at, 0.1, 200, leads=True, epoch=1, store=True, last_pass=at - 1, sources=sources)
