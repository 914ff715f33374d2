"""Authorities: a host with or without a port, as settings, Host headers and browsers' origins write it. Pure.

One and the same place is compared in one form: the port that a scheme has anyway is left out, as browsers do it, and a
name that is fully qualified (`gpus.example.org.`) is the name without its last dot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_OWN_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65535

_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)(?P<dot>\.?)(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class Authority:
    """`host` as it was written, an IPv6 address in brackets; `port` is None where none was given."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """The host without brackets."""
        return self.host.strip("[]")

    def within(self, scheme: str) -> Authority:
        """As a browser writes it behind a scheme: without the port that the scheme has anyway."""
        return replace(self, port=None) if self.port == _OWN_PORTS.get(scheme) else self


def authority(text: str) -> Authority | None:
    """What the text says; None where it is no authority in ASCII (one with a user's name is none either)."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or (match["dot"] and match["host"].startswith("[")):
        return None
    port = None if match["port"] is None else int(match["port"])
    return None if port is not None and port > _LAST_PORT else Authority(match["host"], port)


def spellings(text: str, scheme: str) -> frozenset[str]:
    """How the authority may be written behind a scheme, with that scheme's own port and without, in lower case; none
    where it is no authority.
    """
    found = authority(text.strip().lower())
    if found is None:
        return frozenset()
    short = found.within(scheme)
    own = _OWN_PORTS.get(scheme) if short.port is None else None
    return frozenset({str(short), str(short if own is None else replace(short, port=own))})
