"""Figures as people read them: ratios, GPU-hours, energy, CO2, money, memory, moments, and lists of GPUs.

The page, the terminal and the messages say the same figure the same way. None is "unknown" everywhere; what is not
zero never reads as zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from dutycycle_alerter.model import Gpu
from dutycycle_alerter.scale import format_duration

UNKNOWN = "unknown"


def percent(ratio: float | None) -> str:
    """A ratio 0..1: `0 %`, `under 0.1 %`, `4.2 %`, `42 %`."""
    if ratio is None:
        return UNKNOWN
    value = 100 * ratio
    if 0 < value < 0.1:
        return "under 0.1 %"
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"


def hours(seconds: float | None) -> str:
    """Seconds as a number of hours, the unit left to the caller: `0`, `0.04`, `3.2`, `1,204`."""
    if seconds is None:
        return UNKNOWN
    value = seconds / 3600
    if value == 0:
        return "0"
    if value < 0.005:
        return "under 0.01"
    if value < 0.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def energy(joules: float | None) -> str:
    """Joules as `850 Wh` or `12.4 kWh`."""
    if joules is None:
        return UNKNOWN
    watt_hours = joules / 3600
    if 0 < watt_hours < 0.05:
        return "under 0.1 Wh"
    if watt_hours < 999.5:
        return f"{watt_hours:.0f} Wh" if watt_hours >= 9.95 or watt_hours == 0 else f"{watt_hours:.1f} Wh"
    return f"{watt_hours / 1000:.1f} kWh" if watt_hours < 99_950 else f"{watt_hours / 1000:,.0f} kWh"


def mass(grams: float | None) -> str:
    """Grams as `0.3 g`, `12 g` or `1.4 kg`."""
    if grams is None:
        return UNKNOWN
    if 0 < grams < 0.05:
        return "under 0.1 g"
    if grams < 999.5:
        return f"{grams:.0f} g" if grams >= 9.95 or grams == 0 else f"{grams:.1f} g"
    return f"{grams / 1000:,.1f} kg" if grams < 99_950 else f"{grams / 1000:,.0f} kg"


def money(amount: float | None) -> str:
    """An amount, the currency left to the caller: `0.00`, `under 0.01`, `1,234.50`."""
    if amount is None:
        return UNKNOWN
    return "under 0.01" if 0 < amount < 0.005 else f"{amount:,.2f}"


def gibibytes(count: float | None) -> str:
    """Bytes as `79.6 GiB`."""
    if count is None:
        return UNKNOWN
    return "under 0.1 GiB" if 0 < count < 0.05 * 2**30 else f"{count / 2**30:.1f} GiB"


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 incident`, `2 incidents`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def amount(number: float) -> str:
    """A number of things of which there are parts, such as GPUs that are shared: `0.25`, `8`, `1,024`."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def local(timestamp: float, zone: tzinfo | None) -> datetime:
    """The wall time in `zone`; None is the machine's own zone."""
    return datetime.fromtimestamp(timestamp, UTC).astimezone(zone)


def clock_at(timestamp: float, zone: tzinfo | None) -> timezone:
    """The zone as it is at a moment: one offset with its abbreviation, for what has one label on all of its times."""
    then = local(timestamp, zone)
    return timezone(then.utcoffset() or timedelta(0), zone_name(timestamp, zone))


def zone_name(now: float, zone: tzinfo | None) -> str:
    """The zone's abbreviation at a moment: `CET`."""
    return local(now, zone).tzname() or "UTC"


def other_zone(timestamp: float, *, now: float, zone: tzinfo | None) -> str:
    """` CEST`, to be said behind a moment between which and now clocks were changed; empty behind any other.

    A page or a message names one zone for all of its times, that of now.
    """
    same = local(timestamp, zone).utcoffset() == local(now, zone).utcoffset()
    return "" if same else f" {zone_name(timestamp, zone)}"


def moment(
    timestamp: float, *, now: float, zone: tzinfo | None, beside: float | None = None, seconds: bool = False
) -> str:
    """A wall time, as short as it can be told apart from now, or from another that it stands beside: `14:05`,
    `Fri 20 Nov, 14:05`, `20 Nov 2025, 14:05`; `14:05 CEST` where the zone's offset is another one now.
    """
    near = now if beside is None else beside
    then, day = local(timestamp, zone), local(near, zone).date()
    clock = then.strftime("%H:%M:%S" if seconds else "%H:%M") + other_zone(timestamp, now=now, zone=zone)
    if then.date() == day:
        return clock
    if abs(near - timestamp) < 300 * 86400:
        return f"{then:%a} {then.day} {then:%b}, {clock}"
    return f"{then.day} {then:%b %Y}, {clock}"


def ago(seconds: float) -> str:
    """How long ago: `just now`, `12 min ago`; a future one, as `in 12 min`."""
    if abs(seconds) < 1:
        return "just now"
    return f"{format_duration(seconds)} ago" if seconds > 0 else f"in {format_duration(-seconds)}"


def gpu_places(gpus: Iterable[Gpu]) -> list[tuple[str, str]]:
    """GPUs by node, each with its indexes as ranges. MIG instances are counted per GPU: `0 (2 MIG)`."""
    nodes: dict[str, dict[str, int]] = {}
    for gpu in gpus:
        indexes = nodes.setdefault(gpu.node, {})
        indexes[gpu.index] = indexes.get(gpu.index, 0) + (1 if gpu.mig else 0)
    return [(node, _ranges(indexes)) for node, indexes in nodes.items()]


def _ranges(indexes: dict[str, int]) -> str:
    whole = sorted(int(index) for index, migs in indexes.items() if not migs and _is_number(index))
    parts: list[str] = []
    start = 0
    for position in range(1, len(whole) + 1):
        if position == len(whole) or whole[position] != whole[position - 1] + 1:
            first, last = whole[start], whole[position - 1]
            parts.append(str(first) if first == last else f"{first}–{last}" if last > first + 1 else f"{first}, {last}")
            start = position
    parts += [index for index, migs in indexes.items() if not migs and not _is_number(index)]
    parts += [f"{index} ({migs} MIG)" for index, migs in indexes.items() if migs]
    return ", ".join(parts)


def _is_number(index: str) -> bool:
    return index.isascii() and index.isdigit() and len(index) < 10
