"""Which rules a job is out of because people said that it was intended, and how that is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo

from dutycycle_alerter.incidents.expectations import Expectation, Scope
from dutycycle_alerter.model import Job
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.store.types import storable_name


class Expected:
    """Expectations in force, found by job and by user. `zone` is that of the moments that are told."""

    def __init__(self, given: Iterable[Expectation], zone: tzinfo) -> None:
        self._zone = zone
        self._given: dict[tuple[Scope, str, str], dict[str, Expectation]] = defaultdict(dict)
        # Of several on a rule, the one that ends last.
        for one in sorted(given, key=lambda one: one.expires_at):
            self._given[one.scope, one.cluster, one.subject].update(dict.fromkeys(one.rules, one))

    def of(self, job: Job) -> Mapping[str, Expectation]:
        """By rule, what was said of the job, or else of its user. A user whom nobody knows is none."""
        if not self._given:
            return {}
        cluster = storable_name(job.cluster)
        of_job = self._given.get((Scope.JOB, cluster, storable_name(job.id)), {})
        of_user = self._given.get((Scope.USER, cluster, storable_name(job.user)), {}) if job.user else {}
        return {**of_user, **of_job}

    def words(self, one: Expectation) -> str:
        """Who said it, when, until when, and why."""
        return f"intended, as {self.who(one)}: {one.reason}"

    def who(self, one: Expectation) -> str:
        """Who said it, when, and until when it counts."""
        said = f"{self._moment(one.at):%Y-%m-%d}"
        return f"{printable(one.actor, NAME_LIMIT) or 'somebody'} said on {said} until {self.end(one)}"

    def end(self, one: Expectation) -> str:
        """Until when it counts, in the policies' zone."""
        return f"{self._moment(one.expires_at):%Y-%m-%d %H:%M %Z}"

    def _moment(self, timestamp: float) -> datetime:
        return datetime.fromtimestamp(timestamp, UTC).astimezone(self._zone)
