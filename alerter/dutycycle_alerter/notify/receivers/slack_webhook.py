"""Slack by an incoming webhook: one channel, every message by itself. Its address is its secret."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import Any
from urllib.parse import urlsplit

from dutycycle_alerter.bounded_http import Answer
from dutycycle_alerter.credentials import hidden, secret
from dutycycle_alerter.errors import DeliveryError, SourceError
from dutycycle_alerter.notify.model import Composer, Parcel, Receipt
from dutycycle_alerter.notify.receivers.posting import retry_after
from dutycycle_alerter.notify.receivers.trusting import Trusting
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.settings.notify.receivers import SlackWebhook, keeps_secrets

log = logging.getLogger(__name__)

_LARGEST = 64 * 2**10
_OK = b"ok"

# What Slack says of a message that it will never take; the rest an operator mends, or Slack does.
_BLOCKS_REFUSED = ("invalid_payload", "invalid_blocks", "msg_blocks_too_long")
_REFUSED = (*_BLOCKS_REFUSED, "no_text", "too_many_attachments", "msg_too_long")
_REMEDIES = {
    "no_service": "the webhook was removed: create a new one and put its address into url_file",
    "no_active_hooks": "the webhook is disabled: enable it, or put the address of another into url_file",
    "no_team": "the workspace is gone, or the address is mistyped: fix url_file",
    "invalid_token": "the address is mistyped or no longer valid: fix url_file",
    "team_disabled": "the workspace is disabled",
    "channel_not_found": "the webhook's channel was deleted: create a new one and put its address into url_file",
    "channel_is_archived": "the webhook's channel is archived: unarchive it, or create a new webhook",
    "action_prohibited": "a setting of the workspace does not let the webhook post there",
    "posting_to_general_channel_denied": "a setting of the workspace does not let the webhook post there",
}


class SlackWebhookReceiver:
    """One message for each parcel: what was posted cannot be changed, and nobody can be written to directly."""

    def __init__(self, name: str, settings: SlackWebhook, composer: Composer) -> None:
        self.name = name
        self._settings = settings
        self._composer = composer
        self._trusting = Trusting(settings.timeout, settings.ca_file)
        self._said_of_answers = False

    def deliver(self, parcel: Parcel) -> Receipt:
        """See Receiver. Slack gives no way to see whether an earlier attempt was received."""
        message = self._composer.slack(parcel, threaded=False)
        url = self._url()
        payload = {"text": message.text, "unfurl_links": False, "unfurl_media": False}
        answer = self._send(url, payload | {"blocks": [dict(block) for block in message.blocks]})
        if answer.status == 400 and _said(answer, url) in _BLOCKS_REFUSED:
            log.warning("Slack accepts only the text of a message; fix the template: %s", _said(answer, url))
            answer = self._send(url, payload)
        _judge(answer, url)
        if answer.body.strip() != _OK and not self._said_of_answers:
            # Programs that take Slack's messages answer in words of their own; it would be posted again and again.
            self._said_of_answers = True
            log.info("%s: the webhook accepts (%d), but not as Slack does: taken as accepted", self.name, answer.status)
        return Receipt(addresses=(self.name,))  # its channel has no other name here, and people read it

    def close(self) -> None:
        """See Receiver."""
        self._trusting.close()

    def _url(self) -> str:
        try:
            url = secret("url", self._settings.url, self._settings.url_file) or ""
        except SourceError as error:
            raise DeliveryError(str(error)) from error
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[!-~]*", url):
            raise DeliveryError("url_file: must hold the webhook's address, https://hooks.slack.com/services/...")
        if not keeps_secrets(url):
            raise DeliveryError("url_file: the webhook's address is a secret, and begins with https://")
        return url

    def _send(self, url: str, payload: dict[str, Any]) -> Answer:
        try:
            return self._trusting.connections(url).request(
                "POST",
                url,
                headers={"Content-Type": "application/json; charset=utf-8"},
                body=json.dumps(payload).encode(),
                max_bytes=_LARGEST,
                repeat=False,
            )
        except (SourceError, ValueError) as error:
            raise DeliveryError(_hidden(str(error), url)) from None  # a chain would show what is hidden here


def _judge(answer: Answer, url: str) -> None:
    """Raises DeliveryError unless it was taken."""
    if 200 <= answer.status < 300 and not _is_page(answer):
        return
    said = _said(answer, url)
    if answer.status == 429:
        raise DeliveryError("too many messages for Slack", retry_after=retry_after(answer.headers, time.time()))
    if not 400 <= answer.status < 500:
        raise DeliveryError(f"the webhook answered {answer.status} but not as Slack does")
    remedy = _REMEDIES.get(said, "")
    text = f"the webhook answered {answer.status} {said}" + (f": {remedy}" if remedy else "")
    raise DeliveryError(text, permanent=said in _REFUSED)


def _is_page(answer: Answer) -> bool:
    """What a proxy or a log-in answers in the place of whom was asked. Slack itself calls its `ok` HTML."""
    return answer.body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def _said(answer: Answer, url: str) -> str:
    # Hidden first: what is cut may be half a secret.
    return printable(_hidden(answer.body.decode("utf-8", "replace").strip(), url), NAME_LIMIT)


def _hidden(text: str, url: str) -> str:
    parts = urlsplit(url)
    return hidden(text, (url, parts.path, parts.path.rpartition("/")[2], parts.query))
