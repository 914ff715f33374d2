"""A composer that has nothing to say: who tests receivers of one kind overrides what those ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.model import Brief, Item, Mail, Parcel, Recipient, SlackMessage


class SilentComposer:
    """Implements `notify.model.Composer`; whatever is asked of it, the test fails."""

    def mail(self, parcel: Parcel, *, unsubscribe: str = "") -> Mail:
        _unasked()

    def slack(self, parcel: Parcel, *, threaded: bool = True) -> SlackMessage:
        _unasked()

    def slack_reply(self, item: Item, to: Recipient) -> str:
        _unasked()

    def brief(self, parcel: Parcel) -> Brief:
        _unasked()

    def annotations(self, incident: Incident) -> Mapping[str, str]:
        _unasked()

    def document(self, parcel: Parcel) -> Mapping[str, Any]:
        _unasked()


def _unasked() -> NoReturn:
    raise AssertionError("the receiver asks for a text that the test has none for")
