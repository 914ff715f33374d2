"""A report as CSV (RFC 4180), for spreadsheets and scripts.

Numbers are plain and in the unit that the column's name ends with; empty is not known. Names come from outside: they
are made printable, and one that a spreadsheet would take for a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from dutycycle_alerter.printable import printable
from dutycycle_alerter.reports.sheet import Sheet, Unit, Value

_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\N{FULLWIDTH EQUALS SIGN}",
    "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH HYPHEN-MINUS}",
    "\N{FULLWIDTH COMMERCIAL AT}",
)
_LONGEST = 32_000
"""Characters of a cell that spreadsheets take."""
_DIVISORS = {Unit.GPU_HOURS: 3600.0, Unit.SHARE: 0.01, Unit.ENERGY: 3.6e6, Unit.CO2: 1000.0}


def comma_separated(sheets: Sequence[Sheet], *, replay: bool = False) -> str:
    """The rows of all tables below one header; of several tables, the first column says of which. Totals are left to
    who reads it. Where it is a replay, a column says so.
    """
    several = len(sheets) > 1
    headers = list(dict.fromkeys(column.header for sheet in sheets for column in sheet.columns))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([*(["section"] if several else []), *headers, *(["replay"] if replay else [])])
    for sheet in sheets:
        for row in _rows(sheet, headers):
            writer.writerow([*([sheet.key] if several else []), *row, *(["true"] if replay else [])])
    return text.getvalue()


def number(value: float, unit: Unit) -> float:
    """The value in the unit that its column is named for."""
    return round(value / _DIVISORS.get(unit, 1.0), 6)


def _rows(sheet: Sheet, headers: Sequence[str]) -> Iterator[list[str]]:
    for row in sheet.rows:
        cells = {column.header: _cell(value, column.unit) for column, value in zip(sheet.columns, row, strict=True)}
        yield [cells.get(header, "") for header in headers]


def _cell(value: Value, unit: Unit) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        text = printable(value, _LONGEST)
        return f"'{text}" if text.lstrip().startswith(_FORMULA) or value[:1] in _FORMULA else text
    if unit is Unit.COUNT:
        return str(value)
    return f"{number(value, unit):.6f}".rstrip("0").rstrip(".")
