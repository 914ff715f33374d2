"""uvicorn in a thread, with a start that knows the port and a stop that leaves nothing behind."""

from __future__ import annotations

import logging
import socket
import threading
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.web.listen import ListenAddress
from dutycycle_alerter.web.seldom import Seldom

_STOP_WITHIN = 5
"""Seconds that requests in progress have to finish when the server stops."""
_MOST_CONNECTIONS = 256
"""While so many are open, requests are answered 503. Each can hold a whole answer that its client does not read."""

# uvicorn logs each refused request.
logging.getLogger("uvicorn.error").addFilter(Seldom())


class Server:
    """Serves an application until `stop`; also a context manager. The port is known once constructed."""

    def __init__(self, app: ASGIApp, address: ListenAddress) -> None:
        """Bind at once, so that an address that is taken is an error of whoever starts. Raises ConfigError."""
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
                http="h11",
                limit_concurrency=_MOST_CONNECTIONS,
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


class _Quiet(uvicorn.Server):
    """uvicorn's server, which tells when it has started (or failed to)."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell that requests are answered."""
        await super().startup(sockets=sockets)
        self.settled.set()
