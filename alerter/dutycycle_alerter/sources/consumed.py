"""From the growth of GPUs' counters to what a job consumed, by model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dutycycle_alerter.history import GPU_COUNTERS, Values
from dutycycle_alerter.model import Consumption
from dutycycle_alerter.usage import idle_seconds, known_sum

_ALLOCATED, _OBSERVED, _BUSY, _ENERGY = (
    GPU_COUNTERS.index(name) for name in ("allocated", "observed", "busy", "energy")
)


def consumed(growth: Iterable[tuple[str, Values]]) -> Iterator[Consumption]:
    """The consumption on GPUs of each model, from (model, growth of each of `GPU_COUNTERS`) of every GPU."""
    by_model: defaultdict[str, list[Values]] = defaultdict(list)
    for model, values in growth:
        by_model[model].append(values)
    for model, parts in sorted(by_model.items()):
        yield Consumption(
            model=model,
            allocated=known_sum(part[_ALLOCATED] for part in parts) or 0.0,
            observed=known_sum(part[_OBSERVED] for part in parts) or 0.0,
            busy=known_sum(part[_BUSY] for part in parts) or 0.0,
            energy=known_sum(part[_ENERGY] for part in parts),
            idle=known_sum(idle_seconds(part[_OBSERVED], part[_BUSY]) for part in parts),
        )
