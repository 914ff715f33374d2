"""The page as it is in production: the real store behind it, a real server on a real socket before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import urllib3
from fastapi import FastAPI

from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.web.app import create_app, create_health_app
from dutycycle_alerter.web.listen import ListenAddress
from dutycycle_alerter.web.server import Server
from tests.alerter.conftest import Simulated
from tests.alerter.web.doubles import NOW, FixedReader
from tests.ports import HEALTH_PATHS

LOOPBACK = ListenAddress("127.0.0.1", 0)
KEY = bytes(range(32))
"""With what a server here signs sessions and links."""


@dataclass(frozen=True)
class Client:
    """A plain HTTP client of one site: of its page at `url`, and of its health and metrics at `health`."""

    url: str
    health: str
    pool: urllib3.PoolManager

    @property
    def host(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    def get(self, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
        return self.request("GET", path, headers=headers)

    def request(self, method: str, path: str, **options: object) -> urllib3.BaseHTTPResponse:
        url = self.health if path in HEALTH_PATHS else self.url
        return self.pool.request(method, url.rstrip("/") + path, redirect=False, **options)  # type: ignore[arg-type]

    def page(self, path: str) -> str:
        response = self.get(path)
        assert response.status == 200, response.data.decode()
        return response.data.decode()


@dataclass(frozen=True)
class Live:
    """A server over a copy of the simulated store."""

    client: Client
    store: StoreReader
    now: float

    def incident_of(self, user: str) -> int:
        """The number of a user's incident."""
        from dutycycle_alerter.views import IncidentFilter

        found, _ = self.store.incidents(IncidentFilter(user=user))
        return found[0].id


@contextmanager
def serving(app: FastAPI) -> Iterator[Client]:
    """The page and its health listener, as `dutycycle serve` starts them."""
    with (
        Server(app, LOOPBACK) as page,
        Server(create_health_app(app), LOOPBACK) as health,
        urllib3.PoolManager(retries=False, timeout=60) as pool,
    ):
        yield Client(page.url, health.url, pool)


@pytest.fixture
def serve() -> Iterator[Callable[..., Client]]:
    """Starts a server over a reader of fixed answers; the clock stands still at NOW."""
    with ExitStack() as stack:

        def start(reader: FixedReader, **options: object) -> Client:
            settings = {"clock": lambda: NOW, "monotonic": lambda: NOW, "zone": UTC, **options}
            return stack.enter_context(serving(create_app(reader, reader, **settings)))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def live_site(simulated: Simulated, store_file: Path) -> Iterator[Callable[..., Live]]:
    """Starts servers over the simulated store, some seconds after its last pass."""
    now = simulated.now + 5
    with ExitStack() as stack:
        database = open_database(f"sqlite:///{store_file}")
        stack.callback(database.close)
        store = StoreReader(database, lambda: now)

        def start(**options: object) -> Live:
            settings = {"clock": lambda: now, "zone": UTC, "key": KEY, "unresolved": store.unresolved, **options}
            return Live(stack.enter_context(serving(create_app(store, store, **settings))), store, now)  # type: ignore[arg-type]

        yield start


@pytest.fixture
def live(live_site: Callable[..., Live]) -> Live:
    """A server that nobody has to log in at."""
    return live_site()
