"""The links of messages: to an incident, to one action on it, to be told no more, to a dashboard.

A link that acts carries a token: what may be done, to what, by whom and until when, with an HMAC-SHA256 under the
store's key (`store.keys`), a key of its own for each purpose. Whoever has the link may do that one thing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, takewhile
from urllib.parse import quote

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import workload_of
from dutycycle_alerter.notify.model import Recipient, To

LIFETIME = 14 * 86400.0
"""Seconds for which a link acts."""
UNSUBSCRIBE_LIFETIME = 90 * 86400.0
"""Seconds for which a link unsubscribes: a mail is unsubscribed of long after it was read."""

_VERSION = b"\x01"
_MAC = hashlib.sha256().digest_size
_NUMBER, _TIME = 8, 5
_LONGEST_TEXT = 255
_LONGEST = 1024
_LONGEST_ADDRESS = 2000
"""Characters of an address that mail programs, proxies and Slack all take."""
_WORKLOADS = "{workloads}"
_EXPIRED, _FORGED, _MALFORMED = "expired", "forged", "malformed"


class Action(StrEnum):
    """What a link does to its incident."""

    ACKNOWLEDGE = "acknowledge"
    SNOOZE = "snooze"
    INTENDED = "intended"
    RESOLVE = "resolve"


_ACTIONS = (Action.ACKNOWLEDGE, Action.SNOOZE, Action.INTENDED, Action.RESOLVE)
_RECIPIENTS = (To.OPERATORS, To.OWNER)


class LinkError(AlerterError):
    """A link's token cannot be used; `reason` is `expired`, `forged` (or of another installation) or `malformed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the link is {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ActionLink:
    """One action on one incident by whom the message was for. `expires_at` in Unix seconds."""

    incident_id: int
    action: Action
    recipient: Recipient
    expires_at: float


@dataclass(frozen=True, slots=True)
class UnsubscribeLink:
    """A user who wants no more of what a receiver sends to users. `expires_at` in Unix seconds."""

    receiver: str
    user: str
    expires_at: float


class Links:
    """Makes the links, and reads those that come back.

    `public_url` is where people reach the page, without a slash at its end; `dashboard_url` a dashboard's address with
    {user}, {job}, {workloads}, {node}, {cluster}, {from} and {to} (ms) in it. Where either is empty, so are its links.
    `lifetime` is in seconds.
    """

    def __init__(self, public_url: str, key: bytes, dashboard_url: str = "", lifetime: float = LIFETIME) -> None:
        self._public_url = public_url.rstrip("/")
        self._dashboard_url = dashboard_url
        self._lifetime = lifetime
        self._keys = {kind: hmac.digest(key, b"dutycycle link " + kind, "sha256") for kind in (b"a", b"u")}

    def incident(self, incident_id: int) -> str:
        """The incident's page."""
        return self._public_url and f"{self._public_url}/incidents/{incident_id}"

    def action(self, incident_id: int, action: Action, recipient: Recipient, *, now: float) -> str:
        """A page that offers one action, also to who is not logged in. Empty, too, for a user whose name is longer than
        255 bytes.
        """
        user = recipient.user.encode("utf-8", "surrogatepass")
        if not self._public_url or len(user) > _LONGEST_TEXT:
            return ""
        kind = bytes([_ACTIONS.index(action), _RECIPIENTS.index(recipient.to)])
        said = kind + incident_id.to_bytes(_NUMBER, "big") + user
        return f"{self._public_url}/act/{self._token(b'a', said, now + self._lifetime)}"

    def unsubscribe(self, receiver: str, user: str, *, now: float) -> str:
        """A page where a user says that a receiver is to send them no more; it takes RFC 8058's POST as well. Empty,
        too, for a name longer than 255 bytes.
        """
        names = [name.encode("utf-8", "surrogatepass") for name in (receiver, user)]
        if not self._public_url or max(map(len, names)) > _LONGEST_TEXT:
            return ""
        said = bytes([len(names[0])]) + b"".join(names)
        lifetime = max(self._lifetime, UNSUBSCRIBE_LIFETIME)
        return f"{self._public_url}/unsubscribe/{self._token(b'u', said, now + lifetime)}"

    def dashboard(self, incident: Incident, *, now: float) -> str:
        """The dashboard over the incident's time, with somewhat before it; each value is quoted for a URL.

        A parameter with {workloads} in it is there once for each workload of the job, of as many as there is room for
        in an address; for a GPU or a node it is left out, as is one with {node} where there is not just one.
        """
        until = now if incident.resolved_at is None else incident.resolved_at
        nodes = sorted({gpu.node for gpu in incident.gpus if gpu.node})
        values = {
            "user": incident.user,
            "job": workload_of(incident.subject, incident.cluster),
            "cluster": incident.cluster,
            "node": nodes[0] if len(nodes) == 1 else "",
            "from": f"{1000 * (incident.started_at - 0.25 * max(0.0, until - incident.started_at)):.0f}",
            "to": f"{1000 * until:.0f}",
        }
        job = incident.about == "job"
        own = incident.workloads or (values["job"],)
        return _with_workloads(self._dashboard_url, own if job else (), values)

    def read(self, token: str, *, now: float) -> ActionLink | UnsubscribeLink:
        """What a token says. Raises LinkError."""
        kind, said, expires_at = self._opened(token)
        if now >= expires_at:
            raise LinkError(_EXPIRED)
        try:
            return _unsubscribe(said, expires_at) if kind == b"u" else _action(said, expires_at)
        except (ValueError, IndexError) as error:
            # Signed by us, and yet not ours: another version's.
            raise LinkError(_MALFORMED) from error

    def _token(self, kind: bytes, said: bytes, expires_at: float) -> str:
        content = _VERSION + kind + math.ceil(expires_at).to_bytes(_TIME, "big") + said
        return _text(content + hmac.digest(self._keys[kind], content, "sha256"))

    def _opened(self, token: str) -> tuple[bytes, bytes, float]:
        """The kind, what is said and until when: signed by us, perhaps expired."""
        try:
            data = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True) if _short(token) else b""
        except (ValueError, binascii.Error) as error:
            raise LinkError(_MALFORMED) from error
        content, mac = data[:-_MAC], data[-_MAC:]
        kind = content[1:2]
        # The last character has bits that decode to nothing: only the one way of writing it counts.
        if content[:1] != _VERSION or kind not in self._keys or len(content) < 2 + _TIME or _text(data) != token:
            raise LinkError(_MALFORMED)
        if not hmac.compare_digest(mac, hmac.digest(self._keys[kind], content, "sha256")):
            raise LinkError(_FORGED)
        return kind, content[2 + _TIME :], float(int.from_bytes(content[2 : 2 + _TIME], "big"))


def _with_workloads(url: str, workloads: Sequence[str], values: Mapping[str, str]) -> str:
    """The address filled in. Where it is too long with every workload, the newest of them are in it."""
    address, hash_, fragment = url.partition("#")
    path, mark, query = address.partition("?")
    parts = [part for part in query.split("&") if values["node"] or "{node}" not in part]
    several = [part for part in parts if _WORKLOADS in part]

    def made(shown: Sequence[str]) -> str:
        repeated = [
            _filled(part, {**values, "workloads": one})
            for part in parts
            for one in (shown if part in several else ("",))
        ]
        rest = _filled(path, values), mark if repeated else "", "&".join(repeated), hash_, _filled(fragment, values)
        return "".join(rest)

    if not several or not workloads:
        return made(())
    room = _LONGEST_ADDRESS - len(made(()))
    # The address becomes longer by more than each one's name, so that not every number is tried in full.
    lengths = accumulate(1 + len(one) for one in reversed(workloads))
    most = sum(1 for _ in takewhile(lambda length: length <= room, lengths))
    for count in range(most, 0, -1):
        address = made(workloads[-count:])
        if len(address) < _LONGEST_ADDRESS:
            return address
    return made(())


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(
        r"\{(user|job|workloads|node|cluster|from|to)\}",
        lambda found: quote(values.get(found[1], ""), safe="", errors="replace"),
        text,
    )


def _short(token: str) -> bool:
    return token.isascii() and 0 < len(token) <= _LONGEST


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _action(said: bytes, expires_at: float) -> ActionLink:
    recipient = Recipient(_RECIPIENTS[said[1]], said[2 + _NUMBER :].decode("utf-8", "surrogatepass"))
    return ActionLink(int.from_bytes(said[2 : 2 + _NUMBER], "big"), _ACTIONS[said[0]], recipient, expires_at)


def _unsubscribe(said: bytes, expires_at: float) -> UnsubscribeLink:
    receiver, user = said[1 : 1 + said[0]], said[1 + said[0] :]
    names = [name.decode("utf-8", "surrogatepass") for name in (receiver, user)]
    return UnsubscribeLink(names[0], names[1], expires_at)
