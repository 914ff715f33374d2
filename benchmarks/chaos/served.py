"""A server of the site's that the alerters reach over TLS, and by a link."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Self

from tests.prometheus.server import Server

from .links import Link


class Served:
    """A context manager, within which `server` runs, in `around`."""

    def __init__(self, name: str, server: Server, *around: AbstractContextManager[Any]) -> None:
        self._name, self._server, self._around = name, server, around
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for one in (*self._around, self._server):
            self._stack.enter_context(one)
        self.link = self._stack.enter_context(Link(self._name, int(self._server.url.rpartition(":")[2])))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """As alerters reach it."""
        return f"https://127.0.0.1:{self.link.port}"
