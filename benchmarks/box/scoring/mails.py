"""Messages: who was troubled for nothing, and who was told what had to be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.box.model import Job, Message, SeenIncident
from benchmarks.box.scoring import record


def false_mails(
    messages: Iterable[Message],
    jobs: Mapping[str, Job],
    healthy: Mapping[str, Job],
    incidents: Mapping[str, Sequence[SeenIncident]],
    cases: Mapping[int, record.Case],
    *,
    seed: int,
) -> list[record.FalseMail]:
    """One record for each message and healthy job of which it speaks, for each job of somebody else of which it tells a
    user, and for each message to a user that speaks of no job at all. `jobs`, of which the healthy ones are some, and
    `incidents` are by workload, `cases` by job.
    """
    users = {job.user for job in jobs.values()}
    found = []
    for message in messages:
        to_user = any(is_for(message.to, user) for user in users)
        about = [jobs[workload] for workload in dict.fromkeys(message.workloads) if workload in jobs]
        for job in about:
            strange = to_user and not is_for(message.to, job.user)
            if strange or job.workload in healthy:
                rule = _rule(incidents.get(job.workload, ()), message.at)
                found.append(_false(message, cases[job.number], to_user, rule))
        if to_user and not about:
            found.append(_false(message, record.Case(seed, 0, "no job of the run"), to_user, ""))
    return found


@dataclass(frozen=True)
class Owned:
    """A job as its owner's mails are judged: `worth` and `lost` as a record's."""

    job: Job
    worth: str
    lost: float | None


def owner_mails(
    messages: Iterable[Message],
    jobs: Mapping[str, Owned],
    incidents: Mapping[str, Sequence[SeenIncident]],
    cases: Mapping[int, record.Case],
) -> list[record.OwnerMail]:
    """One record for each mail and job of its receiver. `jobs` and `incidents` are by workload, `cases` by job."""
    found = []
    for message in messages:
        known = [jobs[workload] for workload in dict.fromkeys(message.workloads) if workload in jobs]
        for one in known:
            if message.sink == "mail" and is_for(message.to, one.job.user):
                rule = _rule(incidents.get(one.job.workload, ()), message.at)
                case = cases[one.job.number]
                found.append(record.OwnerMail(case, one.worth, one.lost, message.at, rule, message.subject))
    return found


def _false(message: Message, case: record.Case, owner: bool, rule: str) -> record.FalseMail:
    return record.FalseMail(
        case=case, at=message.at, sink=message.sink, to=message.to, owner=owner, rule=rule, subject=message.subject
    )


def is_for(to: str, user: str) -> bool:
    """Whether an address is a user's own: `user`, `@user` or `user@anywhere`."""
    return to.removeprefix("@").partition("@")[0].strip("<> ").casefold() == user.casefold()


def _rule(incidents: Sequence[SeenIncident], at: float) -> str:
    """The rule of the newest incident that was open by then; empty where there is none."""
    before = [incident for incident in incidents if incident.opened <= at]
    return max(before, key=lambda incident: incident.opened).rule if before else ""
