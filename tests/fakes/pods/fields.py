"""Reads an object of a manifest field by field, and refuses what nobody asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self


class UnsupportedFieldError(Exception):
    """A field, or a value, of which the runner does not know what it does to a pod."""


class Fields:
    """In a `with`: at its end every field must have been asked for, or be named in `without_effect`."""

    def __init__(self, path: str, content: Mapping[str, Any] | None, without_effect: tuple[str, ...] = ()) -> None:
        self.path = path
        self._content = content or {}
        self._left = set(self._content) - set(without_effect)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._left:
            raise UnsupportedFieldError(f"{self.path}: {', '.join(sorted(self._left))}")

    def get(self, name: str, default: Any = None) -> Any:
        """Its value."""
        self._left.discard(name)
        value = self._content.get(name)
        return default if value is None else value

    def only(self, name: str, *allowed: Any) -> Any:
        """Its value, which is one of these; the first where it is missing."""
        value = self.get(name, allowed[0])
        if value not in allowed:
            raise UnsupportedFieldError(f"{self.path}.{name}: {value!r}")
        return value

    def within(self, name: str, without_effect: tuple[str, ...] = ()) -> Fields:
        """The fields of an object in it."""
        return Fields(f"{self.path}.{name}", self.get(name), without_effect)
