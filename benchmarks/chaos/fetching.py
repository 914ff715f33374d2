"""Asks a program for a page, and tells in one way that there was none."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from http.client import HTTPException


def fetch(url: str, *, timeout: float, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Its status and text. Raises OSError, also where the answer ends in its midst, as that of a program that is killed
    does, or is no text.
    """
    try:
        try:
            with urllib.request.urlopen(url, timeout=timeout, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")
    except (HTTPException, UnicodeDecodeError) as error:
        raise OSError(f"{url}: {error!r}") from error
