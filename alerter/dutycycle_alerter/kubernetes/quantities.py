"""Kubernetes' quantities (`500m`, `16Gi`, `1e3`) as numbers."""

from __future__ import annotations

import re

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_SUFFIXES = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    **{name: 10.0 ** (3 * power) for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": 2.0 ** (10 * power) for power, name in enumerate("KMGTPE", 1)},
}
_MOST = 1e20


def parse_quantity(text: str | float) -> float:
    """The number, in cores, bytes or pieces. Raises ValueError where it is none, is negative, or beyond 10^20.

    API servers write quantities as texts; a number is what others may write.
    """
    if isinstance(text, int) and text > _MOST:
        raise ValueError("no amount of anything")
    if isinstance(text, str):
        found = _QUANTITY.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:40]!r} is no quantity")
        value = float(found["number"]) * _SUFFIXES.get(found["suffix"] or "", 1.0)
        if found["exponent"]:
            value = float(f"{found['number']}e{found['exponent']}")
    else:
        value = float(text)
    if not 0 <= value <= _MOST:
        raise ValueError(f"{str(text)[:40]!r} is no amount of anything")
    return value
