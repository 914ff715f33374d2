"""The columns' types: what comes from outside is made storable on its way in, alike on SQLite and PostgreSQL.

PostgreSQL keeps no NUL and no half of a surrogate pair in text, has no room for long texts in an index, and takes no
NaN in JSON. One odd name must not keep a pass from being written, today's and every one after it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

_LONGEST = 500
"""Bytes of a name. An index of PostgreSQL holds 2,700 in all, and of the longest key four names."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with NUL as its picture, and half of a surrogate pair as U+FFFD."""
    if text.isascii():
        return text.replace("\0", "␀") if "\0" in text else text
    return _SURROGATES.sub("\ufffd", text).replace("\0", "␀")


def storable_name(text: str) -> str:
    """The name as it is kept: what must be changed or cut ends with a digest, so that no two become one."""
    if len(text) <= _LONGEST and text.isascii() and "\0" not in text:
        return text
    kept = storable(text)
    encoded = kept.encode()
    if kept == text and len(encoded) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{encoded[: _LONGEST - 20].decode('utf-8', 'ignore')}…{digest}"


def to_json(value: Any) -> str:
    """JSON that both databases take: a number that is none is null, one beyond all bounds the largest there is."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else math.copysign(sys.float_info.max, value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


class Name(TypeDecorator[str]):
    """Short text that may be part of a key."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """To the database."""
        return None if value is None else storable_name(value)


class Words(TypeDecorator[str]):
    """Text of any length, in no key."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """To the database."""
        return None if value is None else storable(value)


class Real(TypeDecorator[float]):
    """A double; NaN is missing, as SQLite has it."""

    impl = sa.Float
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: sa.Dialect) -> float | None:  # noqa: ARG002
        """To the database."""
        return None if value is None or math.isnan(value) else value


Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A row's number where there may be more than 2^31 in the life of a store. SQLite's are that wide by themselves."""
