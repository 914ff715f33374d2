"""Field values: everything that NVML gives by number, in one call per GPU and turn.

A few counters take a driver hundreds of times as long as the others (the energy 3.4 ms of a reading's 12 on an H200):
they are not read at every turn. Nothing is lost by that, as they count on; a value that was read at an earlier turn is
told again, and said to be `carried`.

Numbers and units are those of nvml.h. Some numbers meant something else, or nothing, to older drivers: those are asked
for only from the driver on that has them. A field that a GPU does not have is found once and left out from then on, but
for a try now and then.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pynvml

from dutycycle_exporter.nvml.calls import ABSENT, Calls
from dutycycle_exporter.nvml.devices import Device
from dutycycle_exporter.nvml.link_bytes import LinkBytes

_USUAL_INTERVAL = 5.0
"""Seconds from turn to turn for which `Field.every` is meant: at longer ones no field is read more rarely than then."""

_LINK_CHECK = 12
"""Turns after which a sum of 0 is compared with the links' own counters, which are 36 fields more."""

_ALL_LINKS = 2**32 - 1
"""The scope of an NVLink field that sums up its links."""

# Of an nvmlFieldValue_t: field, scope, timestamp, latency, type of the value, result, value.
_VALUE = struct.Struct("=IIqqIIQ")
_WHOLE = struct.Struct("=Q")
_PARTS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: struct.Struct("=d"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: struct.Struct("=I4x"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: _WHOLE,
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: _WHOLE,
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: struct.Struct("=q"),
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: struct.Struct("=i4x"),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: struct.Struct("=H6x"),
}
"""What of a value's eight bytes counts, by its type."""

# How a field that is unknown to the driver may answer, beside those that are not supported.
_NOT_THERE = ABSENT | {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND}


DriverVersion = tuple[int, int]
"""The first two numbers of a driver's version."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """`name` as in a reading, with the label's value where it has one; `unit` is what one of NVML's is in ours."""

    collected: str
    name: tuple[str, str]
    number: int
    unit: float = 1.0
    scope: int = 0
    since: DriverVersion = (0, 0)
    """The first driver that has it under this number."""
    until: DriverVersion = (9999, 0)
    """The first driver after that which has something else there."""
    part: bool = False
    """Whether it is one link's part of a sum, which those of the same name make."""
    every: int = 1
    """Of so many turns of the usual interval it is read at one: for counters alone."""


_RENUMBERED = (580, 82)
"""The first driver with today's numbers of the last three throttle counters."""

FIELDS = (
    Field("power", ("energy", ""), pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 1e-3, every=2),
    # The average (185) takes milliseconds to read; over an interval the energy tells it better.
    Field("power", ("power", ""), pynvml.NVML_FI_DEV_POWER_INSTANT, 1e-3),
    Field("power", ("power_limit", ""), pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT, 1e-3),
    Field("temperature", ("temperatures", "memory"), pynvml.NVML_FI_DEV_MEMORY_TEMP),
    Field("throttle", ("throttle", "power_cap"), pynvml.NVML_FI_DEV_PERF_POLICY_POWER, 1e-9),
    Field("throttle", ("throttle", "thermal"), pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, 1e-9, every=6),
    Field("throttle", ("throttle", "sync_boost"), pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST, 1e-9),
    Field("throttle", ("throttle", "board_limit"), pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, 1e-9),
    Field("throttle", ("throttle", "reliability"), pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY, 1e-9),
    # nvidia-ml-py 12.575.51 and 13.580.65 number these 251 to 253. The versions before and after have power smoothing
    # there; those two have it at 269 to 271.
    Field("throttle", ("throttle", "sw_thermal"), 251, 1e-9, since=(575, 0), until=_RENUMBERED),
    Field("throttle", ("throttle", "hw_thermal"), 252, 1e-9, since=(575, 0), until=_RENUMBERED, every=6),
    Field("throttle", ("throttle", "power_brake"), 253, 1e-9, since=(575, 0), until=_RENUMBERED, every=6),
    Field("throttle", ("throttle", "sw_thermal"), 269, 1e-9, since=_RENUMBERED),
    Field("throttle", ("throttle", "hw_thermal"), 270, 1e-9, since=_RENUMBERED, every=6),
    Field("throttle", ("throttle", "power_brake"), 271, 1e-9, since=_RENUMBERED, every=6),
    Field("ecc", ("ecc_errors", "volatile_corrected"), pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL),
    Field("ecc", ("ecc_errors", "volatile_uncorrected"), pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL),
    Field("ecc", ("ecc_errors", "aggregate_corrected"), pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL),
    Field("ecc", ("ecc_errors", "aggregate_uncorrected"), pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL),
    Field("ecc", ("remapped_rows", "correctable"), pynvml.NVML_FI_DEV_REMAPPED_COR),
    Field("ecc", ("remapped_rows", "uncorrectable"), pynvml.NVML_FI_DEV_REMAPPED_UNC),
    Field("ecc", ("remap_pending", ""), pynvml.NVML_FI_DEV_REMAPPED_PENDING),
    Field("ecc", ("remap_failed", ""), pynvml.NVML_FI_DEV_REMAPPED_FAILURE),
    Field("ecc", ("retired_pages", "single_bit"), pynvml.NVML_FI_DEV_RETIRED_SBE),
    Field("ecc", ("retired_pages", "double_bit"), pynvml.NVML_FI_DEV_RETIRED_DBE),
    Field("ecc", ("retired_pages", "pending"), pynvml.NVML_FI_DEV_RETIRED_PENDING),
    Field("ecc", ("recovery_action", ""), pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, since=(570, 0)),
    Field("pcie", ("pcie_replays", ""), pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, every=6),
    Field("pcie", ("pcie_bytes", "rx"), 198, since=(555, 0)),
    Field("pcie", ("pcie_bytes", "tx"), 197, since=(555, 0)),
    # Up to NVLink 4, and from NVLink 5 on.
    Field("nvlink", ("nvlink_bytes", "rx"), pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, 1024, _ALL_LINKS),
    Field("nvlink", ("nvlink_bytes", "tx"), pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 1024, _ALL_LINKS),
    Field("nvlink", ("nvlink_bytes", "rx"), 204, 1, _ALL_LINKS, since=(565, 0)),
    Field("nvlink", ("nvlink_bytes", "tx"), 202, 1, _ALL_LINKS, since=(565, 0)),
)

LINKS = tuple(
    Field("nvlink", ("nvlink_bytes", direction), number, 1, link, since=(565, 0), part=True)
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
    for direction, number in (("rx", 204), ("tx", 202))
)
"""Link by link, for a driver that does not sum up NVLink 5's."""


class Values:
    """What a GPU's fields say in one turn."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, float]] = {}
        self._carried: set[tuple[str, str]] = set()

    def put(self, name: tuple[str, str], value: float) -> None:
        """One more, in place of an earlier one of the same name."""
        self._found.setdefault(name[0], {})[name[1]] = value

    def carry(self, name: tuple[str, str], value: float) -> None:
        """One more, as an earlier turn read it."""
        self.put(name, value)
        self._carried.add(name)

    @property
    def carried(self) -> frozenset[tuple[str, str]]:
        """Those of an earlier turn."""
        return frozenset(self._carried)

    def has(self, name: tuple[str, str]) -> bool:
        """Return whether there is a value of that name."""
        return name[1] in self._found.get(name[0], {})

    def is_zero(self, name: tuple[str, str]) -> bool:
        """Return whether the value is 0; False where it is missing."""
        return self._found.get(name[0], {}).get(name[1]) == 0

    def drop(self, name: tuple[str, str]) -> None:
        """A part of it is not known."""
        self._found.get(name[0], {}).pop(name[1], None)

    def one(self, name: str) -> float | None:
        """A value without a label; None where it is not known."""
        return self._found.get(name, {}).get("")

    def flag(self, name: str) -> bool | None:
        """A value that says yes or no."""
        value = self.one(name)
        return None if value is None else value != 0

    def each(self, name: str) -> tuple[tuple[str, float], ...]:
        """Values by label."""
        return tuple(self._found.get(name, {}).items())


class Batch:
    """The fields of one GPU that are asked for."""

    def __init__(self, collect: Iterable[str], driver: DriverVersion, *, interval: float) -> None:
        """`driver` is (0, 0) where its version is unknown. `interval` is in wall seconds, from turn to turn."""
        collected = frozenset(collect)
        self._wanted = [
            field for field in FIELDS if field.collected in collected and field.since <= driver < field.until
        ]
        self._links = [field for field in LINKS if field.collected in collected and field.since <= driver < field.until]
        self._asked = self._wanted
        self._links_asked = False
        self._idle_sums: set[tuple[str, str]] = set()
        """Directions of NVLink whose sum was 0 at the last turn."""
        self._stretch = min(1.0, _USUAL_INTERVAL / interval)
        self._turn = 0
        self._known: dict[Field, float] = {}
        """What those that are not read at every turn were when they were read last."""
        self._sums: dict[tuple[str, str], LinkBytes] = {}

    def relearn(self) -> None:
        """Ask again for all, also for what the GPU did not have."""
        self._links_asked = False
        self._asked = self._wanted
        self._known.clear()

    def retry(self) -> None:
        """Ask once more for what the GPU did not have. Where its links are read one by one they go on being."""
        one_by_one = self._links_asked and any(field.part for field in self._asked)
        self._links_asked = one_by_one
        self._asked = [field for field in self._wanted if not (one_by_one and field.name[0] == "nvlink_bytes")]
        if one_by_one:
            self._asked += self._links

    def lacks(self, name: str) -> bool:
        """Whether the GPU, or its driver, is known not to have a field without a label."""
        return all(field.name != (name, "") for field in self._asked)

    def read(self, device: Device, calls: Calls) -> Values:
        """One call. Raises LostError, NvmlUnavailableError."""
        values = Values()
        due = [field for field in self._asked if self._due(field)]
        if self._idle_sums and not self._links_asked and self._turn % _LINK_CHECK == 0:
            due += self._links
        self._turn += 1
        # Pairs: pynvml takes a bare number only after failing to take it apart.
        request = [(field.number, field.scope) for field in due]
        answer: Any = b""
        if request:
            answer = calls.ask(device.unsupported, pynvml.nvmlDeviceGetFieldValues, device.handle, request)
        if answer is None:
            self._known.clear()
            if pynvml.nvmlDeviceGetFieldValues in device.unsupported:
                self._asked = []
            return values
        gone = False
        incomplete = []
        answers = dict(zip(due, _VALUE.iter_unpack(answer), strict=True))
        for field in self._asked:
            if field not in answers:
                values.carry(field.name, self._known[field])
                continue
            _, _, _, _, kind, result, value = answers[field]
            part = _PARTS.get(kind)
            self._known.pop(field, None)
            if result == pynvml.NVML_SUCCESS and part is not None:
                number = (value if part is _WHOLE else part.unpack(_WHOLE.pack(value))[0]) * field.unit
                if not (math.isfinite(number) and (number >= 0 or field.collected == "temperature")):
                    calls.note("nvmlDeviceGetFieldValues", "out_of_range")
                    incomplete.append(field.name)
                    continue
                self._put(values, field, number)
            elif result in _NOT_THERE or part is None:
                device.unsupported.add(field)
                gone = True
            else:
                calls.count("nvmlDeviceGetFieldValues", result)
                incomplete.append(field.name)
        self._compare_links(values, answers)
        for name in incomplete:
            values.drop(name)
        if gone:
            self._leave_out(device.unsupported)
        return values

    def _put(self, values: Values, field: Field, number: float) -> None:
        if field.scope == _ALL_LINKS and not number and values.has(field.name):
            # The sum of the other generation's counters is no less.
            return
        values.put(field.name, self._summed(field, number) if field.part else number)
        if field.every > 1:
            self._known[field] = number

    def _compare_links(self, values: Values, answers: dict[Field, tuple[int, ...]]) -> None:
        """Read the links one by one where their sum is 0 though a link counted bytes: some drivers fill no sum."""
        if self._links_asked:
            return
        self._idle_sums = {name for name in (("nvlink_bytes", "rx"), ("nvlink_bytes", "tx")) if values.is_zero(name)}
        counted = {field.name for field in self._links if field in answers and _is_above_zero(answers[field])}
        if self._idle_sums & counted:
            self._asked = [field for field in self._asked if field.name[0] != "nvlink_bytes"] + self._links
            self._links_asked = True
            self._idle_sums = set()

    def _summed(self, field: Field, value: float) -> float:
        """The sum of which it is a part, as far as its parts have been read in this turn."""
        return self._sums.setdefault(field.name, LinkBytes()).read(field.scope, value)

    def _leave_out(self, unsupported: set[object]) -> None:
        asked = [field for field in self._asked if field not in unsupported]
        if not self._links_asked and all(field.name[0] != "nvlink_bytes" for field in asked):
            self._links_asked = True
            asked += self._links
        self._asked = asked

    def _due(self, field: Field) -> bool:
        """Whether to ask for it at this turn: also, where it is not known."""
        if field.every == 1 or field not in self._known:
            return True
        return self._turn % max(1, int(field.every * self._stretch)) == 0


def _is_above_zero(answer: tuple[int, ...]) -> bool:
    *_, result, value = answer
    return result == pynvml.NVML_SUCCESS and value != 0
