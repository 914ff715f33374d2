"""uvicorn in a thread, with a start that knows the port and a stop that leaves nothing behind."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from functools import partial
from types import TracebackType
from typing import Any, Self

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.web.listen import ListenAddress

_STOP_WITHIN = 5
"""Seconds that requests in progress have to finish when the server stops."""


_REQUEST_WITHIN = 30.0
"""Seconds that a client has for a request's head and body, and for the first request of a connection."""
_MOST_CONNECTIONS = 1000


class Server:
    """Serves an application until `stop`; also a context manager. The port is known once constructed."""

    def __init__(
        self, app: ASGIApp, address: ListenAddress, *, request_within: float = _REQUEST_WITHIN, most: int | None = None
    ) -> None:
        """Bind at once, so that an address that is taken is an error of whoever starts. Raises ConfigError.

        `request_within` is in seconds; `most` connections are open at a time (None: what leaves the process the better
        part of its open files).
        """
        self._socket = address.bind()
        self.address = ListenAddress(address.host, self._socket.getsockname()[1])
        self._server = _Quiet(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                # Who is believed is for `web.access` to say; it has to see the real peer.
                proxy_headers=False,
                lifespan="off",
                http=partial(_Bounded, request_within, most or _most_connections()),  # type: ignore[arg-type]
                ws="none",
                timeout_graceful_shutdown=_STOP_WITHIN,
            )
        )
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host = self.address.host or "localhost"
        return f"http://{ListenAddress(host, self.address.port)}/"

    def start(self) -> None:
        """Serve; returns when requests are answered."""
        self._thread.start()
        self._server.settled.wait()
        if not self._server.started:
            raise AlerterError(f"the page at {self.url} could not be started; the log says why")

    def stop(self) -> None:
        """Finish what is in progress and close; harmless when not started."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.settled.set()


def _most_connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(_MOST_CONNECTIONS, files // 2))


class _Bounded(H11Protocol):
    """uvicorn's connection, which is refused where there are too many, and ends where a request takes too long to
    come: open connections are open files, and the alerter needs some to work.
    """

    def __init__(self, within: float, most: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._within = within
        self._most = most
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            transport.abort()
        else:
            self._deadline = self.loop.call_later(self._within, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Whether the request is there whole; parts of it put off nothing."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            if self._deadline is None:
                self._deadline = self.loop.call_later(self._within, self.transport.abort)
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Quiet(uvicorn.Server):
    """uvicorn's server, which tells when it has started (or failed to)."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell that requests are answered."""
        await super().startup(sockets=sockets)
        self.settled.set()
