"""Messages in Slack: posted with a key by which they are found again, changed in place, answered in their thread."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.model import SlackMessage
from dutycycle_alerter.notify.receivers.slack_api import Session
from dutycycle_alerter.notify.receivers.slack_errors import SlackError

log = logging.getLogger(__name__)

_EVENT = "dutycycle_message"
_BLOCKS_REFUSED = {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"}
_PAGES, _PAGE = 5, 100

# Text is mrkdwn as it was composed: nothing else in it becomes a mention, a link or a preview.
_PLAIN = {"parse": "none", "link_names": False}
_NO_PREVIEW = {"unfurl_links": False, "unfurl_media": False, "mrkdwn": True}


def post(session: Session, channel: str, message: SlackMessage, key: str) -> tuple[str, str]:
    """Says it. The channel's number and the message's `ts`. Raises DeliveryError."""
    answer = _said(session, "chat.postMessage", {"channel": channel, **_NO_PREVIEW, **_marked(key)}, message)
    if not isinstance(answer.get("channel"), str) or not isinstance(answer.get("ts"), str):
        raise DeliveryError("chat.postMessage: Slack's answer names no message")
    return answer["channel"], answer["ts"]


def change(session: Session, channel: str, ts: str, message: SlackMessage) -> None:
    """Says it instead of what was said. Raises DeliveryError."""
    _said(session, "chat.update", {"channel": channel, "ts": ts}, message)


def reply(session: Session, channel: str, ts: str, text: str, key: str) -> None:
    """Says it in a message's thread. Raises DeliveryError."""
    arguments = {"channel": channel, "thread_ts": ts, "text": text, **_PLAIN, **_NO_PREVIEW, **_marked(key)}
    session.write("chat.postMessage", arguments)


def said(session: Session, channel: str, since: float, *, thread: str = "") -> Mapping[str, str]:
    """`ts` by key of what was posted since then (Unix seconds): in a channel's newest 500 messages, or in a thread.

    Empty where the app may not read there. Raises DeliveryError where Slack cannot say at the moment.
    """
    method = "conversations.replies" if thread else "conversations.history"
    arguments: dict[str, Any] = {"channel": channel, "oldest": f"{since:.6f}", "limit": _PAGE}
    arguments |= {"include_all_metadata": True} | ({"ts": thread} if thread else {})
    found: dict[str, str] = {}
    try:
        for _ in range(_PAGES):
            page = session.read(method, arguments)
            found |= _keys(page.get("messages"))
            metadata = page.get("response_metadata")
            cursor = metadata.get("next_cursor") if isinstance(metadata, Mapping) else None
            if not cursor:
                break
            arguments["cursor"] = cursor
    except SlackError as error:
        if error.code in ("ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"):
            raise
        # A duplicate now and then is better than nothing.
        log.debug("what was said before cannot be read: %s", error)
    return found


def _said(session: Session, method: str, arguments: Mapping[str, Any], message: SlackMessage) -> Mapping[str, Any]:
    arguments = {**arguments, "text": message.text, **_PLAIN}
    try:
        return session.write(method, {**arguments, "blocks": [dict(block) for block in message.blocks]})
    except SlackError as error:
        if error.code not in _BLOCKS_REFUSED:
            raise
        log.warning("Slack accepts only the text of a message; fix the template: %s", error)
    # Without `blocks`, a message that is changed would keep those it has.
    return session.write(method, {**arguments, "blocks": []})


def _marked(key: str) -> Mapping[str, Any]:
    return {"metadata": {"event_type": _EVENT, "event_payload": {"key": key}}}


def _keys(messages: object) -> dict[str, str]:
    found = {}
    for message in messages if isinstance(messages, list) else ():
        match message:
            case {"ts": str(ts), "metadata": {"event_type": event, "event_payload": {"key": str(key)}}} if (
                event == _EVENT
            ):
                found[key] = ts
    return found
