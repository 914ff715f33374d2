"""Where to send what, and with which token: an address is checked, and a token read, before anything is sent."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from dutycycle_dashboards.errors import UsageError
from dutycycle_dashboards.publishing.inert import inert

_LONGEST_TOKEN = 4096


def base_url(text: str, option: str, *, secret: bool) -> str:
    """An address, its scheme in lower case, without a slash at its end. Raises UsageError where it is none, or where a
    secret would go over the network in the clear.
    """
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"{option}: {text[:200]!r} is no address: {str(error)[:200]}") from error
    # urlsplit leaves out line breaks, of which what sends it knows nothing.
    visible = text.strip().isprintable() and " " not in text.strip()
    if parts.scheme not in ("http", "https") or not host or not visible:
        raise UsageError(f"{option}: {text[:200]!r} is no address; write it like https://grafana.example.org")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{option}: a name and a password have no place in the address; give a token file")
    if parts.query or parts.fragment:
        raise UsageError(f"{option}: the address ends with its path; leave out what begins with ? or #")
    if secret and parts.scheme == "http" and not is_loopback(host):
        raise UsageError(f"{option}: a token is not sent to {inert(host, 200)} in the clear; use https://")
    return f"{parts.scheme}:{text.strip().partition(':')[2]}".rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether it is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def token(path: Path, option: str) -> str:
    """The token in a file. Raises UsageError, which never has the token."""
    try:
        with path.open("rb") as file:
            found = file.read(_LONGEST_TOKEN + 1).strip()
    except OSError as error:
        raise UsageError(f"{option}: {path} cannot be read: {error.strerror or error}") from error
    if not found:
        raise UsageError(f"{option}: {path} is empty; write the token into it")
    if len(found) > _LONGEST_TOKEN or not all(0x21 <= byte <= 0x7E for byte in found):
        raise UsageError(f"{option}: {path} holds no token: a token is one line of visible ASCII characters")
    return found.decode("ascii")
