"""A Grafana, and the token file with which the command reaches it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.dashboards.command import Done, dutycycle_dashboards
from tests.fakes.grafana.server import GrafanaServer


@pytest.fixture
def grafana() -> Iterator[GrafanaServer]:
    with GrafanaServer() as server:
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


def reached(grafana: GrafanaServer, writes: int) -> None:
    """Waits until so many requests that would change something have come."""
    while len(grafana.writes()) < writes:
        time.sleep(0.01)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened
