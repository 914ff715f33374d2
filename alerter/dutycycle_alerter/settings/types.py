"""What sections of the configuration are made of: durations, ratios, and a base that refuses unknown keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    model_validator,
)

from dutycycle_alerter.scale import parse_duration, write_duration

WINDOWS = (900.0, 1800.0, 7200.0, 86400.0)
"""The evidence windows in seconds: a fixed set, so that the number of queries in a pass does not grow with the
rules.
"""

SCALED = "scaled by time_scale"


SHORTEST, LONGEST = 0.001, 36500 * 86400.0
"""Bounds of every duration in seconds, before scaling: what a scheduler can count in."""


def _secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text:
        raise ValueError("is empty")
    if not re.fullmatch(r"[\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]+", text):
        raise ValueError("holds a control character or the end of a line")
    return value


def _no_bool(value: object) -> object:
    # YAML reads yes and on as true, and true would count as 1.
    if isinstance(value, bool):
        raise ValueError(f"expected a number, found {str(value).lower()}")  # noqa: TRY004 - pydantic wants ValueError
    return value


def _to_seconds(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else _no_bool(value)


def _within_bounds(seconds: float) -> float:
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"a duration lies between {write_duration(SHORTEST)} and {write_duration(LONGEST)}")
    return seconds


def _one_of_windows(seconds: float) -> float:
    if seconds not in WINDOWS:
        raise ValueError("a window is one of 15m, 30m, 2h, 24h")
    return seconds


_Seconds = Annotated[float, BeforeValidator(_to_seconds), PlainSerializer(write_duration, when_used="json")]
Duration = Annotated[_Seconds, AfterValidator(_within_bounds), SCALED]
RealDuration = Annotated[_Seconds, AfterValidator(_within_bounds)]
"""A time-out on a real call: the time scale does not shorten it."""
Window = Annotated[_Seconds, AfterValidator(_one_of_windows), SCALED]
Number = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_no_bool)]
Secret = Annotated[SecretStr, AfterValidator(_secret)]
"""Something that a header can hold: http.client's error would show one that it cannot."""
Ratio = Annotated[Number, Field(ge=0, le=1)]

_Model = TypeVar("_Model", bound="Section")


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    RISING: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of keys of which the first must be lower: what opens a rule must not be what clears it."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        for lower, higher in self.RISING:
            if getattr(self, lower) >= getattr(self, higher):
                raise ValueError(f"{lower} must be lower than {higher}")
        return self


def divided(section: _Model, factor: float) -> _Model:
    """The section with every duration that the time scale shortens divided by a factor, sections within it alike."""
    hints = get_type_hints(type(section), include_extras=True)
    changed: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            changed[name] = divided(value, factor)
        elif isinstance(value, tuple) and any(isinstance(item, Section) for item in value):
            changed[name] = tuple(divided(item, factor) for item in value)
        elif SCALED in get_args(hints[name]):
            changed[name] = value / factor
    return section.model_copy(update=changed)
