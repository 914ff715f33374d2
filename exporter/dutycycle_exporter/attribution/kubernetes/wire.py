"""The protobuf wire format, read field by field: https://protobuf.dev/programming-guides/encoding/. Pure.

Accepts what protobuf's own parser accepts: unknown fields, groups and padded varints are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from dutycycle_exporter.attribution.errors import UnusableError

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_DEEPEST = 100
_LONGEST_TAG, _LONGEST_VARINT = 5, 10


def messages(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The length-delimited fields of a message, as (number, content), in order; others are checked and passed over.

    Raises UnusableError: protocol.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at, _LONGEST_TAG)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES and number:
            start, at = _bytes(message, at)
            yield number, message[start:at]
        else:
            at = _skip(message, at, number, kind, _DEEPEST)


def text(content: memoryview) -> str:
    """A string field. Raises UnusableError: protocol."""
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError as error:
        raise UnusableError("protocol") from error


def _skip(message: memoryview, at: int, number: int, kind: int, depth: int) -> int:
    if number == 0 or depth == 0:
        raise UnusableError("protocol")
    if kind == _VARINT:
        return _varint(message, at, _LONGEST_VARINT)[1]
    if kind in (_FIXED64, _FIXED32):
        at += 8 if kind == _FIXED64 else 4
        if at > len(message):
            raise UnusableError("protocol")
        return at
    if kind == _BYTES:
        return _bytes(message, at)[1]
    if kind == _GROUP:
        while True:
            tag, at = _varint(message, at, _LONGEST_TAG)
            if tag & 7 == _END_GROUP:
                if tag >> 3 != number:
                    raise UnusableError("protocol")
                return at
            at = _skip(message, at, tag >> 3, tag & 7, depth - 1)
    raise UnusableError("protocol")


def _bytes(message: memoryview, at: int) -> tuple[int, int]:
    length, start = _varint(message, at, _LONGEST_TAG)
    end = start + length
    if end > len(message):
        raise UnusableError("protocol")
    return start, end


def _varint(message: memoryview, at: int, longest: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * longest, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise UnusableError("protocol")
