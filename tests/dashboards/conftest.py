"""A Grafana, and the token file with which the command reaches it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.dashboards.command import Done, dutycycle_dashboards
from tests.fakes.grafana.server import Answer, Cut, GrafanaServer


@pytest.fixture
def grafana(request: pytest.FixtureRequest) -> Iterator[GrafanaServer]:
    """Of release 12, or of the one that a test is parametrized with."""
    with GrafanaServer(version=getattr(request, "param", "12.1.0")) as server:
        yield server


@pytest.fixture
def token_file(tmp_path: Path, grafana: GrafanaServer) -> Path:
    path = tmp_path / "grafana.token"
    path.write_text(grafana.token + "\n")
    return path


@pytest.fixture
def push(grafana: GrafanaServer, token_file: Path) -> Callable[..., Done]:
    """`dutycycle-dashboards push` to the Grafana, with further arguments."""

    def run(*arguments: str, url: str = "", token: Path | None = None, **variables: str) -> Done:
        address, file = url or grafana.url, token or token_file
        return dutycycle_dashboards("push", "--url", address, "--token-file", file, *arguments, **variables)

    return run


def together(grafana: GrafanaServer, read: str, count: int) -> None:
    """The first `count` requests whose path begins with `read` get their answers at the same time: nobody has written
    before everybody has read.
    """
    barrier, respond, left = threading.Barrier(count), grafana.respond, iter(range(count))

    def held(method: str, path: str, token: str, body: bytes) -> Answer | Cut:
        answer = respond(method, path, token, body)
        if method == "GET" and path.startswith(f"/api{read}") and next(left, None) is not None:
            barrier.wait(60)
        return answer

    grafana.respond = held  # type: ignore[method-assign]


def reached(grafana: GrafanaServer, writes: int) -> None:
    """Waits until so many requests that would change something have come."""
    patience = time.monotonic() + 60
    while len(grafana.writes()) < writes:
        assert time.monotonic() < patience, grafana.writes()
        time.sleep(0.01)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened
