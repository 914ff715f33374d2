"""A site that is told by Slack: workspace, receiver, parcels, and a composer of messages that say what they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import Incident, Resolution, State
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.model import (
    OPERATORS,
    Item,
    Parcel,
    ParcelKind,
    Receipt,
    Recipient,
    SlackMessage,
    Telling,
    To,
)
from dutycycle_alerter.notify.receivers.slack import SlackReceiver
from dutycycle_alerter.settings.notify import People, Slack
from dutycycle_alerter.settings.notify.routes import News
from tests.alerter.notify.composer import SilentComposer
from tests.alerter.web.doubles import incident
from tests.fakes.slack.server import SlackServer

AT = 1_790_000_000.0
PEOPLE = People(address="{user}@example.org")
OWNER = Recipient(To.OWNER, "alice")


def item(number: int, *news: News, thread: Mapping[str, str] | None = None, actor: str = "", **changes: Any) -> Item:
    """An incident of which this is new; resolved where that is."""
    if News.RESOLVED in news:
        changes = {"state": State.RESOLVED, "resolution": Resolution.CLEARED} | changes
    tellings = tuple(Telling(one, AT, str(one), actor) for one in news)
    return Item(incident(id=number, **changes), tellings, thread or {})


def parcel(*items: Item, key: str = "p1", **changes: Any) -> Parcel:
    """Of kind incidents, to operators."""
    return replace(Parcel(key, ParcelKind.INCIDENTS, OPERATORS, items, AT), **changes)


class Composer(SilentComposer):
    """A message of an incident says its number and state. `extra` are further blocks; `broken` is raised."""

    def __init__(self) -> None:
        self.extra: tuple[Mapping[str, Any], ...] = ()
        self.text = ""
        self.broken: Exception | None = None

    def slack(self, parcel: Parcel, *, threaded: bool = True) -> SlackMessage:
        if self.broken is not None:
            raise self.broken
        text = self.text or "; ".join(_says(one.incident) for one in parcel.items) or str(parcel.kind)
        section = {"type": "section", "text": {"type": "mrkdwn", "text": f"*{text[:100]}*", "verbatim": True}}
        return SlackMessage(text, (section, *self.extra))

    def slack_reply(self, item: Item, to: Recipient) -> str:
        return f"{to.to}: " + ", ".join(str(telling.news) for telling in item.tellings)


def _says(incident: Incident) -> str:
    return f"incident {incident.id} {incident.state}"


class Site:
    """A workspace, a receiver that tells it, and what a store would keep of the threads."""

    def __init__(self, slack: SlackServer, token_file: Path) -> None:
        self.slack = slack
        self.workspace = slack.workspace
        self.channel = slack.workspace.add_channel("gpus")
        self.composer = Composer()
        self.token_file = token_file
        token_file.write_text(f"{slack.token}\n")
        self.receiver = self.make()

    def make(self, people: People = PEOPLE, **changes: Any) -> SlackReceiver:
        values = {"url": self.slack.url, "token_file": self.token_file, "channel": self.channel.id, "timeout": 60}
        settings = Slack.model_validate(values | changes)
        return SlackReceiver("ops", settings, Addresses(people), self.composer)

    def deliver(self, *items: Item, **changes: Any) -> Receipt:
        return self.receiver.deliver(parcel(*items, **changes))

    def fails(self, *items: Item, **changes: Any) -> DeliveryError:
        with pytest.raises(DeliveryError) as caught:
            self.deliver(*items, **changes)
        assert self.slack.token[:12] not in str(caught.value)
        return caught.value
