"""The network between two processes: a proxy that can be cut, fall silent, be slow or narrow, and damage things."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from .probes import Address

_PIECE = 16 * 1024
_FIRST_DAMAGE = 2000
"""Bytes after which, at the latest, a garbled direction of a connection is damaged."""


@dataclass(frozen=True)
class Weather:
    """How a link is now. `delay` is seconds for each piece that is carried, `rate` bytes a second."""

    flows: bool = True
    delay: float = 0.0
    rate: float | None = None
    garbled: bool = False


CLEAR = Weather()


class Link:
    """Forwards connections to a port of this machine, or to a unix socket; a context manager.

    It listens on a port of its own, or on the unix socket `at`. What is done to it holds for connections that are open
    and for new ones.
    """

    def __init__(self, name: str, to: int | Path, *, at: Path | None = None, seed: int = 0) -> None:
        self.name = name
        self._to = to
        self._at = at
        self._chance = random.Random(seed)
        self._changed = threading.Condition()
        self._weather = CLEAR
        self._met = 0
        self._ends: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self._listen()

    @property
    def weather(self) -> Weather:
        return self._weather

    @property
    def met(self) -> int:
        """How many pieces came to be carried since it became what it is now."""
        return self._met

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._at or ("127.0.0.1", self.port)

    def cut(self) -> None:
        """Every connection is ended, and new ones are refused."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Closing alone would leave the thread in its accept, and the port open.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.drop()

    def drop(self) -> None:
        """Every connection is ended, in order (FIN, no RST); new ones are accepted."""
        with self._changed:
            ends = set(self._ends)
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def silence(self) -> None:
        """Connections stay open and new ones are accepted, and nothing comes through: half-open."""
        self._become(replace(self._weather, flows=False))

    def delay(self, seconds: float) -> None:
        """Every piece that is carried takes that much longer, and the next one waits for it: none overlap."""
        self._become(replace(self._weather, delay=seconds))

    def throttle(self, rate: float) -> None:
        """So many bytes a second, in each direction of each connection."""
        self._become(replace(self._weather, rate=rate))

    def garble(self) -> None:
        """Damages what is carried: from some byte on the highest bit of each is flipped.

        TLS notices, and so does whoever expects text or a protocol. A single digit of plain text is left alone: that
        would be another truth, of which no receiver can know; TCP's checksums are for that.
        """
        self._become(replace(self._weather, garbled=True))

    def heal(self) -> None:
        """What waits goes on, what was refused is accepted; what was damaged ends, as its ends no longer agree."""
        damaged = self._weather.garbled
        self._become(CLEAR)
        if damaged:
            self.drop()
        if self._listener is None:
            self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._become(CLEAR)
        self.cut()

    def _become(self, weather: Weather) -> None:
        with self._changed:
            self._weather, self._met = weather, 0
            self._changed.notify_all()

    def _listen(self) -> None:
        if self._at is None:
            listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
            self.port = int(listener.getsockname()[1])
        else:
            self._at.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(self._at))
            listener.listen(64)
        self._listener = listener
        self._spawn(self._accept, listener)

    def _spawn(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, name=f"link-{self.name}", daemon=True)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            with self._changed:
                self._ends.add(client)
            with suppress(OSError), self._connected() as server:
                with self._changed:
                    self._ends.add(server)
                back = self._spawn(self._pump, server, client)
                self._pump(client, server)
                back.join()
        with self._changed:
            self._ends = {end for end in self._ends if end.fileno() >= 0}

    def _connected(self) -> socket.socket:
        if isinstance(self._to, int):
            return socket.create_connection(("127.0.0.1", self._to), timeout=None)
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(str(self._to))
        except OSError:
            made.close()
            raise
        return made

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        sound: int | None = None
        with suppress(OSError):
            while data := source.recv(_PIECE):
                weather = self._when_it_flows()
                if weather.delay:
                    time.sleep(weather.delay)
                if weather.garbled:
                    sound = self._chance.randrange(_FIRST_DAMAGE) if sound is None else sound
                    data, sound = damaged(data, sound), max(0, sound - len(data))
                self._send(sink, data, weather.rate)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _when_it_flows(self) -> Weather:
        with self._changed:
            self._met += 1
            self._changed.wait_for(lambda: self._weather.flows)
            return self._weather

    def _send(self, sink: socket.socket, data: bytes, rate: float | None) -> None:
        if rate is None:
            sink.sendall(data)
            return
        size = max(1, int(rate / 20))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            sink.sendall(piece)
            if self._weather.rate is not None:
                time.sleep(len(piece) / rate)


def damaged(data: bytes, sound: int) -> bytes:
    """It, with the highest bit of every byte after the first `sound` ones flipped."""
    return data[:sound] + bytes(byte ^ 0x80 for byte in data[sound:])
