"""Who is notified of incidents, through what, how often and how."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dutycycle_alerter.settings.calendar import Zone
from dutycycle_alerter.settings.notify.people import Owners, People
from dutycycle_alerter.settings.notify.receivers import (
    Alertmanager,
    Apprise,
    Email,
    ReceiverSettings,
    Slack,
    SlackWebhook,
    Webhook,
)
from dutycycle_alerter.settings.notify.routes import Digest, News, Route, Weekly
from dutycycle_alerter.settings.types import Duration, Section

__all__ = [
    "Alertmanager",
    "Apprise",
    "Digest",
    "Email",
    "News",
    "Notify",
    "Owners",
    "People",
    "ReceiverSettings",
    "Route",
    "Slack",
    "SlackWebhook",
    "Webhook",
    "Weekly",
]


class Notify(Section):
    """Who is notified of incidents, through what, how often and how. Without routes nobody is notified."""

    timezone: Zone = "UTC"
    """The time zone of times of day here and in messages."""
    templates: Path | None = None
    """A directory with the site's templates, which replace the built-in ones of the same name."""
    dashboard_url: str = Field(default="", max_length=500)
    """A dashboard's address for messages; {user}, {job}, {cluster}, {node}, {from} and {to} (ms) are replaced in it. A
    query parameter with {workloads} is repeated for each workload of the job.
    """
    people: People = People()
    owners: Owners = Owners()
    receivers: tuple[ReceiverSettings, ...] = Field(default=(), max_length=50)
    """The receivers."""
    routes: tuple[Route, ...] = Field(default=(), max_length=200)
    """The routes."""
    weekly: tuple[Weekly, ...] = Field(default=(), max_length=20)
    """Who gets the weekly report."""
    interval: Duration = 10
    """Time between two checks for what is waiting to be delivered."""
    retry_longest: Duration = 900
    """The back-off after failures doubles from 10 s up to this."""
    give_up_after: Duration = 7 * 86400
    """A message that could not be delivered for this long is given up, and its incidents say so."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [receiver.name for receiver in self.receivers]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise ValueError(f"two receivers are called {twice!r}")
        kinds = {receiver.name: receiver.kind for receiver in self.receivers}
        for receiver in (*(route.receiver for route in self.routes), *(weekly.receiver for weekly in self.weekly)):
            if receiver not in kinds:
                known = ", ".join(names) or "none"
                raise ValueError(f"there is no receiver {receiver!r}; receivers: {known}")
        for route in self.routes:
            if route.audience == "owner" and kinds[route.receiver] not in ("email", "slack"):
                raise ValueError(
                    f"{kinds[route.receiver]} {route.receiver!r} cannot reach the user of a job: email and slack can"
                )
            if kinds[route.receiver] == "alertmanager" and (portions := route.portions):
                raise ValueError(
                    f"a route to alertmanager {route.receiver!r} cannot have {', '.join(portions)}: it is told all "
                    "that is active again and again, and groups and delays by its own configuration"
                )
        reported = [weekly.receiver for weekly in self.weekly]
        again = next((name for place, name in enumerate(reported) if name in reported[:place]), None)
        if again is not None:
            raise ValueError(f"two weekly reports go to {again!r}")
        for weekly in self.weekly:
            if kinds[weekly.receiver] == "alertmanager":
                raise ValueError(f"the weekly report cannot go to alertmanager {weekly.receiver!r}")
        return self

    @model_validator(mode="after")
    def _reaches(self) -> Self:
        # What is for nobody would be given up, and seen only in the histories of incidents.
        receivers = {receiver.name: receiver for receiver in self.receivers}
        routed = [route.receiver for route in self.routes if route.audience == "operators"]
        for name in (*routed, *(weekly.receiver for weekly in self.weekly)):
            if (lacking := receivers[name].lacking) is not None:
                raise ValueError(f"{receivers[name].kind} {name!r} {lacking}")
        owners = any(route.audience == "owner" for route in self.routes)
        if owners and not self.people.address and self.people.map_file is None:
            raise ValueError("no user has an email address: set notify.people.address or notify.people.map_file")
        return self
