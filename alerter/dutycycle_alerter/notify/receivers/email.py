"""The email receiver: one mail for each parcel, to the operators' addresses or to the user of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import Composer, Mail, Parcel, Receipt, Recipient, To
from dutycycle_alerter.notify.owners import is_critical
from dutycycle_alerter.notify.receivers.email_message import Envelope, message, message_id, one_click, threads
from dutycycle_alerter.notify.receivers.smtp import Outcome, send
from dutycycle_alerter.settings.notify.receivers import Email

_SHOWN = 3


class EmailReceiver:
    """Mails by a site's own mail server; a connection for each, as mails are few.

    Where the server takes a mail for some recipients and wants to be asked again for others, the error says who has it
    and who never will: the next attempt is for the others alone (`Parcel.settled`), under the same Message-ID.
    """

    def __init__(self, name: str, settings: Email, people: Addresses, composer: Composer, links: Links) -> None:
        self._name = name
        self._settings = settings
        self._people = people
        self._composer = composer
        self._links = links

    def deliver(self, parcel: Parcel) -> Receipt:
        """Send it to whom it is not settled for. Raises DeliveryError."""
        recipients = self._recipients(parcel.to)
        left = [one for one in recipients if one not in parcel.settled]
        if not left:
            return Receipt()
        identity = message_id(self._name, parcel.key, self._settings.sender)
        envelope = self._envelope(parcel, recipients)
        mail = self._mail(parcel, envelope.unsubscribe)
        content = message(parcel, mail, identity, envelope)
        outcome = self._send(left, content, settled=bool(parcel.settled))
        if not (outcome.taken or outcome.deferred or parcel.settled):
            raise DeliveryError(_said("refused for", outcome.refused), permanent=True)
        kept = threads(parcel, mail, identity) if outcome.taken else {}
        if outcome.deferred:
            has = f"accepted for {', '.join(outcome.taken[:_SHOWN])}, " if outcome.taken else ""
            raise DeliveryError(
                _said(f"{has}not yet for", outcome.deferred),
                addresses=outcome.taken,
                refused=outcome.refused,
                threads=kept,
            )
        return Receipt(kept, outcome.taken, outcome.refused)

    def close(self) -> None:
        """Nothing is kept open."""

    def _send(self, left: Sequence[str], content: bytes, *, settled: bool) -> Outcome:
        try:
            return send(self._settings, left, content)
        except DeliveryError as error:
            if not (error.permanent and settled):
                raise
            # Not for the others, then; those who have it have it.
            return Outcome((), dict.fromkeys(left, str(error)), {})

    def _mail(self, parcel: Parcel, unsubscribe: str) -> Mail:
        try:
            return self._composer.mail(parcel, unsubscribe=unsubscribe)
        except ConfigError as error:
            # Somebody will fix the template.
            raise DeliveryError(str(error)) from error

    def _envelope(self, parcel: Parcel, recipients: Sequence[str]) -> Envelope:
        settings = self._settings
        return Envelope(
            sender=settings.sender,
            reply_to=settings.reply_to,
            recipients=recipients,
            list_id=f"{_label(self._name)}.dutycycle.{settings.sender.rpartition('@')[2]}",
            unsubscribe=self._unsubscribe(parcel),
            name=settings.sender_name,
        )

    def _unsubscribe(self, parcel: Parcel) -> str:
        """Where to, for a user; empty where there is no page, and for what they should hear of in any case."""
        critical = any(is_critical(item.incident.rules, item.incident.severity) for item in parcel.items)
        if parcel.to.to is not To.OWNER or critical or not self._settings.unsubscribe:
            return ""
        return one_click(self._links.unsubscribe(self._name, parcel.to.user, now=parcel.at))

    def _recipients(self, to: Recipient) -> tuple[str, ...]:
        if to.to is To.OPERATORS:
            if not self._settings.to:
                raise DeliveryError(f"{self._name} has no addresses of operators: add some in `to`", permanent=True)
            return tuple(dict.fromkeys(self._settings.to))
        return (self._people.needed(to.user),)


def _said(what: str, reasons: Mapping[str, str]) -> str:
    shown = [f"{address}: {reason}" for address, reason in list(reasons.items())[:_SHOWN]]
    more = len(reasons) - len(shown)
    return f"{what} {'; '.join(shown)}{f'; and {more} more' if more else ''}"


def _label(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "mail"
