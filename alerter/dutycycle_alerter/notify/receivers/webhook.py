"""A program of the site: a POST of JSON, signed with the time, so that it cannot be forged or sent again by others."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable

from dutycycle_alerter.credentials import secret
from dutycycle_alerter.errors import DeliveryError, SourceError
from dutycycle_alerter.notify.model import Composer, Parcel, Receipt
from dutycycle_alerter.notify.receivers.posting import Posting
from dutycycle_alerter.settings.notify import Webhook

DELIVERY, SIGNATURE = "Dutycycle-Delivery", "Dutycycle-Signature"
_PERMANENT = frozenset({400, 410, 413, 415, 422})
"""What they say of a message will be so the next time, too; anything else an operator can put right."""


class WebhookReceiver:
    """Implements `notify.model.Receiver`. `clock` tells Unix seconds, which are signed."""

    def __init__(
        self, name: str, settings: Webhook, composer: Composer, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._composer = composer
        self._clock = clock
        self._shown = f"{name}: webhook"
        refused = "does the other side have the same secret?"
        self._posting = Posting(
            self._shown,
            settings.url,
            timeout=settings.timeout,
            ca_file=settings.ca_file,
            permanent=_PERMANENT,
            remedies={401: refused, 403: refused},
            proxied=True,
        )

    def deliver(self, parcel: Parcel) -> Receipt:
        """Any kind. Raises DeliveryError; at every attempt `Dutycycle-Delivery` is the same."""
        body = self._body(parcel)
        headers = {DELIVERY: parcel.key}
        try:
            key = secret("secret", self._settings.secret, self._settings.secret_file)
        except SourceError as error:
            raise DeliveryError(f"{self._shown}: {error}") from error
        if key is not None:
            headers[SIGNATURE] = signature(key, int(self._clock()), body)
        self._posting.post(body, headers, () if key is None else (key,))
        return Receipt()

    def close(self) -> None:
        """Let go of connections."""
        self._posting.close()

    def _body(self, parcel: Parcel) -> bytes:
        try:
            text = json.dumps(self._composer.document(parcel), ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError) as error:
            raise DeliveryError(f"{self._shown}: cannot be written as JSON: {error}", permanent=True) from error
        # Many parsers refuse half a surrogate pair, which is no text.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def signature(key: str, at: int, body: bytes) -> str:
    """`t=SECONDS,v1=HEX`: the Unix time, and the HMAC-SHA256 under the key of that time, a dot and the body."""
    made = hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={made.hexdigest()}"
