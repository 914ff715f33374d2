"""The lines of a text file as it comes: plain or gzip, UTF-8 or UTF-16, cut short, or not text at all."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dutycycle_alerter.errors import RecordingError

LONGEST = 2**16
"""Characters of a line; what is longer is no line of a recording."""

_BLOCK = 2**20
_GZIP = b"\x1f\x8b"
# What the decoder makes of bytes that are not the file's encoding.
_UNDECODABLE = re.compile("[\ud800-\udfff]")

Progress = Callable[[int], None]
"""Told how many bytes of the file were read since it was told last."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines without their ends; `first` is the number of the first, from 1. `unfinished` tells that the last line
    has no end: the file stops in it. `cut` says why the file could not be read on, if so.
    """

    first: int
    lines: list[str]
    unfinished: bool = False
    cut: str = ""


def unreadable(line: str) -> str:
    """Why a line cannot be text of a recording; empty where it can."""
    if len(line) > LONGEST:
        return f"longer than {LONGEST} characters"
    return "not UTF-8 text" if not line.isascii() and _UNDECODABLE.search(line) else ""


def read(path: Path, progress: Progress = lambda _: None) -> Iterator[Chunk]:
    """The file's lines in chunks. Damaged or unfinished compression ends it like the end of the file. Raises
    RecordingError where the file cannot be opened or read.
    """
    splitter = _Splitter()
    cut = ""
    for block in _blocks(path, progress):
        if isinstance(block, str):
            cut = block
            break
        chunk = splitter.feed(block)
        if chunk.lines:
            yield chunk
    last = splitter.end(cut)
    if last.lines or last.cut:
        yield last


class _Splitter:
    """Bytes to lines; holds back the line that is not complete yet."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._rest = ""
        self._next = 1

    def feed(self, block: bytes) -> Chunk:
        if self._decoder is None:
            utf16 = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            encoding, errors = ("utf-16", "replace") if utf16 else ("utf-8-sig", "surrogateescape")
            self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        text = self._rest + self._decoder.decode(block)
        lines = text.split("\n")
        # A line without end must not fill the memory: its tail is dropped, it is refused in any case.
        self._rest = lines.pop()[: LONGEST + 1]
        return self._chunk(lines)

    def end(self, cut: str) -> Chunk:
        rest = self._rest + (self._decoder.decode(b"", final=True) if self._decoder is not None else "")
        chunk = self._chunk([rest] if rest else [])
        return Chunk(chunk.first, chunk.lines, unfinished=bool(rest), cut=cut)

    def _chunk(self, lines: list[str]) -> Chunk:
        first, self._next = self._next, self._next + len(lines)
        return Chunk(first, [line[:-1] if line.endswith("\r") else line for line in lines])


def _blocks(path: Path, progress: Progress) -> Iterator[bytes | str]:
    """The file's content, decompressed; last a text where its compression is damaged."""
    try:
        with path.open("rb") as file:
            block = file.read(_BLOCK)
            if not block.startswith(_GZIP):
                while block:
                    progress(len(block))
                    yield block
                    block = file.read(_BLOCK)
                return
            gunzip = _Gunzip()
            while block:
                progress(len(block))
                yield from gunzip.feed(block)
                if gunzip.damage:
                    yield gunzip.damage
                    return
                block = file.read(_BLOCK)
            if not gunzip.complete:
                yield "the compressed data ends too early"
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Gunzip:
    """Gzip members one after the other, a bounded piece at a time; what was readable before damage is not lost."""

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None
        self.damage = ""

    @property
    def complete(self) -> bool:
        """Whether the data so far ends with a whole member."""
        return self._member is None

    def feed(self, block: bytes) -> Iterator[bytes]:
        while block and not self.damage:
            if self._member is None:
                block = block.lstrip(b"\0")  # padding after a member is allowed
                if not block:
                    return
                self._member = zlib.decompressobj(wbits=31)
            try:
                piece = self._member.decompress(block, _BLOCK)
            except zlib.error as error:
                self.damage = f"the compressed data is damaged: {error}"
                return
            if piece:
                yield piece
            if self._member.eof:
                block, self._member = self._member.unused_data, None
            else:
                block = self._member.unconsumed_tail
