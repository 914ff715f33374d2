"""What an engine says beside its answers, of all queries of a pass together."""

from __future__ import annotations

import re
from threading import Lock

from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.asking import Engine

_PLACE = re.compile(r" \(\d+:\d+\)$")
"""Where in the query it is: the same is said of many queries."""
_EXPECTED = "PromQL info: metric might not be a counter"
"""Said of each copy of a recording rule and of dcgm-exporter's counters, by what they are called."""
_SHOWN = 3


class Listening:
    """An engine whose remarks are kept until they are taken. Safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._said: set[str] = set()

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Vector:
        """As `Engine.instant`."""
        answer = self._engine.instant(query, at=at, labels=labels, within=within)
        self._hear(answer.warnings)
        return answer

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float) -> Matrix:
        """As `Engine.raw`."""
        answer = self._engine.raw(query, at=at, labels=labels, within=within)
        self._hear(answer.warnings)
        return answer

    def take(self) -> str:
        """What was said since this was last asked, each once and the first few alone; empty where that was nothing."""
        with self._lock:
            said, self._said = sorted(self._said), set()
        more = f"; {len(said) - _SHOWN} more like these" if len(said) > _SHOWN else ""
        return f"the engine says: {'; '.join(said[:_SHOWN])}{more}" if said else ""

    def _hear(self, warnings: tuple[str, ...]) -> None:
        if warnings:
            with self._lock:
                self._said.update(_PLACE.sub("", text) for text in warnings if not text.startswith(_EXPECTED))
