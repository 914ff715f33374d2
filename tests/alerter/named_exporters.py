"""Exporters at addresses of their own, all on one port, as a name has them; and what a resolver says of the name."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dutycycle_alerter.sources.resolving import Name
from dutycycle_alerter.sources.scrape import ScrapeSource
from tests.alerter.exporters import FakeExporter
from tests.alerter.rig import INTERVAL, Rig
from tests.exporter.certificates import Pair
from tests.fakes.clock import FakeClock

NAME = "exporters.test"


class _Server6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class Place:
    """Addresses of the loopback network with an exporter on each, and what the name `exporters.test` resolves to: all
    of them where `told` is None. `hosts` are the Host headers of all requests. They speak TLS where there is a
    `certificate`.
    """

    def __init__(self, certificate: Pair | None = None) -> None:
        self._certificate = certificate
        self.told: Iterable[str] | Exception | None = None
        self.monotonic = FakeClock()
        self.hosts: list[str] = []
        self.port = 0
        self._servers: dict[str, tuple[ThreadingHTTPServer, threading.Thread]] = {}

    @property
    def _scheme(self) -> str:
        return "http" if self._certificate is None else "https"

    @property
    def target(self) -> str:
        """What the alerter is configured with."""
        return f"dns+{self._scheme}://{NAME}:{self.port}/metrics"

    def url(self, address: str) -> str:
        """Of the exporter at an address."""
        return f"{self._scheme}://{address}:{self.port}/metrics"

    def resolve(self, host: str, port: int | None) -> Iterable[str]:
        """What the resolver says."""
        assert (host, port) == (NAME, self.port)
        if isinstance(self.told, Exception):
            raise self.told
        return list(self._servers) if self.told is None else self.told

    def named(self, target: str, timeout: float) -> Name:
        """To be given to the source."""
        return Name(target, timeout, self.resolve, self.monotonic)

    def start(self, address: str, page: Callable[[], str]) -> None:
        """An exporter comes up."""
        hosts = self.hosts

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                hosts.append(self.headers["Host"])
                body = page().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        server = (_Server6 if ":" in address else ThreadingHTTPServer)((address, self.port), Handler)
        server.daemon_threads = True
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate.cert, self._certificate.key)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self._servers[address] = server, thread

    def stop(self, address: str) -> None:
        """It is gone, with its address."""
        server, thread = self._servers.pop(address)
        server.shutdown()
        thread.join()
        server.server_close()

    def stop_all(self) -> None:
        """Every one is gone."""
        for address in list(self._servers):
            self.stop(address)


class NamedRig(Rig):
    """As `Rig`, with a source whose resolver is the place's. Steps drive what is in `exporters`."""

    def __init__(self, store: Path, place: Place, *targets: str, interval: float = INTERVAL) -> None:
        self.place = place
        super().__init__(store, targets or (place.target,), [], interval, 1)

    def started(self) -> ScrapeSource:
        source = ScrapeSource(self.settings, self.database, self.clock, self.place.named)
        source.restore()
        return source

    def told(self) -> dict[str, tuple[str, str, str]]:
        """Node, error and note of each target."""
        return {one.url: (one.node, one.error, one.note) for one in self.source.targets()}


@contextmanager
def named(store: Path, *exporters: FakeExporter, interval: float = INTERVAL) -> Iterator[NamedRig]:
    """These exporters at 127.0.0.1, 127.0.0.2, ..., found by name."""
    place = Place()
    rig = None
    try:
        for number, exporter in enumerate(exporters, 1):
            place.start(f"127.0.0.{number}", exporter.page)
        rig = NamedRig(store, place, interval=interval)
        rig.exporters += exporters
        yield rig
    finally:
        place.stop_all()
        if rig is not None:
            with suppress(Exception):
                rig.close()
