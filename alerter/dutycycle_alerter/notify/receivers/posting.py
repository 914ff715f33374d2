"""POSTs of JSON to a program: bounded, redirects not followed, and whatever goes wrong said as a DeliveryError."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from dutycycle_alerter import __version__
from dutycycle_alerter.bounded_http import Answer
from dutycycle_alerter.credentials import hidden, sendable
from dutycycle_alerter.errors import DeliveryError, SourceError
from dutycycle_alerter.notify.receivers.trusting import Trusting
from dutycycle_alerter.printable import printable

_MOST_ANSWERED = 2**20
_MOST_SAID = 300
_LONGEST_WAIT = 3600.0
"""Seconds: who wants to be left alone for longer is asked whether that still holds."""
_HEADER = re.compile(r"[\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*")
_CONNECTION = re.compile(r"^\w+\(host=[^)]{0,300}\): ")

REMEDIES: Mapping[int, str] = {
    404: "is the url right?",
    405: "is the url right?",
    407: "the proxy before it wants credentials",
    413: "what stands before it takes only smaller requests",
}


class Posting:
    """Sends to one URL. `shown` is what errors call it, `permanent` are the answers after which the same request is of
    no use again, `remedies` what helps against an answer. With `proxied` it goes through the proxy that the environment
    names, if any. Not for several threads at once.
    """

    def __init__(
        self,
        shown: str,
        url: str,
        *,
        timeout: float,
        ca_file: Path | None,
        permanent: Collection[int],
        remedies: Mapping[int, str],
        proxied: bool = False,
    ) -> None:
        parts = urlsplit(url)
        self._shown = f"{shown} at {parts.scheme}://{parts.netloc}"
        self._url = url
        self._trusting = Trusting(timeout, ca_file, proxied=proxied)
        self._permanent = frozenset(permanent)
        self._remedies = {**REMEDIES, **remedies}

    def post(self, body: bytes, headers: Mapping[str, str], secrets: Collection[str] = ()) -> Answer:
        """The answer, which says yes (2xx); its body is not read. Raises DeliveryError, which shows no secret."""
        sent = {"Content-Type": "application/json", "User-Agent": f"dutycycle/{__version__}", **headers}
        try:
            answer = self._trusting.connections(self._url).request(
                "POST",
                self._url,
                headers={name: self._sendable(name, value) for name, value in sent.items()},
                body=body,
                max_bytes=_MOST_ANSWERED,
                only_status=True,
            )
        except SourceError as error:
            # The path may be a secret of its own, and urllib3 begins with what it calls its connection.
            reason = _CONNECTION.sub("", hidden(str(error).removeprefix(f"{self._url}: "), secrets))
            raise DeliveryError(f"{self._shown}: {printable(reason, _MOST_SAID)}") from None
        if 200 <= answer.status < 300:
            return answer
        raise DeliveryError(
            f"{self._shown}: {hidden(self._refusal(answer), secrets)}",
            permanent=answer.status in self._permanent,
            retry_after=retry_after(answer.headers, time.time()),
        )

    def close(self) -> None:
        """Let go of connections; it may be used again."""
        self._trusting.close()

    def _sendable(self, name: str, value: str) -> str:
        """A header's value. What http.client says of one that it does not take shows it, in words of its own."""
        if not _HEADER.fullmatch(value):
            raise DeliveryError(f"{self._shown}: the header {name} cannot be sent: it holds a line's end, or no text")
        return sendable(value)

    def _refusal(self, answer: Answer) -> str:
        if 300 <= answer.status < 400:
            return f"answered {answer.status}{_elsewhere(answer)}: redirects are not followed, so give that url"
        said, remedy = _said(answer), self._remedies.get(answer.status, "")
        return f"answered {answer.status}{f': {said}' if said else ''}{f' ({remedy})' if remedy else ''}"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """In how many seconds an answer wants to be asked again, an hour at most; None where it does not say so. Header
    names are in lower case, `now` in Unix seconds: it may name a number of seconds, or a date (RFC 9110).
    """
    text = headers.get("retry-after", "").strip()[:100]
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text)
        at = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, math.ceil(at - now)), _LONGEST_WAIT)


def _elsewhere(answer: Answer) -> str:
    """Where a redirect points, without what may be secret in it."""
    try:
        parts = urlsplit(answer.headers.get("location", ""))
        host = parts.hostname or ""
    except ValueError:
        return ""
    return f", elsewhere ({printable(f'{parts.scheme}://{host}', 200)})" if host else ""


def _said(answer: Answer) -> str:
    """What the answer says in words, if it says something; a page of HTML does not."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    said: object = ""
    if kind.endswith(("/json", "+json")):
        try:
            said = json.loads(answer.body)
        except (ValueError, RecursionError):
            return ""
        if isinstance(said, dict):
            said = next((said[key] for key in ("message", "error", "detail") if isinstance(said.get(key), str)), "")
    elif kind == "text/plain":
        said = answer.body[: 4 * _MOST_SAID].decode("utf-8", "replace")
    return printable(said.strip(), _MOST_SAID) if isinstance(said, str) else ""
