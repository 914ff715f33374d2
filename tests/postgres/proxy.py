"""The network between one client and the server: it can hang without a word, refuse, and heal."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards to a port of this machine; a context manager."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._accepting(self._listener)

    def hang(self) -> None:
        """From now on connections are accepted and stay open, and nothing comes through."""
        self._flows.clear()

    def refuse(self) -> None:
        """Every connection ends, and no new one is accepted."""
        # Closing alone would leave the thread in its accept, and the port open.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """What hangs goes on; what was refused is accepted again."""
        self._flows.set()
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._accepting(self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self.refuse()

    def _accepting(self, listener: socket.socket) -> None:
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            self._flows.wait()
            with socket.create_connection(self._to) as server:
                with self._lock:
                    self._connections |= {client, server}
                back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
                back.start()
                self._pump(client, server)
                back.join()
        with self._lock:
            self._connections = {one for one in self._connections if one.fileno() >= 0}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
