"""The standard library's HTTP server, with requests bounded in time, size and number, and TLS."""

from __future__ import annotations

import io
import logging
import re
import socket
import threading
import time
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.web.access import Access

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

_SLOW_CLIENT = 10.0
"""Seconds that a client may take to send its request or to take the answer's next piece."""
_LARGEST_REQUEST = 64 * 1024
"""Bytes that are read of a request, which is its head: scrapers send less than one thousand. The standard library would
take 100 headers of so many each, and its parser keeps several copies of them.
"""
_MOST_REQUESTS = 16
_MOST_THREADS = 32
"""Those of requests that had to go end when they have noticed."""
_ROOM_WITHIN = 0.2
"""Seconds for which a new connection waits for that, and all behind it."""
_LOOK = 1.0
"""Seconds between looks whether to stop, should `stop` not wake the thread."""
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]{1,5})")


def parse_address(text: str) -> tuple[str, int]:
    """`[HOST]:PORT` as (host, port); an empty host is every interface. Raises ExporterError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise ExporterError(f"--web.listen-address={text}: not [HOST]:PORT; write it like 127.0.0.1:9836 or :9836")
    return match["v6"] or match["host"] or "", int(match["port"])


class _Request(io.RawIOBase):
    """What a client sends, up to a deadline and so many bytes: one that sends a byte now and then may not hold its
    place for ever, and one that sends a lot not our memory.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._bytes_left = _LARGEST_REQUEST
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As for a socket. Raises TimeoutError after the deadline, and ConnectionError where the request is too large
        or cut short: who reads it would take that for the end of a whole one.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        if self._bytes_left == 0:
            raise ConnectionAbortedError("the request is too large")
        self._connection.settimeout(left)
        try:
            read = self._connection.recv_into(buffer, min(len(buffer), self._bytes_left))
            if read == 0:
                raise ConnectionAbortedError("the request ends before its end")
            self._bytes_left -= read
            return read
        finally:
            # The answer has a time of its own.
            self._connection.settimeout(self._seconds)


class _Answer(io.BufferedIOBase):
    """What a client is sent. One that does not take it has gone, as far as we care."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of it. Raises ConnectionError, also where that takes longer than the connection's time-out."""
        try:
            self._connection.sendall(data)
        except OSError as error:
            # A time-out, a reset, or TLS that the other side has ended.
            raise ConnectionAbortedError("the client does not take its answer") from error
        return len(data)


class _Handler(WSGIRequestHandler):
    """Quiet, and impatient with clients that do not send."""

    timeout = _SLOW_CLIENT

    def setup(self) -> None:
        """The whole request has the time that a single read has in the base class."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection, self.timeout))
        self.wfile = _Answer(self.connection)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Scrapes are not worth a line each."""

    def handle(self) -> None:
        """As the base class does; a client that went away or never spoke is no error of ours."""
        with suppress(OSError):
            super().handle()


class Server(ThreadingMixIn, WSGIServer):
    """Serves on a thread; the port is known once constructed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: str, app: WSGIApplication, access: Access | None = None) -> None:
        """Bind to `[HOST]:PORT`; `access` says whether there is TLS. Raises ExporterError where it cannot listen."""
        host, port = parse_address(address)
        if not host and socket.has_dualstack_ipv6():
            host = "::"
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._access = access or Access()
        self._requests: dict[socket.socket, socket.socket] = {}
        """The oldest first, each with what it is spoken to through."""
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_MOST_THREADS)
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ExporterError(f"--web.listen-address={address}: cannot listen there: {error}") from error
        self.set_app(app)
        self._thread = threading.Thread(target=self.serve_forever, args=(_LOOK,), name="web", daemon=True)

    def server_bind(self) -> None:
        """Bind without asking a name server for the host's name, which can take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.server_address[0] == "::":
            # Every interface, whichever protocol it speaks.
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand over to a thread. Beyond the limit the oldest has to go: a scrape takes less time than others need to
        connect, so it is one that does not send, or does not take its answer. Where that is not enough, as its thread
        waits for what others do, the new one is turned away.
        """
        with self._lock:
            oldest = None
            if len(self._requests) >= _MOST_REQUESTS:
                oldest = self._requests.pop(next(iter(self._requests)))
        if oldest is not None:
            with suppress(OSError):
                # Not through TLS, which its own thread may be in the middle of.
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        if not self._places.acquire(timeout=_ROOM_WITHIN):
            self.shutdown_request(request)
            return
        with self._lock:
            self._requests[request] = request
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # The system has no thread for it; whoever called closes the connection.
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One request on its thread."""
        try:
            super().process_request_thread(self._secured(request), client_address)
        except OSError as error:
            # Scanners and clients without our authority: worth a line where one looks for it.
            log.debug("a connection came to nothing: %s", error)
        finally:
            self._leave(request)

    def _leave(self, request: socket.socket) -> None:
        with self._lock:
            self._requests.pop(request, None)
        self._places.release()

    def _secured(self, request: socket.socket) -> socket.socket:
        """The connection to speak through. Raises OSError, the connection closed, where there is to be none."""
        request.settimeout(_Handler.timeout)
        secured = self._access.wrap(request)
        if secured is None:
            return request
        try:
            with self._lock:
                if request not in self._requests:
                    raise ConnectionAbortedError("it had to make room for others")
                # From now on it is this that can be shut down: the one before has given its descriptor away.
                self._requests[request] = secured
            self._access.greet(secured)
        except OSError:
            secured.close()
            raise
        return secured

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's arguments
        """What is not the client's doing is a defect of ours: one line of the log, not the base class's print."""
        log.exception("a request could not be handled")

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and close."""
        if self._thread.ident is not None:
            # What waits for connections wakes, and finds that there will be none.
            self.socket.shutdown(socket.SHUT_RDWR)
            self.shutdown()
            self._thread.join()
        self.server_close()
