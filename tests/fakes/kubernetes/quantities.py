"""Amounts such as `500m` and `16Gi`, in the one form that a server keeps them in."""

from __future__ import annotations

import re
from decimal import Decimal

PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
"""What a refusal says an amount has to match."""
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_PARTS = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?\d+)|([numkMGTPE]?))")


def canonical(value: object) -> str:
    """The largest unit of which it is a whole number; what is none stays as it is."""
    parts = _PARTS.fullmatch(str(value))
    if parts is None:
        return str(value)
    number, binary, exponent, unit = parts.groups()
    if exponent is not None:
        return _powers(Decimal(number).scaleb(int(exponent)), {f"e{power}" if power else "": power for power in _EXPS})
    if not binary:
        return _powers(Decimal(number).scaleb(_DECIMAL[unit]), _DECIMAL)
    amount = Decimal(number) * 1024 ** _BINARY.index(binary)
    if amount != int(amount) or abs(amount) < 1024:
        return _powers(amount, _DECIMAL)
    whole, step = int(amount), 0
    while whole % 1024 == 0 and step < len(_BINARY) - 1:
        whole, step = whole // 1024, step + 1
    return f"{whole}{_BINARY[step]}"


_EXPS = (0, 3, 6, 9, 12, 15, 18)


def _powers(amount: Decimal, units: dict[str, int]) -> str:
    if not amount:
        return "0"
    for unit, power in sorted(units.items(), key=lambda item: -item[1]):
        scaled = amount.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{unit}"
    return f"{int(amount.scaleb(9).to_integral_value(rounding='ROUND_CEILING'))}n"
