"""The store as who has role `own` sees it: there is nothing in it but their own jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents.expectations import Expectation
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Severity, State
from dutycycle_alerter.reports.model import Asked, RulesReport, UsageReport, WasteReport
from dutycycle_alerter.usage import UserUsage
from dutycycle_alerter.views import GpuNow, GpuSeries, IncidentFilter, Reader, Status, TargetStatus
from dutycycle_alerter.web.access.visitor import ForbiddenError


class OwnReader:
    """A reader in which there is nothing but what is about one user. Implements `views.Reader`."""

    def __init__(self, reader: Reader, user: str) -> None:
        self._reader = reader
        self._user = user

    def incidents(self, wanted: IncidentFilter, *, limit: int = 100, offset: int = 0) -> tuple[Sequence[Incident], int]:
        """The user's incidents."""
        if wanted.user not in ("", self._user):
            return (), 0
        return self._reader.incidents(replace(wanted, user=self._user), limit=limit, offset=offset)

    def active_counts(self) -> Mapping[tuple[str, Severity, State], int]:
        """Those of everybody are not shown to one user."""
        return {}

    def incident(self, incident_id: int) -> Incident | None:
        """One of the user's incidents; another's is as if it did not exist."""
        found = self._reader.incident(incident_id)
        return found if found is not None and found.user == self._user else None

    def events(self, incident_id: int) -> Sequence[Event]:
        """The history of one of the user's incidents, without where operators are reached."""
        found = self._reader.events(incident_id) if self.incident(incident_id) is not None else ()
        return [event if self._was_told(event) else _without_addresses(event) for event in found]

    def _was_told(self, event: Event) -> bool:
        """Whether it is about the user, and not about operators or about somebody whose job it was taken for."""
        return event.data.get("audience") == "owner" and event.data.get("user") in (None, self._user)

    def series(self, incident: Incident, *, until: float, most: int | None = None) -> Sequence[GpuSeries]:
        """Utilization within one of the user's jobs."""
        return self._reader.series(incident, until=until, most=most) if incident.user == self._user else ()

    def expectations(self, *, current: bool = True, user: str | None = None) -> Sequence[Expectation]:
        """What was said of the user, or of the user's jobs."""
        if user not in (None, self._user):
            return ()
        return self._reader.expectations(current=current, user=self._user)

    def muted(self, receiver: str, user: str) -> bool:
        """Whether the user wants no more of it; of others it is not told."""
        return user == self._user and self._reader.muted(receiver, user)

    def users(self, *, since: float, until: float) -> Sequence[UserUsage]:
        """The user alone."""
        return [one for one in self._reader.users(since=since, until=until) if one.user == self._user]

    def fleet(self, *, since: float, until: float) -> Sequence[FleetAmounts]:  # noqa: ARG002 - the protocol's
        """Refused: it is about everybody."""
        raise ForbiddenError("the fleet is only for those who may see everything")

    def usage_report(self, asked: Asked) -> UsageReport:
        """What the user used, without the fleet."""
        return self._reader.usage_report(replace(asked, user=self._user))

    def waste_report(self, asked: Asked) -> WasteReport:
        """Where the user's GPU-hours went."""
        return self._reader.waste_report(replace(asked, user=self._user))

    def rules_report(self, asked: Asked) -> RulesReport:
        """What became of the user's incidents."""
        return self._reader.rules_report(replace(asked, user=self._user))

    def gpus(self) -> Sequence[GpuNow]:
        """The GPUs that the user holds, without whoever else does and what is theirs as well."""
        return [
            _without_others(gpu, own) if len(own) < len(gpu.workloads) else gpu
            for gpu in self._reader.gpus()
            if (own := tuple(one for one in gpu.workloads if one[1] == self._user))
        ]

    def status(self) -> Status:
        """How the alerter does, without what names others' jobs or the site's machines."""
        status = self._reader.status()
        targets = tuple(
            TargetStatus("", "a source", target.last_success, "it does not answer" if target.error else "")
            for target in status.targets
        )
        rules = tuple(replace(item, reason="evidence is missing") for item in status.not_evaluable)
        return replace(status, targets=targets, not_evaluable=rules, notices=(), evaluating=None)


def _without_addresses(event: Event) -> Event:
    if event.kind not in (EventKind.TOLD, EventKind.NOT_TOLD):
        return event
    text = "operators were notified" if event.kind is EventKind.TOLD else "operators could not be notified"
    return replace(event, text=text, data={})


def _without_others(gpu: GpuNow, own: tuple[tuple[str, str, float], ...]) -> GpuNow:
    """The GPU's figures that are sums over all who hold it are nobody's alone."""
    return replace(gpu, workloads=own, processes=None, memory_used=None, power=None)
