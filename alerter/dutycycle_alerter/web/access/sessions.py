"""Sessions of who logged in on the page: a signed cookie that names the token, and ends with it or after a while."""

from __future__ import annotations

import base64
import hmac
import math

from dutycycle_alerter.settings.web import Token
from dutycycle_alerter.web.access.tokens import Tokens

COOKIE = "dutycycle_session"

_MAC = 32
_TIME = 5
_LONGEST = 800


class Sessions:
    """`lifetime` is in seconds. Nothing is kept here: any alerter on the same store knows them."""

    def __init__(self, tokens: Tokens, key: bytes, lifetime: float) -> None:
        self._tokens = tokens
        self._key = hmac.digest(key, b"dutycycle session", "sha256")
        self.lifetime = lifetime

    def begun(self, token: Token, value: str, *, now: float) -> str:
        """The cookie's value for who presented that token."""
        content = math.ceil(now + self.lifetime).to_bytes(_TIME, "big") + token.name.encode()
        return base64.urlsafe_b64encode(content + self._mac(content, value)).decode("ascii")

    def read(self, cookie: str, *, now: float) -> Token | None:
        """Whose session it is; None where it is forged, over, or its token has changed or is gone."""
        if not cookie.isascii() or len(cookie) > _LONGEST:
            return None
        try:
            data = base64.b64decode(cookie, b"-_", validate=True)
            name = data[_TIME:-_MAC].decode()
        except ValueError:
            return None
        if base64.urlsafe_b64encode(data).decode("ascii") != cookie:
            # The last character has bits that say nothing: one session is one cookie.
            return None
        known = self._tokens.named(name)
        if known is None:
            return None
        token, value = known
        genuine = hmac.compare_digest(data[-_MAC:], self._mac(data[:-_MAC], value))
        return token if genuine and now < int.from_bytes(data[:_TIME], "big") else None

    def _mac(self, content: bytes, value: str) -> bytes:
        # The token's value is in it: another value ends the session.
        signed = len(content).to_bytes(4, "big") + content + value.encode()
        return hmac.digest(self._key, signed, "sha256")
