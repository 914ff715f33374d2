"""What notifications are made of: notices that wait in the outbox, parcels that are sent, and what receivers say.

A *notice* is one piece of news of one incident for one recipient of one receiver; it is written in the transaction of
the change. Notices that go together become a *parcel*: one message, with a key that stays the same however often it is
sent. A receiver keeps a *thread* for each incident: what it needs to go on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.settings.notify.routes import News


class To(StrEnum):
    """Whom a message is for: the receiver's own address, or the user of a job."""

    OPERATORS = "operators"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Recipient:
    """`user` is the user of a job as its scheduler calls them; empty for operators."""

    to: To
    user: str = ""


OPERATORS = Recipient(To.OPERATORS)


@dataclass(frozen=True, slots=True)
class Telling:
    """One thing to tell of an incident. `at` in Unix seconds, `actor` empty where the alerter acted by itself."""

    news: News
    at: float
    text: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """An incident as it is now, what there is to tell of it (oldest first), what the receiver kept of its thread (empty
    where it was never told of it), and for the user of the job why they hear of it, as `reasons.clause` said then.
    """

    incident: Incident
    tellings: tuple[Telling, ...]
    thread: Mapping[str, str] = field(default_factory=dict)
    because: str = ""

    @property
    def news(self) -> frozenset[News]:
        """What is new, without order."""
        return frozenset(telling.news for telling in self.tellings)


class ParcelKind(StrEnum):
    """One incident or a few, each told in full; many in one digest; the weekly report; a test."""

    INCIDENTS = "incidents"
    DIGEST = "digest"
    REPORT = "report"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message. `key` is the same at every attempt; `at` is when it was put together (Unix seconds).

    `report` is the weekly report's range (`since`, `until`), for kind `report` alone. `attempt` counts from 1.
    `left_out` is how many incidents a digest is about besides its items. `settled` are the addresses that took it, or
    refused it for good, at an earlier attempt: it is not for them any more.
    """

    key: str
    kind: ParcelKind
    to: Recipient
    items: tuple[Item, ...]
    at: float
    attempt: int = 1
    report: tuple[float, float] | None = None
    left_out: int = 0
    settled: frozenset[str] = frozenset()

    @property
    def as_of(self) -> float:
        """The moment of which it speaks: later than `at` where incidents went on before an attempt succeeded, since
        they are told as they are then.
        """
        return max((self.at, *(item.incident.known_at for item in self.items if item.incident.state.active)))


@dataclass(frozen=True, slots=True)
class Receipt:
    """A delivery that succeeded.

    `threads` is what the receiver wants to keep, by incident number; `addresses` are those that took it; `refused` are
    those that did not, with the reason: each is put down in the history of the incidents.
    """

    threads: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


class Receiver(Protocol):
    """One way of telling people. Used by one thread at a time."""

    def deliver(self, parcel: Parcel) -> Receipt:
        """Send it. Raises DeliveryError: nothing was sent, or nobody knows whether it was. Returns within some
        time-outs, whatever the other side does. Where `attempt` is above 1, an earlier attempt may have been received.

        A receiver that makes several messages of a parcel may fail in the middle. The error's `threads` then has the
        incidents that were told: they are to be kept as those of a receipt, before the next attempt, which gets them
        in `Item.thread` and so leaves these incidents out. Where it is permanent, only the other incidents of the
        parcel were not told. A parcel has the same items with the same tellings at every attempt.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG within a mail. `name` is its Content-ID's first part and file name, `alt` what it shows in words."""

    name: str
    png: bytes
    alt: str


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail's content: a subject of one line, plain text, HTML (without external assets), pictures that it shows as
    `cid:NAME`.
    """

    subject: str
    text: str
    html: str
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """A message of Slack: `text` is what notifications and screen readers show, `blocks` what is seen (Block Kit)."""

    text: str
    blocks: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Brief:
    """A message as plain text with a title of one line; for receivers that show little. `url` may be empty."""

    title: str
    text: str
    url: str = ""


class Composer(Protocol):
    """Says everything: the one place where incidents become words of messages. Text from outside is inert in all."""

    def mail(self, parcel: Parcel, *, unsubscribe: str = "") -> Mail:
        """Of any kind of parcel; `unsubscribe` is where its reader can do that, empty where they cannot. Raises
        ConfigError where a template of the site cannot be used.
        """
        ...

    def slack(self, parcel: Parcel, *, threaded: bool = True) -> SlackMessage:
        """Of any kind; of one incident, the message at the head of its thread: it says how the incident is now. Where
        there are no threads (`threaded` is false), it says what is new as well.
        """
        ...

    def slack_reply(self, item: Item, to: Recipient) -> str:
        """What is new, in a line or two of mrkdwn, for the incident's thread."""
        ...

    def brief(self, parcel: Parcel) -> Brief:
        """Of any kind."""
        ...

    def annotations(self, incident: Incident) -> Mapping[str, str]:
        """`summary`, `description` and links for Alertmanager; names are identifiers."""
        ...

    def document(self, parcel: Parcel) -> Mapping[str, Any]:
        """JSON for programs: the shapes of the API, with the links."""
        ...
