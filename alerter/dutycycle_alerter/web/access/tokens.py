"""The configured tokens: which of them is presented, compared in constant time."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Sequence

from dutycycle_alerter.credentials import secret
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.web import SHORTEST_TOKEN, Token

log = logging.getLogger(__name__)

_SHAPE = re.compile(rf"[!-~]{{{SHORTEST_TOKEN},4096}}")


class Tokens:
    """Files are read at each use: who takes a token away shuts its owner out at once."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = {token.name: token for token in tokens}
        self._said: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def presented(self, text: str) -> Token | None:
        """Whose token this is; None where it is nobody's."""
        if not _SHAPE.fullmatch(text):
            return None
        found = None
        for token in self._tokens.values():
            value = self._value(token)
            # All are compared, so that the time says nothing of which.
            if value is not None and hmac.compare_digest(value.encode(), text.encode()):
                found = found or token
        return found

    def named(self, name: str) -> tuple[Token, str] | None:
        """The entry of that name and its present value; None where there is none, or its file cannot be used."""
        token = self._tokens.get(name)
        value = None if token is None else self._value(token)
        return None if token is None or value is None else (token, value)

    def check(self) -> None:
        """Say in the log which files cannot be used."""
        for token in self._tokens.values():
            self._value(token)

    def _value(self, token: Token) -> str | None:
        try:
            value = secret("token", token.token, token.token_file)
            wrong = ""
        except SourceError as error:
            value, wrong = None, str(error)
        if value is not None and not _SHAPE.fullmatch(value):
            value, wrong = None, f"the token has to have at least {SHORTEST_TOKEN} visible ASCII characters"
        # Once, not at each request: anybody can make many.
        if wrong and self._said.get(token.name) != wrong:
            log.warning("web.auth.tokens: %s cannot log in: %s", token.name, wrong)
        self._said[token.name] = wrong
        return value
