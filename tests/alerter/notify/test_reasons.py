"""Why the user of a job hears of an incident: with the number and the time that made it due, kept with its notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dutycycle_alerter.incidents.model import EventKind, Incident, OpenRule, Severity
from dutycycle_alerter.notify.owners import Due
from dutycycle_alerter.notify.reasons import clause, sentences
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.settings.policies import Attention
from dutycycle_alerter.store.database import Database
from tests.alerter.notify.outbox import DAY, HOUR, MINUTE, idle, office, route
from tests.alerter.store.test_incidents import NOW

WASTED = "your jobs together wasted more than 24 GPU-hours within 7 d"
IDLE = "all GPUs of the job were idle for at least 2 h"
A_JOB = "a job of yours was idle on all its GPUs"
AT_ONCE = Due("idle", cost=False)


def eight(rule: str = "idle", *, severity: Severity = Severity.CRITICAL, told: Attention | None = None) -> Incident:
    item = idle(rule=rule, severity=severity, job_gpus=8, started_at=NOW - HOUR / 2, opened_at=NOW)
    return replace(item, rules=(OpenRule(rule, NOW, severity, told),))


@pytest.mark.parametrize("time_scale", [1, 7, 11, 13, 60])
@pytest.mark.parametrize(
    ("found", "item", "said"),
    [
        (Due("stalled", cost=True), eight("stalled", severity=Severity.WARNING), WASTED),
        (AT_ONCE, eight(), IDLE),
        (AT_ONCE, replace(eight(), job_gpus=1), "the GPU of the job was idle for at least 2 h"),
        # A service is judged over a day; a policy may say that a warning is critical for its user.
        (AT_ONCE, replace(eight(), started_at=NOW - DAY), "all GPUs of the job were idle for at least 24 h"),
        (
            AT_ONCE,
            eight(severity=Severity.WARNING, told=Attention.CRITICAL),
            "all GPUs of the job were idle for at least 30 min",
        ),
        (Due("hung", cost=False), eight("hung"), "all GPUs of the job hung for at least 15 min"),
        (
            Due("low_sm_activity", cost=False),
            eight("low_sm_activity"),
            "this site notifies users at once where a job is critically low sm activity",
        ),
    ],
)
def test_a_reason_says_what_made_it_due(found: Due, item: Incident, said: str, time_scale: float) -> None:
    scaled = replace(item, started_at=NOW - (NOW - item.started_at) / time_scale)
    assert clause(found, scaled, Settings(time_scale=time_scale).scaled()) == said


def test_the_numbers_are_those_of_the_site() -> None:
    site: dict[str, Any] = {
        "notify": {"owners": {"wasted_gpu_hours": 7.5, "within": "3d"}},
        "judging": {"rules": {"idle": {"critical_window": "24h"}}},
    }
    settings = Settings.model_validate(site)
    assert clause(Due("idle", cost=True), eight(), settings) == (
        "your jobs together wasted more than 7.5 GPU-hours within 3 d"
    )
    assert clause(AT_ONCE, eight(), settings) == "all GPUs of the job were idle for at least 24 h"


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ([""], ()),
        ([], ()),
        (["", ""], ()),
        ([IDLE], (f"You hear of it because {IDLE}.",)),
        ([WASTED], (f"You hear of it because {WASTED}. This is one of them.",)),
        ([WASTED, WASTED], (f"You hear of these because {WASTED}.",)),
        (
            [IDLE, WASTED, WASTED, ""],
            (f"You hear of some of these because {A_JOB} for at least 2 h, and because {WASTED}.",),
        ),
        ([WASTED, IDLE], (f"You hear of these because {A_JOB} for at least 2 h, and because {WASTED}.",)),
        (
            [IDLE, IDLE, "the GPU of the job hung for at least 15 min"],
            (
                (
                    "You hear of these because jobs of yours were idle on all their GPUs for at least 2 h, "
                    "and because a job of yours hung on its GPU for at least 15 min."
                ),
            ),
        ),
    ],
)
def test_each_reason_of_a_message_is_said_once(clauses: list[str], said: tuple[str, ...]) -> None:
    assert sentences(clauses) == said
    later = tuple(one.replace("You hear", "You first heard") for one in said)
    assert sentences(clauses, new=False) == later


def test_a_reason_stays_with_what_is_told_of_it_later(database: Database) -> None:
    """Of the notice that told first: whoever composes it, and however much later."""
    at = office(database, route("email"), route("email", "owner"), route("slack", "owner"))
    small, urgent = at.open(
        idle(1, rule="stalled", wasted=25 * HOUR),
        idle(2, user="bob", severity=Severity.CRITICAL, job_gpus=8, started_at=at.clock() - HOUR / 2),
    )
    for inbox in at.inboxes.values():
        inbox.down()
    at.go(2 * MINUTE)
    for inbox in at.inboxes.values():
        inbox.up()
    at.go(HOUR, step=MINUTE)
    found = {
        item.incident.id: item.because for got in at.got("email") for item in got.parcel.items if got.parcel.to.user
    }
    assert found == {small.id: WASTED, urgent.id: IDLE}
    assert {item.because for got in at.got("email") for item in got.parcel.items if not got.parcel.to.user} == {""}
    at.change(small, EventKind.CAUSE_FOUND)
    at.go(2 * MINUTE)
    (last,) = at.got("slack")[-1].parcel.items
    assert ([telling.news for telling in last.tellings], last.because) == ([News.UPDATED], WASTED)
