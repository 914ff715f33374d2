"""Inputs for parsers: anything at all, and documents that are nearly right.

A nearly right document is a sound one after a few mutations, of its structure or of its bytes. All mutations of an
example are drawn at once, as a script of a few bytes: most of the time that an example takes is Hypothesis drawing
things. A script of zeros does nothing, so that an example shrinks to a sound document with one fault.
"""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

TOKENS: tuple[bytes, ...] = (
    *(
        b"",
        b"\0",
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b" ",
        b",",
        b":",
        b";",
        b'"',
        b"'",
        b"\\",
        b"/",
        b"=",
        b"-",
        b"_",
        b"#",
    ),
    *(b"[", b"]", b"{", b"}", b"(", b")", b"<", b"&a", b"*a", b"%", b"${HOME}", b"../", b"//"),
    *(b"0", b"-0", b"-1", b"1e400", b"-1e400", b"1e-400", b"nan", b"NaN", b"inf", b"-Infinity", b"0x10", b"1_000"),
    *(b"65534", b"65535", b"4294967294", b"4294967295", b"9223372036854775807", b"18446744073709551616", b"1" * 5000),
    *(b"true", b"null", b"None", b"~", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x85"),
    *("\u202e".encode(), "\u2028".encode(), "\u0661".encode(), "\u00b2".encode(), "\U0001f4a5".encode(), b"\x1b[31m"),
    *(b"[" * 3000, b"{" * 3000, b"a" * 70_000, b"," * 3000, b"\n" * 3000),
)
"""What parsers of many kinds have stumbled over."""

RAW: tuple[str, ...] = (
    *("null", "true", "0", "-0", "-1", "1.5", "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1e-400", "1e308"),
    *(
        "65534",
        "65535",
        "4294967294",
        "4294967295",
        "9223372036854775807",
        "18446744073709551616",
        "1" * 400,
        "1" * 5000,
    ),
    *('""', '"0"', '"-1"', '"nan"', '"NaN"', '"Inf"', '"+Inf"', '"1e400"', '"Infinity"', '"\\u0000"', '"\\ud800"'),
    *('"\\u202e"', '"a\\nb"', '"\u0661"', '"../.."', '"2024-01-01T00:00:00Z"', '"0001-01-01T00:00:00Z"', '"[1-65536]"'),
    *("[]", "{}", "[[]]", "[null]", '[""]', "[0]", '{"":""}', '{"a":1,"a":2}', '{"set":true,"number":1e400}'),
    *('{"set":true,"infinite":false,"number":-1}', '{"set":true}', '{"number":{}}', "[" * 600 + "]" * 600, "[" * 3000),
    *(
        '{"a":' * 600 + "1" + "}" * 600,
        f'"{"a" * 70_000}"',
        f"[{','.join(['0'] * 3000)}]",
        f"[{','.join(['{}'] * 1000)}]",
    ),
)
"""Values of JSON as they are written, among them some that are none."""

_STEP = 6
"""Bytes of a script that say one mutation: which, where (2), how much or what else, and by what (2)."""

_MOST = 4
"""Mutations of a script."""

SCRIPTS = st.binary(min_size=_STEP * _MOST, max_size=_STEP * _MOST)


def mutated(sound: Sequence[bytes], *, tokens: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Documents after mutations of their bytes, some of which put one of the tokens somewhere."""
    known = (*tokens, *TOKENS)
    return st.builds(lambda document, script: _apply(document, script, known), st.sampled_from(list(sound)), SCRIPTS)


def documents(sound: Sequence[bytes], *, tokens: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Anything at all, and sound documents after mutations of their bytes."""
    return mutated(sound, tokens=tokens) | st.binary(max_size=200)


def texts(sound: Sequence[str], *, tokens: Sequence[str] = ()) -> st.SearchStrategy[str]:
    """As `documents`, for parsers of text that somebody has decoded: with lone surrogates, as from an argument."""
    found = documents([text.encode() for text in sound], tokens=[token.encode() for token in tokens])
    return found.map(lambda content: content.decode("utf-8", "surrogateescape")) | st.text(max_size=50)


def jsons(sound: Sequence[object], *, raw: Sequence[str] = ()) -> st.SearchStrategy[bytes]:
    """Anything at all, and JSON documents after mutations of their values, keys and bytes."""
    known = (*raw, *RAW)
    changed = values(sound, strange=[f"{_HOLE}{place}{_HOLE}" for place in range(len(known))])
    return st.one_of(
        changed.map(lambda value: _written(value, known)),
        mutated([json.dumps(value).encode() for value in sound], tokens=[text.encode() for text in known]),
        st.binary(max_size=100),
    )


_HOLE = "\ue000"
_HOLES = re.compile(f'"{_HOLE}([0-9]+){_HOLE}"')


def _written(value: object, raw: Sequence[str]) -> bytes:
    """A value as JSON, its holes filled with what is no value of Python's."""
    text = json.dumps(value, ensure_ascii=False)
    return _HOLES.sub(lambda hole: raw[int(hole[1])], text).encode("utf-8", "surrogatepass")


def values(sound: Sequence[object], *, strange: Sequence[object]) -> st.SearchStrategy[Any]:
    """Values made of mappings and lists after mutations of their structure, some of which put one of `strange` in."""
    return st.builds(lambda value, script: _changed(value, script, strange), st.sampled_from(list(sound)), SCRIPTS)


def packed(content: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The same plain, packed with gzip, and packed and then damaged."""
    whole = content.map(lambda plain: gzip.compress(plain, 1, mtime=0))
    return st.one_of(
        content, whole, st.builds(lambda document, script: _apply(document, script, TOKENS), whole, SCRIPTS)
    )


def _steps(script: bytes) -> Iterator[tuple[int, int, int, int]]:
    for begin in range(0, len(script), _STEP):
        kind, high, low, other, upper, lower = script[begin : begin + _STEP]
        yield kind, high << 8 | low, other, upper << 8 | lower


_CHANGES = ("replace", "delete", "repeat", "rename", "swap", "wrap")


def _changed(value: object, script: bytes, known: Sequence[object]) -> object:
    value = json.loads(json.dumps(value))
    for number, place, other, token in _steps(script):
        # Every other number does nothing.
        if number % 2 == 0:
            continue
        # A copy of its own, as later steps change what is in it.
        kind, strange = _CHANGES[number // 2 % len(_CHANGES)], copy.deepcopy(known[token % len(known)])
        spots = list(_spots(value))
        if not spots:
            return strange
        holder, key = spots[place % len(spots)]
        if kind == "replace":
            holder[key] = strange
        elif kind == "delete":
            del holder[key]
        elif kind == "wrap":
            holder[key] = [holder[key]]
        elif kind == "swap":
            second, place_in_it = spots[other % len(spots)]
            # By a copy: a value that is put into itself has no end.
            second[place_in_it] = json.loads(json.dumps(holder[key]))
        elif isinstance(holder, list):
            holder.extend([holder[key]] * (1 + other % 4))
        elif kind == "rename" and isinstance(strange, str):
            holder[strange[:20]] = holder.pop(key)
        else:
            names = list(holder)
            holder[names[other % len(names)]] = holder[key]
    return value


def _spots(value: object) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _spots(value[key])


def _cut(content: bytearray, at: int, size: int, token: bytes) -> None:
    del content[at:]


def _drop(content: bytearray, at: int, size: int, token: bytes) -> None:
    del content[at : at + size]


def _repeat(content: bytearray, at: int, size: int, token: bytes) -> None:
    content[at:at] = content[at : at + size]


def _insert(content: bytearray, at: int, size: int, token: bytes) -> None:
    content[at:at] = token


def _overwrite(content: bytearray, at: int, size: int, token: bytes) -> None:
    content[at : at + size] = token


def _flip(content: bytearray, at: int, size: int, token: bytes) -> None:
    if content:
        content[at % len(content)] ^= 1 << size % 8


def _word(content: bytearray, at: int, size: int, token: bytes) -> None:
    """Put the token in the place of a whole word, number or name."""
    begin = end = at
    while begin > 0 and content[begin - 1 : begin].isalnum():
        begin -= 1
    while end < len(content) and content[end : end + 1].isalnum():
        end += 1
    content[begin:end] = token


def _line(content: bytearray, at: int, size: int, token: bytes) -> None:
    """Repeat a whole line."""
    begin = content.rfind(b"\n", 0, at) + 1
    end = content.find(b"\n", at) + 1 or len(content)
    content[begin:begin] = content[begin:end]


_Mutation = Callable[[bytearray, int, int, bytes], None]
_MUTATIONS: tuple[_Mutation, ...] = (_word, _cut, _drop, _repeat, _insert, _overwrite, _flip, _line)


def _apply(document: bytes, script: bytes, tokens: Sequence[bytes]) -> bytes:
    content = bytearray(document)
    for number, place, size, token in _steps(script):
        if number % 2:
            mutate = _MUTATIONS[number // 2 % len(_MUTATIONS)]
            # Most are small: what is left of the document is what leads deep into the parser.
            mutate(content, place % (len(content) + 1), 1 + size % 24, tokens[token % len(tokens)])
    return bytes(content)
