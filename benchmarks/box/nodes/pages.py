"""Serves the pages of many nodes from one process, each at a port of its own, over connections that stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_END = b"\r\n\r\n"
_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\r\n"


class _Connection(asyncio.Protocol):
    def __init__(self, page: Callable[[], str]) -> None:
        self._page = page
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while _END in self._received:
            _, _, self._received = self._received.partition(_END)
            body = self._page().encode()
            assert self._transport is not None
            self._transport.write(_HEAD.format(len(body)).encode() + body)


async def serve(page: Callable[[], str]) -> tuple[asyncio.Server, int]:
    """A server on loopback that answers every request with the page, and its port."""
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(page), "127.0.0.1", 0)
    return server, int(server.sockets[0].getsockname()[1])
