"""A name server over UDP: answers for addresses (A, AAAA) by what a test says of a name."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_A, _AAAA = 1, 28
_SERVFAIL, _NXDOMAIN = 2, 3
_MOST = 60
"""Records that fit into a datagram that every resolver takes."""


class FailingError(Exception):
    """Raised by `resolve`: the server fails (SERVFAIL)."""


class NameServer:
    """Serves on a bound socket, within `with`. `resolve` says a name's addresses, or None where there is no such name;
    `asked` are the names.
    """

    def __init__(self, listening: socket.socket, resolve: Callable[[str], list[str] | None]) -> None:
        self.asked: set[str] = set()
        self._socket, self._resolve = listening, resolve
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                query, sender = self._socket.recvfrom(4096)
                if not query:
                    return
                self._socket.sendto(self._answer(query), sender)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question = query[12 : at + 5]
        (kind,) = struct.unpack(">H", question[-4:-2])
        name = ".".join(labels).lower()
        self.asked.add(name)
        try:
            addresses = self._resolve(name)
        except FailingError:
            return query[:2] + struct.pack(">HHHHH", 0x8180 | _SERVFAIL, 1, 0, 0, 0) + question
        family = {_A: socket.AF_INET, _AAAA: socket.AF_INET6}.get(kind)
        found = [
            socket.inet_pton(family, address)
            for address in (addresses or [])[:_MOST]
            if family is not None and (":" in address) == (kind == _AAAA)
        ]
        records = [struct.pack(">HHHIH", 0xC00C, kind, 1, 5, len(packed)) + packed for packed in found]
        flags = 0x8180 | (_NXDOMAIN if addresses is None else 0)
        return query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + question + b"".join(records)
