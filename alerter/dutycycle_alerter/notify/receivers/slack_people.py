"""From the user of a job to the direct messages with them in Slack: by their email address."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.receivers.slack_api import Session
from dutycycle_alerter.notify.receivers.slack_errors import SlackError
from dutycycle_alerter.printable import NAME_LIMIT, printable

_KNOWN_FOR = 24 * 3600.0
_UNKNOWN_FOR = 3600.0
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    """`channel` is the direct messages'; empty where `trouble` says why there is none."""

    until: float
    channel: str = ""
    trouble: str = ""


class SlackPeople:
    """What was found out is kept for a day, and for an hour that somebody is not in Slack."""

    def __init__(self, addresses: Addresses, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = addresses
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def address(self, user: str) -> str:
        """The email address. Raises DeliveryError where there is none."""
        return self._addresses.needed(user)

    def channel(self, address: str, session: Session) -> str:
        """The number of the direct messages with somebody. Raises DeliveryError; permanent: they have no account."""
        known = self._known.get(address)
        if known is None or known.until < self._clock():
            known = self._found(address, session)
            self._known.pop(address, None)
            while len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[address] = known
        if known.trouble:
            raise DeliveryError(known.trouble, permanent=True)
        return known.channel

    def forget(self, address: str) -> None:
        """Look again next time."""
        self._known.pop(address, None)

    def _found(self, address: str, session: Session) -> _Known:
        shown = printable(address, NAME_LIMIT)
        try:
            user = session.read("users.lookupByEmail", {"email": address})["user"]
            opened = session.write("conversations.open", {"users": user["id"]})
            return _Known(self._clock() + _KNOWN_FOR, str(opened["channel"]["id"]))
        except SlackError as error:
            if error.code == "users_not_found":
                return self._nobody(
                    f"nobody in Slack has the address {shown}: put the one they use there into notify.people.map_file"
                )
            if error.permanent:
                return self._nobody(f"{shown}: {error}")
            raise
        except (KeyError, TypeError):
            raise DeliveryError(f"{shown}: Slack's answer names no user or channel") from None

    def _nobody(self, trouble: str) -> _Known:
        return _Known(self._clock() + _UNKNOWN_FOR, trouble=trouble)
