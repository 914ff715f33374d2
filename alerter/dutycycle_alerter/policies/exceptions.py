"""Which policies are in force, and what they do with a job's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutycycle_alerter.model import Job
from dutycycle_alerter.settings import Policies, Policy
from dutycycle_alerter.settings.calendar import end, zone_of
from dutycycle_alerter.settings.matching import matches_any
from dutycycle_alerter.settings.policies import Attention, RuleMatch


@dataclass(frozen=True, slots=True)
class Effects:
    """The policies in force that are about one job, in their order. Of each effect, the first that has it counts."""

    policies: tuple[Policy, ...] = ()

    def excluding(self, rule: str) -> Policy | None:
        """The policy that takes the job out of a rule; None where it is judged."""
        found = next((p for p in self.policies if p.names(rule) and p.exclude is not None), None)
        return found if found is not None and found.exclude else None

    def for_operators(self, rule: str) -> Attention | None:
        """The severity that operators are told; None for the rule's own."""
        said = (p.operator_severity for p in self.policies if p.names(rule))
        return next((severity for severity in said if severity is not None), None)

    def for_user(self, rule: str) -> Attention | None:
        """The severity that the job's user is told; None for the rule's own."""
        said = (p.user_severity for p in self.policies if p.names(rule))
        return next((severity for severity in said if severity is not None), None)


def expires_at(policy: Policy, policies: Policies) -> float | None:
    """The instant from which a policy is no longer in force; None for one without an end."""
    return None if policy.expires is None else end(policy.expires, zone_of(policies.timezone))


def in_force(policies: Policies, now: float) -> tuple[Policy, ...]:
    """The policies that have not expired."""
    ends = ((policy, expires_at(policy, policies)) for policy in policies.exceptions)
    return tuple(policy for policy, at in ends if at is None or now < at)


def effects(job: Job, live: Iterable[Policy]) -> Effects:
    """What the policies in force do with a job."""
    return Effects(tuple(policy for policy in live if is_about(policy, job)))


def is_about(match: RuleMatch, job: Job) -> bool:
    """Whether an entry is about a job, whichever rules it names."""
    return matches_any(job.kind.value, match.kind) and match.matches_job(job)
