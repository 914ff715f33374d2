"""A workspace of Slack: its channels, people and messages, and what the methods of the Web API do with them."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .blocks import too_long, wrong

SCOPES = frozenset(
    {"chat:write", "im:write", "users:read", "users:read.email", "channels:history", "groups:history", "im:history"}
)


class RefusedError(Exception):
    """`ok: false`; `fields` are said beside `error`."""

    def __init__(self, error: str, **fields: Any) -> None:
        super().__init__(error)
        self.answer = {"ok": False, "error": error} | fields


@dataclass
class Channel:
    """A channel, or the direct messages with `user`. A message is as conversations.history shows it; replies too."""

    id: str
    name: str = ""
    user: str = ""
    member: bool = True
    archived: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def heads(self) -> list[dict[str, Any]]:
        """The messages that are not in a thread, oldest first."""
        return [message for message in self.messages if message.get("thread_ts", message["ts"]) == message["ts"]]

    def replies(self, ts: str) -> list[dict[str, Any]]:
        """The replies in the thread of a message, oldest first."""
        return [message for message in self.messages if message.get("thread_ts") == ts and message["ts"] != ts]


@dataclass
class User:
    """A person: their address and number; `deleted` is deactivated."""

    id: str
    email: str
    deleted: bool = False


class Workspace:
    """Not thread-safe: the server has one request at a time change it."""

    def __init__(self) -> None:
        self.scopes = set(SCOPES)
        self.edits_allowed = True
        self.channels: dict[str, Channel] = {}
        self.users: dict[str, User] = {}
        self._numbers = itertools.count(1)
        self._last = 0.0

    def add_channel(self, name: str, *, member: bool = True) -> Channel:
        """A channel that the bot is a member of, or not."""
        made = Channel(f"C{next(self._numbers):08d}", name, member=member)
        self.channels[made.id] = made
        return made

    def add_user(self, email: str, *, deleted: bool = False) -> User:
        """A person with an account."""
        made = User(f"U{next(self._numbers):08d}", email, deleted)
        self.users[made.id] = made
        return made

    def direct(self, email: str) -> Channel:
        """The direct messages with somebody. Raises KeyError where none were ever begun."""
        numbers = {user.id for user in self.users.values() if user.email == email}
        for channel in self.channels.values():
            if channel.user in numbers:
                return channel
        raise KeyError(email)

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a method. Raises RefusedError."""
        methods = {
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "conversations.open": self._open,
            "users.lookupByEmail": self._lookup,
            "auth.test": lambda _: {"team": "Lab", "user": "dutycycle", "bot_id": "B00000001"},
        }
        if method not in methods:
            raise RefusedError("unknown_method", req_method=method)
        return {"ok": True} | methods[method](arguments)

    def hook(self, channel: Channel, payload: Mapping[str, Any]) -> None:
        """What an incoming webhook does. Raises RefusedError."""
        if channel.archived:
            raise RefusedError("channel_is_archived")
        try:
            channel.messages.append(self._made(payload, text_needed=True))
        except RefusedError as refused:
            raise RefusedError("invalid_payload" if refused.args[0] == "no_text" else refused.args[0]) from None

    def _post(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self._need("chat:write")
        channel = self._channel(arguments, names=True)
        if channel.archived:
            raise RefusedError("is_archived")
        if not channel.member:
            raise RefusedError("not_in_channel")
        message = self._made(arguments, text_needed="blocks" not in arguments)
        parent = arguments.get("thread_ts")
        if parent is not None:
            message["thread_ts"] = parent
        channel.messages.append(message)
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def _update(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self._need("chat:write")
        channel = self._channel(arguments)
        if channel.archived:
            raise RefusedError("is_inactive")
        found = next((message for message in channel.messages if message["ts"] == arguments.get("ts")), None)
        if found is None:
            raise RefusedError("message_not_found")
        if not self.edits_allowed:
            raise RefusedError("edit_window_closed")
        if len(arguments.get("text", "")) > 4000:
            raise RefusedError("msg_too_long")
        made = self._made(arguments, text_needed="blocks" not in arguments)
        kept = {key: found[key] for key in ("blocks", "metadata") if key in found}
        for key in ("text", "blocks", "metadata"):
            found.pop(key, None)
        found |= kept | {key: made[key] for key in ("text", "blocks", "metadata") if key in made}
        found["edited"] = {"user": "UBOT", "ts": made["ts"]}
        return {"channel": channel.id, "ts": found["ts"], "text": found["text"]}

    def _history(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        self._need("im:history" if channel.user else "channels:history")
        if not channel.member:
            raise RefusedError("not_in_channel")
        return self._page(list(reversed(channel.heads)), arguments)

    def _replies(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        self._need("im:history" if channel.user else "channels:history")
        parent = [message for message in channel.messages if message["ts"] == arguments.get("ts")]
        if not parent:
            raise RefusedError("thread_not_found")
        return self._page([*parent, *channel.replies(parent[0]["ts"])], arguments)

    def _page(self, messages: list[dict[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
        oldest, limit = float(arguments.get("oldest", 0)), int(arguments.get("limit", 100))
        begin = int(arguments.get("cursor") or 0)
        within = [message for message in messages if float(message["ts"]) > oldest]
        told = within[begin : begin + limit]
        if str(arguments.get("include_all_metadata", "0")).lower() not in ("1", "true"):
            told = [{key: value for key, value in message.items() if key != "metadata"} for message in told]
        more = begin + limit < len(within)
        cursor = str(begin + limit) if more else ""
        return {"messages": told, "has_more": more, "response_metadata": {"next_cursor": cursor}}

    def _open(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self._need("im:write")
        user = self.users.get(arguments.get("users", ""))
        if user is None:
            raise RefusedError("user_not_found")
        if user.deleted:
            raise RefusedError("user_disabled")
        known = next((channel for channel in self.channels.values() if channel.user == user.id), None)
        if known is None:
            known = Channel(f"D{next(self._numbers):08d}", user=user.id)
            self.channels[known.id] = known
        return {"channel": {"id": known.id}}

    def _lookup(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self._need("users:read.email")
        wanted = str(arguments.get("email", "")).lower()
        for user in self.users.values():
            if user.email.lower() == wanted:
                return {"user": {"id": user.id, "deleted": user.deleted, "profile": {"email": user.email}}}
        raise RefusedError("users_not_found")

    def _made(self, arguments: Mapping[str, Any], *, text_needed: bool) -> dict[str, Any]:
        blocks = arguments.get("blocks")
        if text_needed and not arguments.get("text"):
            raise RefusedError("no_text")
        if blocks:
            found = wrong(blocks)
            if found:
                raise RefusedError("invalid_blocks", errors=found, response_metadata={"messages": found})
            if too_long(blocks):
                raise RefusedError("msg_blocks_too_long")
        self._last = max(time.time(), self._last + 0.001)  # no two messages have the same
        made = {"type": "message", "bot_id": "B00000001", "ts": f"{self._last:.6f}", "text": arguments.get("text", "")}
        for key in ("blocks", "metadata"):
            if key in arguments:
                made[key] = arguments[key]
        if not _is_metadata(made.get("metadata", {"event_type": "x", "event_payload": {}})):
            raise RefusedError("invalid_metadata_format")
        return made

    def _need(self, scope: str) -> None:
        if scope not in self.scopes:
            raise RefusedError("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))

    def _channel(self, arguments: Mapping[str, Any], *, names: bool = False) -> Channel:
        wanted = str(arguments.get("channel", ""))
        found = self.channels.get(wanted)
        if found is None and names:
            name = wanted.removeprefix("#")
            found = next((channel for channel in self.channels.values() if channel.name == name != ""), None)
        if found is None:
            raise RefusedError("channel_not_found")
        return found


def _is_metadata(metadata: object) -> bool:
    return (
        isinstance(metadata, Mapping)
        and re.fullmatch(r"[A-Za-z0-9_]{1,128}", str(metadata.get("event_type"))) is not None
        and isinstance(metadata.get("event_payload"), Mapping)
    )
