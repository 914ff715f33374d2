"""What GPUs without work draw and hold, by model: learned from pass to pass, and kept in the store."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.sources.devices import RISE
from dutycycle_alerter.sources.prometheus.selectors import Query
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.transactions import Transactions

_LEARNED = "learned"


class Learned:
    """A full cluster has no free GPU to learn from after a restart. Not thread-safe."""

    def __init__(self, database: Transactions) -> None:
        self._database = database
        self._values: dict[str, dict[str, float]] = {"idle_power": {}, "memory_baseline": {}}
        self._saved = self._lasting()
        self._lowest: dict[tuple[str, str], float] = {}
        self._before: dict[str, dict[str, float]] = {}

    @property
    def values(self) -> Mapping[str, Mapping[str, float]]:
        """Idle power (watts) and memory's baseline (bytes), by these names and by model."""
        return self._values

    def restore(self) -> None:
        """Go on with what was learned before a restart. Raises StoreError."""
        with self._database.read() as connection:
            known = get_meta(connection, _LEARNED) or {}
        for name, values in self._values.items():
            values.update(known.get(name, {}))
        self._saved = self._lasting()

    def begin(self) -> None:
        """A pass begins: its answers are held against what was known before it."""
        self._lowest = {}
        self._before = {name: dict(values) for name, values in self._values.items()}

    def fold(self, query: Query, answer: Vector) -> None:
        """Take one answer of the pass."""
        for (model,), value in zip(answer.keys, answer.values.tolist(), strict=True):
            if isfinite(value):
                # Of several shards the lowest.
                least = self._lowest[query.name, model] = min(value, self._lowest.get((query.name, model), value))
                known = self._before[query.name].get(model, least)
                # A leaking GPU may be the only free one of its model: what is held there is not what should be.
                most = known if query.name == "memory_baseline" else RISE * known
                self._values[query.name][model] = min(least, most)

    def keep(self) -> None:
        """Store it, where any is known. Raises StoreError."""
        if any(self._values.values()):
            with self._database.write() as connection:
                set_meta(connection, _LEARNED, self._values)
        self._saved = self._lasting()

    def keep_lasting(self) -> None:
        """Store it where a model's idle power has become known, or a baseline has changed. Raises StoreError."""
        if self._saved != self._lasting():
            self.keep()

    def _lasting(self) -> tuple[set[str], dict[str, float]]:
        return set(self._values["idle_power"]), dict(self._values["memory_baseline"])
