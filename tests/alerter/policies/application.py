"""Policies of a configuration, applied to the verdicts on an idle job."""

from collections.abc import Mapping
from datetime import datetime

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.model import Evidence, JobEvidence
from dutycycle_alerter.policies import Applied, PoliciesInForce
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Settings
from tests.alerter.cases import evidence

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


NOW = instant("2026-11-25T12:00:00Z")  # a Wednesday
LONG_AGO = NOW - 10 * HOUR


def configured(**policies: object) -> Settings:
    return parse({"policies": policies}).scaled()


def excluding(**fields: object) -> Settings:
    return configured(exceptions=[{"name": "course", "reason": "a course", "exclude": True} | fields])


def maintained(**fields: object) -> Settings:
    return configured(maintenance=[{"name": "rack", "reason": "new PDUs"} | fields])


def idle(at: float = NOW, **fields: object) -> JobEvidence:
    return evidence([0.0, 0.0], at=at, start=LONG_AGO, first_process=LONG_AGO, **fields)  # type: ignore[arg-type]


def applied(
    settings: Settings, item: JobEvidence | None = None, declared: Mapping[str, Declarations] | None = None
) -> Applied:
    item = item or idle()
    policies = PoliciesInForce(settings, item.at, declared)
    (prepared,) = policies.prepared(Evidence([item])).jobs
    return policies.applied(judge(prepared, settings.judging))


def outcome(given: Applied, rule: str = "idle") -> Outcome:
    return given.judgement.verdict(rule).outcome


# Wishes of the job itself


def wishing(*rules: str, **fields: object) -> dict[str, Declarations]:
    return {"slurm/1": Declarations(ignore=frozenset(rules), **fields)}  # type: ignore[arg-type]


OPEN = {"start": "2026-11-25T11:00:00Z", "end": "2026-11-25T13:00:00Z"}


WEEKLY = {"days": ["tue"], "opens": "22:00", "closes": "02:00", "timezone": "Europe/Oslo"}
