"""Credentials: secrets read where they are needed and shown nowhere, and files whose change is noticed."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pydantic import SecretStr

from dutycycle_alerter.errors import SourceError

_MOST = 64 * 2**10


def secret(key: str, given: SecretStr | None, path: Path | None) -> str | None:
    """The secret of a key: itself, or what is in its file, which is `{key}_file`. Raises SourceError that names them;
    None where neither is given.
    """
    if given is not None:
        return given.get_secret_value()
    if path is None:
        return None
    text = _read(f"{key}_file", path).strip()
    if not text or not text.isprintable():
        raise SourceError(f"{key}_file {path}: must hold the secret, on one line, and nothing else")
    return text


def secret_lines(key: str, path: Path) -> tuple[str, ...]:
    """The lines of a file with a secret each, without those that are empty or begin with `#`. Raises SourceError."""
    lines = [line.strip() for line in _read(key, path).splitlines()]
    if not all(line.isprintable() for line in lines):
        raise SourceError(f"{key} {path}: must hold a secret on each line, and nothing else")
    return tuple(line for line in lines if line and not line.startswith("#"))


def basic(username: str, password: str) -> str:
    """The user and the password as the value of `Authorization` has them after `Basic`."""
    return base64.b64encode(f"{username}:{password}".encode()).decode()


def sendable(value: str) -> str:
    """A header's value for http.client, which knows Latin-1 alone, and would show what it cannot encode."""
    return value.encode().decode("latin-1")


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without secrets: a server may answer with what it was sent."""
    for one in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(one, "***")
    return text


def version(path: Path | None) -> object:
    """Changes whenever the file does; None where there is none."""
    if path is None:
        return None
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _read(key: str, path: Path) -> str:
    try:
        # Nobody may ever write into a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceError(f"{key} {path}: not a file")
            content = os.read(descriptor, _MOST + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise SourceError(f"{key} {path}: cannot be read: {error}") from error
    if len(content) > _MOST:
        raise SourceError(f"{key} {path}: larger than 64 KiB: must hold the secret, on one line, and nothing else")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError(f"{key} {path}: not text") from None  # the error would show the content
