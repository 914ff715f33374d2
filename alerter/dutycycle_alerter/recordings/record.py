"""What an exporter's answers say between two scrapes, as rows of a recording. Pure: answers in, rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dutycycle_alerter.history import Values
from dutycycle_alerter.recordings.writing import Row
from dutycycle_alerter.sources.exposition import Device, Exposition, Owned, SeriesKey

_ALLOCATED, _OBSERVED, _BUSY, _GAP_LT2, _GAP_2TO30 = range(5)
_ENERGY = 7
_UNITS = ("sm", "tensor", "dram")

# A row says the utilization of its interval: not where less than half of it was measured.
_MEASURED = 0.5
# A new series is held at 0 at first and then shows all that accumulated: more than an interval can hold.
_CAUGHT_UP = 1.5


@dataclass(slots=True)
class Recorder:
    """Takes the answers of one exporter, one after the other."""

    _last: Exposition | None = None
    _last_t: float = 0.0

    def rows(self, answer: Exposition, t: float) -> list[Row]:
        """The rows of the interval that ends with this answer, received at `t` (Unix seconds); none for the first.

        Where counters started again (another process of the exporter answers) the interval is unknown.
        """
        before, length = self._last, t - self._last_t
        self._last, self._last_t = answer, t
        if before is None or length <= 0:
            return []
        owned = {key[:3] for key, one in answer.owned.items() if one.share is not None}
        rows: list[Row] = [row for key in sorted(answer.owned) for row in _owned_row(before, answer, key, length)]
        rows += [_free_row(key, device) for key, device in sorted(answer.devices.items()) if key not in owned]
        return [{"t": round(t, 3), **{name: _rounded(value) for name, value in row.items()}} for row in rows]


def _rounded(value: str | float | None) -> str | float | None:
    """Six decimals: a microsecond in each second, a millionth of a core."""
    return round(value, 6) if isinstance(value, float) else value


def _owned_row(before: Exposition, answer: Exposition, key: SeriesKey, length: float) -> Iterator[Row]:
    """The row of a GPU that a workload held at both ends of the interval."""
    now, then = answer.owned[key], before.owned.get(key)
    if now.share is None or then is None or then.share is None:
        return
    grown = _grown(then.counters, now.counters)
    if grown is None:
        return
    allocated, observed = grown[_ALLOCATED], grown[_OBSERVED]
    steady = allocated is None or allocated <= _CAUGHT_UP * now.share * length
    device = answer.devices.get(key[:3], Device(key[1]))
    yield {
        **_labels(key, now),
        "utilization_ratio": _utilization(grown, now.share * length),
        **_units(then, now, allocated),
        "idle_gap_lt2_ratio": _ratio(grown[_GAP_LT2], observed),
        "idle_gap_2to30_ratio": _ratio(grown[_GAP_2TO30], observed),
        "power_watts": _power(grown, now.share) if steady else None,
        "power_limit_watts": device.readings.get("power_limit"),
        "memory_used_bytes": now.memory_used,
        "memory_total_bytes": device.readings.get("memory_total"),
        "processes": now.processes,
        **(_host(before, answer, (key[0], key[3]), length) if steady else {}),
    }


def _labels(key: SeriesKey, owned: Owned) -> dict[str, str]:
    labels = owned.labels
    return {
        "node": key[0],
        "gpu": labels["gpu"],
        # A MIG instance is a GPU of its own here.
        "gpu_uuid": key[2] or labels["gpu_uuid"],
        "model": labels.get("model", ""),
        "workload": key[3],
        "scheduler": labels.get("scheduler", ""),
        "user": labels.get("user", ""),
        "account": labels.get("account", ""),
    }


def _free_row(key: tuple[str, str, str], device: Device) -> Row:
    """The row of a GPU that nobody holds: what it showed at the end of the interval."""
    readings = device.readings
    uuid = key[2] or (key[1] if key[1] != device.index else "")
    utilization = readings.get("utilization")
    return {
        "node": key[0],
        "gpu": device.index,
        "gpu_uuid": uuid,
        "model": device.model,
        "utilization_ratio": None if utilization is None else min(1.0, max(0.0, utilization)),
        "power_watts": readings.get("power"),
        "power_limit_watts": readings.get("power_limit"),
        "memory_used_bytes": readings.get("memory_used"),
        "memory_total_bytes": readings.get("memory_total"),
        "processes": readings.get("processes"),
    }


def _host(before: Exposition, answer: Exposition, key: tuple[str, str], length: float) -> dict[str, float | None]:
    now, then = answer.hosts.get(key), before.hosts.get(key)
    if now is None or then is None:
        return {}
    grown = _grown(then.counters, now.counters)
    if grown is None:
        return {}
    cpu, io_pressure, cpu_pressure = (_ratio(value, length) for value in grown)
    return {
        "cpu_cores": cpu,
        "cpu_limit_cores": now.cpu_limit,
        "io_pressure_ratio": None if io_pressure is None else min(1.0, io_pressure),
        "cpu_pressure_ratio": None if cpu_pressure is None else min(1.0, cpu_pressure),
    }


def _utilization(grown: Values, length: float) -> float | None:
    observed, busy = grown[_OBSERVED], grown[_BUSY]
    if observed is None or busy is None or observed < _MEASURED * length or observed <= 0:
        return None
    return min(1.0, busy / observed)


def _units(then: Owned, now: Owned, allocated: float | None) -> dict[str, float | None]:
    """The mean activity of the GPU's units; empty where it has no such counters, or they started again."""
    found: dict[str, float | None] = {}
    for unit in _UNITS:
        if unit in then.active and now.active.get(unit, -1.0) >= then.active[unit]:
            ratio = _ratio(now.active[unit] - then.active[unit], allocated)
            found[f"{unit}_active_ratio"] = None if ratio is None else min(1.0, ratio)
    return found


def _power(grown: Values, share: float) -> float | None:
    """The workload's part of the power; energy and allocated time are both held back while a series is new."""
    power = _ratio(grown[_ENERGY], grown[_ALLOCATED])
    return None if power is None else share * power


def _grown(then: list[float | None], now: list[float | None]) -> Values | None:
    """Growth of each counter, None where an end is missing; None as a whole where one was reset."""
    grown = tuple(None if a is None or b is None else b - a for a, b in zip(then, now, strict=True))
    return None if any(value is not None and value < 0 for value in grown) else grown


def _ratio(value: float | None, whole: float | None) -> float | None:
    return None if value is None or whole is None or whole <= 0 else value / whole
