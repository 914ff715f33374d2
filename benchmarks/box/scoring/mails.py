"""Messages about healthy jobs: who was troubled for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.box.model import Job, Message, SeenIncident
from benchmarks.box.scoring import record
from benchmarks.box.scoring.jobs import case_of


def false_mails(
    messages: Iterable[Message],
    healthy: Mapping[str, Job],
    incidents: Mapping[str, Sequence[SeenIncident]],
    *,
    seed: int,
) -> list[record.FalseMail]:
    """One record for each message and healthy job of which it speaks. `healthy` and `incidents` are by workload."""
    return [
        record.FalseMail(
            case=case_of(healthy[workload], seed),
            at=message.at,
            sink=message.sink,
            to=message.to,
            owner=is_for(message.to, healthy[workload].user),
            rule=_rule(incidents.get(workload, ()), message.at),
            subject=message.subject,
        )
        for message in messages
        for workload in dict.fromkeys(message.workloads)
        if workload in healthy
    ]


def is_for(to: str, user: str) -> bool:
    """Whether an address is a user's own: `user`, `@user` or `user@anywhere`."""
    return to.removeprefix("@").partition("@")[0].strip("<> ").casefold() == user.casefold()


def _rule(incidents: Sequence[SeenIncident], at: float) -> str:
    """The rule of the newest incident that was open by then; empty where there is none."""
    before = [incident for incident in incidents if incident.opened <= at]
    return max(before, key=lambda incident: incident.opened).rule if before else ""
