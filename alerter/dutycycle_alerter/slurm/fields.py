"""Reads fields of Slurm's JSON, whichever release wrote it: strict about types, lenient about absence.

Until 22.05 a number is a number, and null where Slurm has none; newer releases write an object with `set`, `infinite`
and `number`, or with `+complex` a number, null or "Infinity". States are one text or a list of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

_T = TypeVar("_T")

_TOLD = 3
_LONGEST_TEXT = 65536
_LARGEST = 2**62
# What Slurm's integers say for "no value" and "infinite", where a release lets them through.
_NO_VALUE = frozenset({2**16 - 2, 2**16 - 1, 2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1, -1, -2})
_NO_VALUE_WIDE = _NO_VALUE - {2**16 - 2, 2**16 - 1}
_INFINITE = frozenset({"infinity", "infinite", "unlimited"})


class Nonsense(Counter[str]):
    """Counts, by the path of the field, values that are not what they should be."""

    def told(self) -> str:
        """For people, short; empty where there is none."""
        if not self:
            return ""
        named = [f"{name} ({count})" for name, count in self.most_common(_TOLD)]
        more = ", ..." if len(self) > _TOLD else ""
        return f"not understood and taken as unknown: {', '.join(named)}{more}"


class Fields:
    """One JSON object. Every reader takes the field's names, of which the first that is there counts."""

    def __init__(self, value: object, nonsense: Nonsense, path: str = "") -> None:
        self._path = path
        self._nonsense = nonsense
        self._values: Mapping[str, object] = value if isinstance(value, dict) else {}
        if value is not None and not isinstance(value, dict):
            self.wrong()

    def wrong(self, name: str = "") -> None:
        """Count a field, or all of this object, as nonsense."""
        self._nonsense[".".join(filter(None, (self._path, name)))] += 1

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def kind(self, name: str) -> type:
        """The type of the field's value; NoneType where it is missing."""
        return type(self._values.get(name))

    def number(self, *names: str, wide: bool = True) -> int | None:
        """A whole number that is not negative; None where there is none, or it is infinite.

        `wide` is false for fields of 16 bits, in which 65534 and 65535 mean that there is none.
        """
        name, value = self._find(names)
        if isinstance(value, dict):
            value = _unwrapped(value)
        if value is None or (isinstance(value, str) and value.lower() in _INFINITE):
            return None
        if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(name)
            return None
        if value in (_NO_VALUE_WIDE if wide else _NO_VALUE):
            return None
        if not 0 <= value < _LARGEST:
            self.wrong(name)
            return None
        return value

    def time(self, *names: str) -> float | None:
        """Unix seconds; 0 is none."""
        value = self.number(*names)
        return float(value) if value else None

    def text(self, *names: str) -> str:
        """A text; empty where there is none."""
        name, value = self._find(names)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.wrong(name)
            return ""
        return value[:_LONGEST_TEXT]

    def flag(self, *names: str) -> bool | None:
        """A truth value, also one that was written as 0 or 1."""
        name, value = self._find(names)
        if isinstance(value, bool) or value is None:
            return value
        if value in (0, 1):
            return value == 1
        self.wrong(name)
        return None

    def words(self, *names: str) -> tuple[str, ...]:
        """Words in upper case, from a list or from one text in which `+` or `,` joins them."""
        name, value = self._find(names)
        if value is None:
            return ()
        listed: Sequence[object] = value.replace("+", ",").split(",") if isinstance(value, str) else _items(value)
        if isinstance(value, dict) or not all(isinstance(word, str) for word in listed):
            self.wrong(name)
            return ()
        return tuple(word.strip().upper() for word in listed if isinstance(word, str) and word.strip())

    def texts(self, *names: str) -> tuple[str, ...]:
        """A list of texts, as it is."""
        name, value = self._find(names)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(name)
            return ()
        return tuple(value)

    def part(self, name: str) -> Fields:
        """An object; an empty one where it is missing."""
        return Fields(self._values.get(name), self._nonsense, self._below(name))

    def parts(self, *names: str) -> Iterator[Fields]:
        """A list of objects; nothing where it is missing."""
        name, value = self._find(names)
        if value is None:
            return
        if not isinstance(value, list):
            self.wrong(name)
            return
        for item in value:
            if isinstance(item, dict):
                yield Fields(item, self._nonsense, self._below(name))
            else:
                self.wrong(name)

    def parsed(self, parse: Callable[[str], _T], name: str) -> _T | None:
        """A text read by `parse`; None where it is missing or empty, or the parser raises ValueError."""
        text = self.text(name)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError:
            self.wrong(name)
            return None

    def _below(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _find(self, names: tuple[str, ...]) -> tuple[str, object]:
        for name in names:
            if self._values.get(name) is not None:
                return name, self._values[name]
        return names[0], None


def _unwrapped(value: dict[str, object]) -> object:
    """The number in `{set, infinite, number}`; None where it is not set, the object itself where it is another."""
    if "number" not in value or value.get("infinite") is True or value.get("set") is False:
        return value if "number" not in value and "set" not in value else None
    return value["number"]


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
