"""Notices that a client has hung up while nothing is being sent to it."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable


class Hangups:
    """One thread for all connections that wait: it calls back when the other side closes."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._stop, self._stopped = os.pipe()
        self._epoll.register(self._stop, select.EPOLLIN)
        self._lock = threading.Lock()
        self._called: dict[int, Callable[[], None]] = {}
        self._thread = threading.Thread(target=self._run, name="api-hangups", daemon=True)
        self._thread.start()

    def watch(self, connection: socket.socket, call: Callable[[], None]) -> None:
        with self._lock:
            self._called[connection.fileno()] = call
            self._epoll.register(connection.fileno(), select.EPOLLRDHUP | select.EPOLLONESHOT)

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            if self._called.pop(connection.fileno(), None) is not None:
                self._epoll.unregister(connection.fileno())

    def close(self) -> None:
        os.write(self._stopped, b"x")
        self._thread.join()
        self._epoll.close()
        os.close(self._stop)
        os.close(self._stopped)

    def _run(self) -> None:
        while True:
            for number, _ in self._epoll.poll():
                if number == self._stop:
                    return
                with self._lock:
                    call = self._called.get(number)
                if call is not None:
                    call()
