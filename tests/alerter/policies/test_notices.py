"""What operators are told of policies: who is left out, what expires, what the log says once."""

from collections.abc import Mapping

import pytest

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.policies import NoticeKind, NoticeLog, PoliciesInForce, notices
from dutycycle_alerter.rules import judge
from dutycycle_alerter.settings import Settings
from tests.alerter.policies.application import NOW, OPEN, configured, excluding, idle, maintained, wishing


def told(settings: Settings, declared: Mapping[str, Declarations] | None = None) -> list[tuple[str, str, int]]:
    policies = PoliciesInForce(settings, NOW, declared)
    given = [policies.applied(judge(idle(id=f"slurm/{n}"), settings.judging)) for n in (1, 2, 3)]
    return [(notice.kind.value, notice.text, notice.jobs) for notice in notices(policies, given)]


def test_notices_say_how_many_jobs_are_left_out_of_what_and_until_when() -> None:
    assert told(excluding(rules=["idle", "underused"], expires="2026-12-31")) == [
        ("excluded", "3 jobs excluded from idle and underused by policy course until 2026-12-31", 3)
    ]
    assert told(excluding(workload="slurm/2")) == [("excluded", "1 job excluded from all rules by policy course", 1)]


@pytest.mark.parametrize(
    ("expires", "kinds"),
    [
        ("2026-11-25T12:00:00Z", ["expired"]),
        ("2026-11-25T12:00:01Z", ["expiring", "excluded"]),
        ("2026-12-09T12:00:00Z", ["expiring", "excluded"]),
        ("2026-12-09T12:00:01Z", ["excluded"]),
    ],
)
def test_notices_tell_what_expired_and_two_weeks_before_what_will(expires: str, kinds: list[str]) -> None:
    assert [kind for kind, _, _ in told(excluding(expires=expires))] == kinds


def test_notices_tell_a_maintenance_that_goes_on_and_wishes() -> None:
    assert told(maintained(**OPEN)) == [("maintenance", "maintenance rack until 2026-11-25 13:00 UTC: new PDUs", 3)]
    assert told(configured(), wishing("idle")) == [
        ("refused", "1 job asked to be left out of a rule that fires; the policies do not allow it", 1)
    ]
    assert told(configured(opt_out={"allowed": [{}]}), wishing("idle")) == [
        ("excluded", "1 job excluded as the jobs ask, which the policies allow", 1)
    ]


def test_what_lasts_is_logged_once_and_again_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    settings = excluding(expires="2026-11-24", name="old\x1b[2J")
    policies = PoliciesInForce(settings, NOW)
    given = notices(policies, [])
    log = NoticeLog()
    log.tell(given)
    log.tell(given)
    assert [record.getMessage() for record in caplog.records] == [
        "policy old␛[2J expired (2026-11-24) and has no effect any more"
    ]
    log.tell(())
    log.tell(given)
    assert len(caplog.records) == 2
    assert all(notice.kind is NoticeKind.EXPIRED for notice in given)
