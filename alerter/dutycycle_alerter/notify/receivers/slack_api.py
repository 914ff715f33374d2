"""Calls of Slack's Web API by slack_sdk, each bounded in time and size; its errors become DeliveryError here."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import Request

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from dutycycle_alerter.bounded_http import Answer, Connections
from dutycycle_alerter.credentials import secret
from dutycycle_alerter.errors import DeliveryError, SourceError
from dutycycle_alerter.notify.receivers.slack_errors import limited, refusal
from dutycycle_alerter.notify.receivers.trusting import Trusting
from dutycycle_alerter.settings.notify.receivers import Slack

_PATIENCE = 4
"""Time-outs that all calls of one delivery may take together, but for the last."""

_LARGEST = 8 * 2**20
"""Bytes of an answer: a page of history is a hundred messages of 13 KB and what Slack says of each."""


class SlackApi:
    """The Web API of a workspace. `session` is for one delivery."""

    def __init__(self, settings: Slack, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._trusting = Trusting(settings.timeout, settings.ca_file)

    def session(self) -> Session:
        """For the calls of one delivery, with the token that is in its file now. Raises DeliveryError."""
        try:
            token = secret("token", self._settings.token, self._settings.token_file) or ""
            connections = self._trusting.connections(self._settings.url)
        except SourceError as error:
            raise DeliveryError(str(error)) from error
        if not (token.isascii() and token.isprintable()):
            # What http.client says of a header that it does not take shows it.
            raise DeliveryError("the token is not one of Slack's (xoxb-...)")
        deadline = self._clock() + _PATIENCE * self._settings.timeout
        client = _Client(connections, token, self._settings.url)
        return Session(client, (token,), lambda: self._clock() > deadline)

    def close(self) -> None:
        """Let go of connections."""
        self._trusting.close()


class Session:
    """The calls of one delivery."""

    def __init__(self, client: _Client, secrets: tuple[str, ...], is_late: Callable[[], bool]) -> None:
        self._client = client
        self._secrets = secrets
        self._is_late = is_late

    def write(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What Slack answers; arguments are sent as JSON. Raises SlackError where it says no, else DeliveryError."""
        return self._call(method, json=dict(arguments))

    def read(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same with a form, which every method takes."""
        return self._call(method, params=dict(arguments))

    def _call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        if self._is_late():
            raise DeliveryError("Slack is too slow: the rest follows")
        try:
            answer = self._client.api_call(method, **arguments).data
        except SlackApiError as error:
            raise refusal(method, error.response.data, _lower(error.response.headers), self._secrets) from None
        except _LimitedError as error:
            raise limited(method, error.headers) from None
        except (SlackClientError, SourceError) as error:
            raise DeliveryError(str(error)) from None
        return answer if isinstance(answer, Mapping) else {}


class _LimitedError(Exception):
    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__("too many requests")
        self.headers = headers


class _Client(WebClient):
    """slack_sdk's client over our own connections: its own wait as long as bytes drip, and read whatever comes.

    It does not try again: the outbox does. It does not log: what it would log has text from outside and the proxy's
    password.
    """

    def __init__(self, connections: Connections, token: str, url: str) -> None:
        quiet = logging.Logger("slack_sdk", logging.CRITICAL + 1)
        super().__init__(token, base_url=url, retry_handlers=[], logger=quiet)
        self._connections = connections

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        body = req.data if isinstance(req.data, bytes) else b""
        answer = self._connections.request(
            "POST", url, headers=dict(req.header_items()), body=body, max_bytes=_LARGEST, repeat=False
        )
        if answer.status == 429:
            raise _LimitedError(answer.headers)
        return {"status": answer.status, "headers": answer.headers, "body": _object(url, answer)}


def _object(url: str, answer: Answer) -> str:
    """The body, which is a JSON object. Raises SourceError."""
    try:
        text = answer.body.decode("utf-8")
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or answer.status >= 500:
        raise SourceError(f"{url}: answered {answer.status} but not as Slack does")
    return text


def _lower(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}
