"""A composer that has nothing to say: who tests receivers of one kind overrides what those ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.model import Brief, Item, Mail, Parcel, Recipient, SlackMessage


class SilentComposer:
    """Implements `notify.model.Composer`; whatever is asked of it, the test fails."""

    def mail(self, parcel: Parcel) -> Mail:
        raise NotImplementedError

    def slack(self, parcel: Parcel, *, threaded: bool = True) -> SlackMessage:
        raise NotImplementedError

    def slack_reply(self, item: Item, to: Recipient) -> str:
        raise NotImplementedError

    def brief(self, parcel: Parcel) -> Brief:
        raise NotImplementedError

    def annotations(self, incident: Incident) -> Mapping[str, str]:
        raise NotImplementedError

    def document(self, parcel: Parcel) -> Mapping[str, Any]:
        raise NotImplementedError
