"""Slurm's texts about resources: GRES (`gpu:h200:4(IDX:2-5)`) and TRES (`cpu=4,mem=32G,gres/gpu:h200=4`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from dutycycle_alerter.slurm.hostlist import numbers

_MOST_GPUS = 1024
"""On one node, MIG instances counted one by one: more than any has."""
_LONGEST = 65536
# Thousands of jobs ask for the same: their texts are read once.
_REMEMBERED, _SHORT = 1024, 256
_NOTHING = frozenset({"", "(null)", "N/A", "none", "NONE"})
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_COUNT = re.compile(r"([0-9]{1,15})([KMGTP]?)", re.ASCII)
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTP]?)(?:[Bnc]?)", re.ASCII)
_GPU = re.compile(r"\s*(?:gres[:/])?gpu(?![\w.\-])", re.ASCII)
_READ = frozenset({"cpu", "mem", "gres/gpu"})
_TYPE = re.compile(r"\(null\)|[\w.\-+ ]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gres:
    """GPUs of one type: `indexes` are positions in the node's list of them, None where the text has none."""

    type: str
    count: int
    indexes: tuple[int, ...] | None = None


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Return the GPUs that a GRES text lists, in its order, also with the prefix `gres:` or `gres/`.

    Other resources are skipped: a site names and writes them as it likes. Raises ValueError.
    """
    return _known_gres(text) if len(text) < _SHORT else _read_gres(text)


def parse_tres(text: str) -> Mapping[str, int]:
    """Return amounts by name (`cpu`, `mem`, `gres/gpu:h200`), `mem` in bytes. Raises ValueError.

    Other items that cannot be read are skipped. A bare amount of memory is megabytes, as everywhere in Slurm.
    """
    return _known_tres(text) if len(text) < _SHORT else _read_tres(text)


def memory(text: str, *, unit: str = "M") -> int:
    """Bytes of `32G`, `1999M`, `4000Mn` (per node) or `2Gc` (per CPU); `unit` is that of a bare number."""
    match = _AMOUNT.fullmatch(text)
    if not match:
        raise ValueError("not an amount of memory")
    whole, _, fraction = match[1].partition(".")
    scale = _UNITS[match[2] or unit]
    return int(whole) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def gpus_in(tres: Mapping[str, int]) -> int | None:
    """GPUs in a parsed TRES text; None where it counts none (a site may not count them at all).

    The total and the types say the same where both are there; a site may count only one of them.
    """
    types = [count for name, count in tres.items() if name.startswith("gres/gpu:")]
    total = tres.get("gres/gpu")
    return total if not types else max(sum(types), total or 0)


def requested_gpus(text: str) -> int:
    """Return the GPUs in a request per job, node, socket or task. Raises ValueError.

    Slurm before 24.05 writes `gres/gpu:h200:2`, later releases write `tres_per_task` as `cpu=4,gres/gpu:h200=2`.
    """
    parts = _split(text)
    tres = parse_tres(",".join(part for part in parts if "=" in part))
    gres = parse_gres(",".join(part for part in parts if "=" not in part))
    return (gpus_in(tres) or 0) + sum(one.count for one in gres)


def gpu_types_in(tres: Mapping[str, int]) -> Mapping[str, int]:
    """GPUs by type in a parsed TRES text; those without one are not in it."""
    return {name.removeprefix("gres/gpu:"): count for name, count in tres.items() if name.startswith("gres/gpu:")}


def _read_gres(text: str) -> tuple[Gres, ...]:
    text = text.strip()
    if text in _NOTHING:
        return ()
    if len(text) > _LONGEST:
        raise ValueError("the GRES text is too long")
    return tuple(_gres(part) for part in _split(text) if _GPU.match(part))


def _read_tres(text: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    if len(text) > _LONGEST:
        raise ValueError("the TRES text is too long")
    for part in filter(None, text.strip().split(",")):
        name, _, amount = part.partition("=")
        try:
            found[name] = memory(amount) if name == "mem" else _whole(amount)
        except ValueError:
            if name in _READ or name.startswith("gres/gpu:"):
                raise
    if text.strip() and not found:
        raise ValueError("not a TRES text")
    return MappingProxyType(found)


_known_gres, _known_tres = lru_cache(_REMEMBERED)(_read_gres), lru_cache(_REMEMBERED)(_read_tres)


def _whole(text: str) -> int:
    match = _COUNT.fullmatch(text)
    if not match:
        raise ValueError("not an amount")
    return int(match[1]) * _UNITS[match[2]]


def _split(text: str) -> list[str]:
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise ValueError("the GRES text's brackets do not match")
        if character == "," and not depth:
            parts.append(text[begin:position])
            begin = position + 1
    if depth:
        raise ValueError("the GRES text's brackets do not match")
    return [*parts, text[begin:]]


def _gres(text: str) -> Gres:
    text = re.sub(r"\Agres[:/]", "", text.strip())
    type_, count, rest = _fields(text)
    if not (type_ == "" or _TYPE.fullmatch(type_)):
        raise ValueError("not a GRES text")
    indexes = _indexes(rest)
    if count is None:
        count = len(indexes) if indexes is not None else 1
    if count > _MOST_GPUS:
        raise ValueError("more GPUs than a machine can have")
    if indexes is not None and len(indexes) != count:
        raise ValueError("the GRES text counts differently than it lists")
    return Gres("" if type_ == "(null)" else type_, count, indexes)


def _fields(text: str) -> tuple[str, int | None, str]:
    """Type, count and the brackets behind them. The last part is the count where it is a number."""
    # A type may be written as (null), which is no bracket.
    placeholder = text.find(":(null)")
    bracket = text.find("(", placeholder + len(":(null)") if placeholder >= 0 else 0)
    plain, rest = (text, "") if bracket < 0 else (text[:bracket], text[bracket:])
    parts = plain.split(":")[1:]
    count = None
    if parts and (_COUNT.fullmatch(parts[-1]) or parts[-1].isdecimal()):
        count = _whole(parts.pop())
    if len(parts) > 1:
        raise ValueError("not a GRES text")
    return parts[0] if parts else "", count, rest


def _indexes(brackets: str) -> tuple[int, ...] | None:
    for inner in re.findall(r"\(([^()]*)\)", brackets):
        kind, colon, listed = inner.partition(":")
        if colon and kind == "IDX":
            return () if listed in _NOTHING else numbers(listed)
    return None
