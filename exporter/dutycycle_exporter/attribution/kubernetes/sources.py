"""How those fare that are asked for pods: what failed, and when each answered last."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dutycycle_exporter.elapsed import elapsed

log = logging.getLogger(__name__)

KUBELET, API, SLICES = "kubelet", "kubernetes_api", "resource_slices"


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """The last question to one of the sources. `last_success` is by `elapsed()`, `duration` of the last that was
    answered.
    """

    success: bool
    last_success: float | None = None
    duration: float | None = None


class Sources:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._health: dict[str, SourceHealth] = {}

    def failed(self, source: str, reason: str, where: object) -> None:
        """It, which is to be found at `where`, did not answer, or not with what can be used."""
        with self._lock:
            before = self._health.get(source) or SourceHealth(True)
            self._health[source] = SourceHealth(False, before.last_success, before.duration)
            self._failures[source, reason] += 1
        if before.success:
            log.warning("%s (%s) does not answer: %s", source, where, reason)

    def succeeded(self, source: str, duration: float) -> None:
        """It answered within `duration` seconds."""
        with self._lock:
            before = self._health.get(source)
            self._health[source] = SourceHealth(True, elapsed(), duration)
        if before is None or not before.success:
            log.info("%s answers", source)

    def unusable(self, source: str, reason: str, count: int) -> None:
        """So many things in its answer could not be used."""
        if count:
            with self._lock:
                self._failures[source, reason] += count

    def take_failures(self) -> Mapping[tuple[str, str], int]:
        """What could not be used since this was last called, by (source, reason)."""
        with self._lock:
            taken, self._failures = self._failures, Counter()
        return taken

    def health(self) -> Mapping[str, SourceHealth]:
        """Of each source that has been asked."""
        with self._lock:
            return dict(self._health)
