"""The cluster's network: namespaces of its own that nothing outside reaches, a bridge, an address for each pod, DNS.

The tests' own servers listen on the machine's loopback. What is to be reached from the one side on the other is
forwarded, connection by connection: `offer` and `reach`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.fakes.dns import NameServer

_CLONE_NEWNET = 0x40000000
GATEWAY, DNS_ADDRESS, API_ADDRESS = "10.244.0.1", "10.96.0.10", "10.96.0.1"
"""Of the nodes, of the cluster's DNS, of the API server, as a pod sees them."""

T = TypeVar("T")


class Namespace:
    """A network namespace, which lasts as long as the process that holds it: until `close`, or the end of the tests."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline(), "a network namespace could not be made"
        self.path = Path(f"/proc/{self._holder.pid}/ns/net")
        self.ip("link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """Of a process within."""
        return self._holder.pid

    def ip(self, *arguments: str) -> None:
        """The command `ip`, run within."""
        command = ["nsenter", f"--net={self.path}", "ip", *arguments]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    def within(self, make: Callable[[], T]) -> T:
        """What `make` returns when a thread of its own runs it within: a socket stays where it was made."""
        done: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                descriptor = os.open(self.path, os.O_RDONLY)
                try:
                    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                finally:
                    os.close(descriptor)
                done.append(make())
            except BaseException as error:  # noqa: BLE001  # raised again below
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]

    def close(self) -> None:
        """It goes with the last process in it."""
        self._holder.kill()
        self._holder.wait()
        for end in (self._holder.stdin, self._holder.stdout):
            if end is not None:
                end.close()


@dataclass
class Network:
    """A context manager. `resolve` answers the pods' DNS: a name's addresses, or None where there is no such name."""

    resolve: Callable[[str], list[str] | None]
    _numbers: int = field(default=1, init=False)
    _open: ExitStack = field(default_factory=ExitStack, init=False)

    def __enter__(self) -> Self:
        self.nodes = Namespace()
        self._open.callback(self.nodes.close)
        self.nodes.ip("link", "add", "cluster", "type", "bridge")
        self.nodes.ip("addr", "add", f"{GATEWAY}/16", "dev", "cluster")
        self.nodes.ip("link", "set", "cluster", "up")
        for service in (DNS_ADDRESS, API_ADDRESS):
            self.nodes.ip("addr", "add", f"{service}/32", "dev", "cluster")
        listening = self.nodes.within(lambda: _datagrams(DNS_ADDRESS))
        self.dns = self._open.enter_context(NameServer(listening, self.resolve))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def join(self) -> tuple[Namespace, str]:
        """A pod's namespace and its address."""
        self._numbers += 1
        number = self._numbers
        address = f"10.244.{number // 250}.{number % 250 + 2}"
        pod = Namespace()
        try:
            peer = f"pod{number}"
            self.nodes.ip(
                *("link", "add", peer, "type", "veth", "peer", "name", "eth0", "netns", str(pod.pid)),
            )
            self.nodes.ip("link", "set", peer, "master", "cluster", "up")
            pod.ip("addr", "add", f"{address}/16", "dev", "eth0")
            pod.ip("link", "set", "eth0", "up")
            pod.ip("route", "add", "default", "via", GATEWAY)
        except BaseException:
            pod.close()
            raise
        return pod, address

    def connect(self, address: str, port: int, timeout: float) -> socket.socket:
        """As a node connects to a pod."""
        return self.nodes.within(lambda: socket.create_connection((address, port), timeout))

    def offer(self, address: str, port: int, target: tuple[str, int]) -> None:
        """Pods reach a server of the tests at a service's address."""
        if address not in (API_ADDRESS, DNS_ADDRESS, GATEWAY):
            self.nodes.ip("addr", "add", f"{address}/32", "dev", "cluster")
        listener = self.nodes.within(lambda: socket.create_server((address, port)))
        self._forward(listener, lambda: socket.create_connection(target, 10))

    def reach(self, find: Callable[[], tuple[str, int] | None]) -> int:
        """A port of the tests' loopback that leads to whatever pod `find` names at each connection."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._forward(listener, partial(self._to, find))
        return int(listener.getsockname()[1])

    def service(self, address: str, port: int, find: Callable[[], tuple[str, int] | None]) -> None:
        """A service's address within the cluster, which leads to whatever pod `find` names at each connection."""
        self.nodes.ip("addr", "add", f"{address}/32", "dev", "cluster")
        self._forward(self.nodes.within(lambda: socket.create_server((address, port))), partial(self._to, find))

    def _to(self, find: Callable[[], tuple[str, int] | None]) -> socket.socket:
        found = find()
        if found is None:
            raise ConnectionRefusedError
        return self.connect(*found, timeout=10)

    def _forward(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        forwarder = _Forwarder(listener, connect)
        self._open.callback(forwarder.close)


class _Forwarder:
    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listener, self._connect = listener, connect
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(taken,), daemon=True).start()

    def _join(self, taken: socket.socket) -> None:
        try:
            made = self._connect()
        except OSError:
            taken.close()
            return
        made.settimeout(None)
        with self._lock:
            self._sockets |= {taken, made}
        ways = [threading.Thread(target=_copy, args=pair, daemon=True) for pair in ((taken, made), (made, taken))]
        for way in ways:
            way.start()
        for way in ways:
            way.join()
        for one in (taken, made):
            one.close()
        with self._lock:
            self._sockets -= {taken, made}

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(65536):
            target.sendall(block)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _datagrams(address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 53))
    return made
