"""One client holds the page of a real alerter. Probes and Prometheus must not notice."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import urllib3

from tests.e2e.site import BIN, Process, wait_for
from tests.ports import HEALTH_PATHS, AlerterAddresses

CLIENTS = 1000
REQUESTS = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
"""Their answers fit into no socket buffer."""
PATIENCE = 240


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * CLIENTS
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"a process may open only {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def client(address: str, sent: bytes) -> Iterator[None]:
    """A connection that reads no answer."""
    host, _, port = address.rpartition(":")
    with socket.socket() as connection:
        connection.settimeout(60)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        with suppress(ConnectionError):
            connection.sendall(sent)
        yield


def status(url: str) -> int:
    """The status that a new connection gets; 0 without an answer."""
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        try:
            return pool.request("GET", url, headers={"Connection": "close"}).status
        except urllib3.exceptions.HTTPError:
            return 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sent", [b"", REQUESTS], ids=["idle", "pipelining"])
@pytest.mark.usefixtures("many_files")
def test_health_and_metrics_answer_while_one_client_holds_the_page(sent: bytes, tmp_path: Path) -> None:
    """With a soft limit of open files below the number of connections."""
    addresses = AlerterAddresses.free()
    limited = ["bash", "-c", 'ulimit -Sn 512; exec "$0" "$@"', str(BIN / "dutycycle")]
    command = [*limited, "serve", *addresses.options, "--database", f"sqlite:///{tmp_path / 'store.sqlite3'}"]
    alerter = Process("alerter", command, tmp_path, {}).start()
    try:
        wait_for(lambda: status(addresses.url("/-/ready")) == 200, "it is ready", within=PATIENCE)
        assert status(addresses.url("/")) == 200
        with ExitStack() as clients:
            for _ in range(CLIENTS):
                clients.enter_context(client(addresses.page, sent))
            assert {path: status(addresses.url(path)) for path in HEALTH_PATHS} == dict.fromkeys(HEALTH_PATHS, 200)
            # The page closes a pipelining connection with the 503, so it may have room again.
            refused = "Exceeded concurrency limit"
            wait_for(lambda: status(addresses.url("/")) == 503 or refused in alerter.log(), "503", within=PATIENCE)
        wait_for(lambda: status(addresses.url("/")) == 200, "the page answers again", within=PATIENCE)
    finally:
        alerter.stop()
