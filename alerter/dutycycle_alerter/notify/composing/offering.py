"""What a message offers to do about an incident: pages that its links open."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_alerter.incidents.model import Incident, State
from dutycycle_alerter.notify.links import Action, Links
from dutycycle_alerter.notify.model import Recipient, To


@dataclass(frozen=True, slots=True)
class Offer:
    """`owners_intend`: the users of jobs may say that something was intended (`policies.expectations.owners`)."""

    links: Links
    owners_intend: bool = True

    def link(self, incident: Incident, action: Action, to: Recipient, *, now: float) -> str:
        """The link, made at `now` (Unix seconds); empty where there is nothing of the kind to be done."""
        if incident.id <= 0 or not incident.state.active:  # it is not stored, or over
            return ""
        if action is Action.ACKNOWLEDGE and incident.state is State.ACKNOWLEDGED:
            return ""
        if action is Action.INTENDED and (incident.about != "job" or (to.to is To.OWNER and not self.owners_intend)):
            return ""
        return self.links.action(incident.id, action, to, now=now)
