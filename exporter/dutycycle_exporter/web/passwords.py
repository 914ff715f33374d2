"""bcrypt, by the system's libcrypt, and the verdicts that are kept because bcrypt is slow on purpose."""

from __future__ import annotations

import ctypes
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache

from dutycycle_exporter.errors import BusyError, ConfigError

_HASH = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", None)
"""Of glibc systems, of those with a newer libxcrypt, and the C library itself, which has it in musl."""
_CRYPT_DATA = 256 * 1024
"""Bytes, more than the `struct crypt_data` of any of them."""
_MOST_WRONG = 128
_MOST_RIGHT = 1024
_MOST_WAITING = 4
"""Passwords that are hashed or wait for it; each has a thread until its turn has come."""


def is_hash(text: str) -> bool:
    """Whether it is the bcrypt hash of something, as `htpasswd -nBC 10 ""` prints it."""
    return _HASH.fullmatch(text) is not None


def require_bcrypt() -> None:
    """Raises ConfigError where this system cannot compute bcrypt."""
    known = "$2b$04$abcdefghijklmnopqrstuu"
    if not _crypt(b"", known.encode()).startswith(known.encode()):
        raise ConfigError("basic_auth_users: the system's libcrypt has no bcrypt; install libxcrypt")


class Passwords:
    """Says whether a user's password is right. Thread-safe.

    An unknown user takes as long as a known one, and one password is hashed at a time, for which few may wait: nobody
    can keep the machine, or its threads, busy with guesses. A verdict is kept, by a keyed digest, so that a scraper
    waits for bcrypt once. Right ones are kept apart from wrong ones: guesses do not push them out.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        # For users that there are not: the hash of nothing, at the cost of the others.
        costs = [match["cost"] for text in users.values() if (match := _HASH.fullmatch(text))]
        self._nobody = f"$2b${max(costs, default='10')}${'.' * 53}"
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._hashing = threading.Lock()
        self._places = threading.BoundedSemaphore(_MOST_WAITING)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"Passwords of {len(self._users)} users"

    def right(self, user: str, password: str) -> bool:
        """The verdict; the first for a password takes the time that its hash's cost says. Raises BusyError where too
        many wait for theirs.
        """
        text = f"{len(user)}:{user}:{password}".encode(errors="surrogatepass")
        digest = hmac.digest(self._key, text, "sha256")
        known = self._kept(digest)
        if known is not None:
            return known
        if not self._places.acquire(blocking=False):
            raise BusyError("too many passwords wait to be verified")
        try:
            with self._hashing:
                known = self._kept(digest)
                if known is None:
                    known = self._verify(user, password)
                    self._keep(digest, right=known)
        finally:
            self._places.release()
        return known

    def _verify(self, user: str, password: str) -> bool:
        expected = self._users.get(user, self._nobody)
        secret = password.encode(errors="surrogatepass")
        # libcrypt ends a password at a NUL, which would make two passwords the same.
        computed = _crypt(secret.replace(b"\0", b""), expected.encode())
        return hmac.compare_digest(computed, expected.encode()) and user in self._users and b"\0" not in secret

    def _kept(self, digest: bytes) -> bool | None:
        with self._lock:
            if digest in self._right:
                self._right.move_to_end(digest)
                return True
            return False if digest in self._wrong else None

    def _keep(self, digest: bytes, *, right: bool) -> None:
        with self._lock:
            verdicts, most = (self._right, _MOST_RIGHT) if right else (self._wrong, _MOST_WRONG)
            verdicts[digest] = None
            while len(verdicts) > most:
                verdicts.popitem(last=False)


def _crypt(password: bytes, setting: bytes) -> bytes:
    """crypt(3): the hash, or something short that no hash equals. Lets other threads run meanwhile."""
    data = ctypes.create_string_buffer(_CRYPT_DATA)
    return _library()(password, setting, data) or b"*"


@cache
def _library() -> ctypes._NamedFuncPointer:
    for name in _LIBRARIES:
        try:
            function = ctypes.CDLL(name).crypt_r
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        return function
    raise ConfigError("basic_auth_users: this system has no libcrypt to verify bcrypt with; install libcrypt1")
