"""Slack by a bot's token: a thread for each incident, whose first message always says how the incident is now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.model import Composer, Item, Parcel, ParcelKind, Receipt, SlackMessage, To
from dutycycle_alerter.notify.receivers import slack_messages
from dutycycle_alerter.notify.receivers.slack_api import Session, SlackApi
from dutycycle_alerter.notify.receivers.slack_errors import SlackError
from dutycycle_alerter.notify.receivers.slack_people import SlackPeople
from dutycycle_alerter.settings.notify.receivers import Slack
from dutycycle_alerter.settings.notify.routes import News

_GONE = {
    "message_not_found",
    "thread_not_found",
    "cant_update_message",
    "channel_not_found",
    "not_in_channel",
    "is_archived",
    "is_inactive",
}
_NO_CHANGES = "edit_window_closed"
_NO_REPLIES = {"cannot_reply_to_message", "restricted_action_thread_locked", "restricted_action_non_threadable_channel"}
_CLOCKS_DIFFER = 600.0
_CHANNEL_NUMBER = re.compile(r"[CDG][A-Z0-9]{2,}")


@dataclass(frozen=True, slots=True)
class _Draft:
    """What is to be said of an incident; `reply` is empty where its thread need not hear of it. `key` is for ever its
    own, whatever the attempt.
    """

    item: Item
    head: SlackMessage
    reply: str
    key: str


class SlackReceiver:
    """Keeps `channel` and `ts` of each incident's first message, and `told`: the key of the last parcel that it was
    told in whole. So an incident of a parcel that failed in the middle is not told again.

    Attempts after the first look whether the message is there: Slack itself takes it as often as it is sent.
    """

    def __init__(self, name: str, settings: Slack, people: Addresses, composer: Composer) -> None:
        self.name = name
        self._channel = settings.channel
        self._api = SlackApi(settings)
        self._people = SlackPeople(people)
        self._composer = composer
        self._number = settings.channel if _CHANNEL_NUMBER.fullmatch(settings.channel) else ""

    def deliver(self, parcel: Parcel) -> Receipt:
        """See Receiver."""
        # Composed before anything is sent: a template that cannot be used breaks no parcel in the middle.
        drafts = self._drafts(parcel) if parcel.kind is ParcelKind.INCIDENTS else ()
        whole = None if parcel.kind is ParcelKind.INCIDENTS else self._composer.slack(parcel)
        if parcel.to.to is To.OWNER:
            address = self._people.address(parcel.to.user)
            session = self._api.session()
            channel = self._people.channel(address, session)
        else:
            address = channel = self._channel
            if not channel:
                raise DeliveryError("slack.channel is not set, so operators cannot be notified")
            session = self._api.session()
        telling = _Delivery(session, channel, parcel, self._number if parcel.to.to is To.OPERATORS else channel)
        try:
            threads = telling.incidents(drafts) if whole is None else telling.once(whole)
        except DeliveryError as error:
            if parcel.to.to is To.OWNER and (error.permanent or isinstance(error, SlackError)):
                self._people.forget(address)
            raise
        finally:
            if parcel.to.to is To.OPERATORS:
                self._number = telling.number
        return Receipt(threads=threads, addresses=(address,))

    def close(self) -> None:
        """See Receiver."""
        self._api.close()

    def _drafts(self, parcel: Parcel) -> tuple[_Draft, ...]:
        return tuple(
            _Draft(
                item,
                self._composer.slack(replace(parcel, items=(item,))),
                self._reply(item, parcel),
                f"{parcel.key}/{item.incident.id}",
            )
            for item in parcel.items
        )

    def _reply(self, item: Item, parcel: Parcel) -> str:
        worth = tuple(
            telling
            for telling in item.tellings
            if telling.news in (News.REOPENED, News.ESCALATED, News.RESOLVED)
            or (telling.news is News.UPDATED and telling.actor)
        )
        return self._composer.slack_reply(replace(item, tellings=worth), parcel.to) if item.thread and worth else ""


class _Delivery:
    """One attempt to deliver a parcel. `number` is the channel's, as far as it is known: reading needs it."""

    def __init__(self, session: Session, channel: str, parcel: Parcel, number: str) -> None:
        self.number = number
        self._session = session
        self._channel = channel
        self._parcel = parcel
        self._earlier: Mapping[str, str] | None = None

    def once(self, message: SlackMessage) -> Mapping[int, Mapping[str, str]]:
        """A message without a thread."""
        self._posted(message, self._parcel.key)
        return {}

    def incidents(self, drafts: tuple[_Draft, ...]) -> Mapping[int, Mapping[str, str]]:
        """The threads. Raises DeliveryError that has those of the incidents which were told."""
        threads: dict[int, Mapping[str, str]] = {}
        refused: list[str] = []
        for draft in drafts:
            number = draft.item.incident.id
            try:
                channel, ts = self._told(draft)
            except DeliveryError as error:
                if not error.permanent:
                    error.threads = threads
                    raise
                refused.append(f"incident {number}: {error}")
                continue
            threads[number] = {"channel": channel, "ts": ts, "told": self._parcel.key}
        if refused:
            raise DeliveryError("; ".join(refused), permanent=True, threads=threads)
        return threads

    def _told(self, draft: _Draft) -> tuple[str, str]:
        """Channel and `ts` of the first message of an incident's thread, which now says everything."""
        thread = draft.item.thread
        if thread.get("channel") and thread.get("ts"):
            place = thread["channel"], thread["ts"]
            if thread.get("told") == self._parcel.key:
                return place
            try:
                self._change(place, draft)
                if draft.reply:
                    self._reply(place, draft)
            except SlackError as error:
                if error.code not in _GONE:
                    raise
            else:
                return place
        return self._posted(draft.head, draft.key)

    def _change(self, place: tuple[str, str], draft: _Draft) -> None:
        try:
            slack_messages.change(self._session, *place, draft.head)
        except SlackError as error:
            # The workspace lets nobody edit what is older: a new message for each change would be a stream of them.
            if error.code != _NO_CHANGES:
                raise

    def _reply(self, place: tuple[str, str], draft: _Draft) -> None:
        channel, ts = place
        if self._parcel.attempt > 1 and draft.key in slack_messages.said(
            self._session, channel, self._parcel.at - _CLOCKS_DIFFER, thread=ts
        ):
            return
        try:
            slack_messages.reply(self._session, channel, ts, draft.reply, draft.key)
        except SlackError as error:
            if error.code not in _NO_REPLIES:
                raise

    def _posted(self, message: SlackMessage, key: str) -> tuple[str, str]:
        if self._parcel.attempt > 1 and self.number:
            if self._earlier is None:
                since = self._parcel.at - _CLOCKS_DIFFER
                self._earlier = slack_messages.said(self._session, self.number, since)
            if key in self._earlier:
                return self.number, self._earlier[key]
        self.number, ts = slack_messages.post(self._session, self._channel, message, key)
        return self.number, ts
