"""What can be made to go wrong while the server runs, for some requests or for all, and how often it did."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from .routing import Target

FOR_REQUESTS = ("error", "close", "hang", "drip", "garbage", "long", "raw")
FOR_WATCHES = ("end", "cut", "half-line", "silent", "expire", "garbage-line", "long-line")


@dataclass(eq=False)
class Fault:
    """One thing that goes wrong until `remove`, or `times` times; `count` is how often it has. A context manager too.

    Of whole requests (watches too, before their first byte):
    `error` answers `code`, with Retry-After where `retry_after` seconds are given, and always with a 429. The body is
    a Status, or with `plain` a text, as real flow control answers: a 429 is plain unless that is False. `message`.
    `close` drops the connection before an answer, `hang` never answers, `drip` sends a byte now and then.
    `garbage` answers 200 with `body`, which is no JSON if none is given, `long` 200 with one line of `size` bytes.
    `raw` sends `body` for the whole answer, head and all, and drops the connection.

    Of watches that run, once `after` of their lines were sent (what is there at their beginning is sent as a whole):
    `end` ends them properly, `cut` drops the connection, `half-line` drops it in the middle of a line, `silent` sends
    nothing more while it lasts, `expire` says 410 and ends, `garbage-line` sends `body` for a line and ends,
    `long-line` sends a line of `size` bytes and ends.

    `path` is a regular expression to be found in the path, `verb` that of authorization ("list", "watch", "get").
    """

    action: str
    path: str = ""
    verb: str | None = None
    times: int | None = None
    code: int = 500
    message: str = ""
    retry_after: int | None = None
    plain: bool | None = None
    after: int = 0
    size: int = 64 << 20
    body: bytes | None = None
    count: int = 0
    _forget: Callable[[Fault], None] = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        if self.action not in (*FOR_REQUESTS, *FOR_WATCHES):
            raise ValueError(f"{self.action!r} is none of {', '.join((*FOR_REQUESTS, *FOR_WATCHES))}")

    def concerns(self, target: Target) -> bool:
        verb = self.verb in (None, target.verb)
        return verb and re.search(self.path, target.path) is not None

    def remove(self) -> None:
        """Things go well again; who waits for it goes on."""
        self._forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Faults:
    """Those in force, the oldest first. `wake` is called when one comes or goes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._active: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        fault._forget = self._remove
        with self._lock:
            self._active.append(fault)
        self._wake()
        return fault

    def clear(self) -> None:
        with self._lock:
            self._active.clear()
        self._wake()

    def active(self, fault: Fault) -> bool:
        with self._lock:
            return fault in self._active

    def for_request(self, target: Target) -> Fault | None:
        return self._take(target, FOR_REQUESTS, 0)

    def for_watch(self, target: Target, told: int) -> Fault | None:
        return self._take(target, FOR_WATCHES, told)

    def room(self, target: Target, told: int) -> int | None:
        """How many lines a watch may still send before the next fault has its turn; None where none waits for it."""
        with self._lock:
            waiting = [
                fault.after - told
                for fault in self._active
                if fault.action in FOR_WATCHES and fault.after > told and fault.concerns(target)
            ]
        return min(waiting, default=None)

    def _take(self, target: Target, actions: tuple[str, ...], told: int) -> Fault | None:
        with self._lock:
            for fault in self._active:
                if fault.action in actions and told >= fault.after and fault.concerns(target):
                    if fault.action == "silent":
                        return fault
                    fault.count += 1
                    if fault.times is not None and fault.count >= fault.times:
                        self._active.remove(fault)
                    return fault
        return None

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            if fault in self._active:
                self._active.remove(fault)
        self._wake()
