"""A plain HTTP client for tests of the API server itself."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .server import KubernetesServer

PATIENCE = 30.0


class Client:
    """One connection."""

    def __init__(
        self, server: KubernetesServer, token: str | None = "admin", context: ssl.SSLContext | None = None
    ) -> None:
        host = server.url.partition("//")[2]
        if context is None:
            self.connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        else:
            self.connection = http.client.HTTPSConnection(host, timeout=PATIENCE, context=context)
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> http.client.HTTPResponse:
        sent = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, sent, {**self.headers, **named})
        return self.connection.getresponse()

    def json(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any]:
        answer = self.ask(path, method, body, **headers)
        return answer.status, json.loads(answer.read())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def events(answer: http.client.HTTPResponse, count: int) -> list[tuple[str, str]]:
    found = []
    for _ in range(count):
        line = json.loads(answer.readline())
        found.append((line["type"], line["object"]["metadata"].get("name", "")))
    return found


def until(holds: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if holds():
            return
        waited.wait(0.01)
    pytest.fail("it never came to hold")
