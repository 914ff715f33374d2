"""From the user of a job to an email address: by a map file of the site, else by a template."""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

from dutycycle_alerter.credentials import version
from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.settings.notify.address import is_address
from dutycycle_alerter.settings.notify.people import People

log = logging.getLogger(__name__)

_MOST = 16 * 2**20
"""Bytes of a map file: a quarter of a million people."""
_LONGEST_LINE = 1000

# Stricter than what a local part may hold. Somebody else would get the mail of `alice+x` (a folder of alice) or `a%b`
# (routed to b by some servers), and a name that begins with a dash is an option to programs that deliver.
_USER = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")


class Addresses:
    """The addresses of the people of a site. Thread-safe.

    Raises ConfigError where the map file cannot be used. One that cannot be used later on leaves what was last read.
    """

    def __init__(self, people: People) -> None:
        self._template = people.address
        self._path = people.map_file
        self._lock = threading.Lock()
        self._version = version(self._path)
        self._map = {} if self._path is None else read_map(self._path)
        self._complaint = ""

    def of(self, user: str) -> str | None:
        """The address of a user as their scheduler calls them. None where there is none, and where the name cannot be
        put into an address: no mail rather than one to somebody else.
        """
        with self._lock:
            self._refresh()
            if user in self._map:
                return self._map[user]
        return _by_template(self._template, user)

    def needed(self, user: str) -> str:
        """The same; raises DeliveryError, which says what to do, where there is none."""
        address = self.of(user)
        if address is None:
            name = printable(user, NAME_LIMIT) or "nobody"
            remedy = "add them to notify.people.map_file, or set notify.people.address"
            raise DeliveryError(f"no email address of {name} is known: {remedy}", permanent=True)
        return address

    def _refresh(self) -> None:
        if self._path is None:
            return
        now = version(self._path)
        if now is not None and now == self._version and not self._complaint:
            return
        try:
            self._map = read_map(self._path)
        except ConfigError as error:
            if str(error) != self._complaint:
                log.warning("%s; continuing with what was read before", error)
            self._complaint = str(error)
            return
        self._version, self._complaint = now, ""


def read_map(path: Path) -> Mapping[str, str | None]:
    """The addresses by user; None for a user who is listed without one. Raises ConfigError naming file and line."""
    found: dict[str, tuple[str | None, int]] = {}
    for number, line in enumerate(_content(path).splitlines(), 1):
        try:
            user, address = _entry(line)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from None
        if not user:
            continue
        if user in found:
            name = printable(user, NAME_LIMIT)
            raise ConfigError(f"{path}, line {number}: {name} is in line {found[user][1]} already: remove one")
        found[user] = address, number
    return {user: address for user, (address, _) in found.items()}


def _entry(line: bytes) -> tuple[str, str | None]:
    """The user (empty: nothing is said) and the address. Raises ValueError."""
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"longer than {_LONGEST_LINE} bytes: expected `user address`")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    words = re.sub(r"(^|\s)#.*", "", text.removeprefix("\ufeff")).split()
    if not words:
        return "", None
    if len(words) > 2 or not all(word.isprintable() for word in words):
        raise ValueError(f"expected `user address`, found {printable(' '.join(words), NAME_LIMIT)}")
    if len(words) == 1:
        return words[0], None
    if not is_address(words[1]):
        raise ValueError(f"not an email address in ASCII: {printable(words[1], NAME_LIMIT)}")
    return words[0], words[1]


def _content(path: Path) -> bytes:
    try:
        # Nobody may ever write into a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{path}: not a file: notify.people.map_file has lines `user address`")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(_MOST + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: notify.people.map_file cannot be read: {error}") from error
    if len(content) > _MOST:
        raise ConfigError(f"{path}: notify.people.map_file is larger than 16 MiB")
    return content


def _by_template(template: str, user: str) -> str | None:
    if not template or not _USER.fullmatch(user):
        return None
    address = template.replace("{user}", user)
    return address if is_address(address) else None
