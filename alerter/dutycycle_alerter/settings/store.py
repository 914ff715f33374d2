"""How long the store keeps what nobody needs for judging any more."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from dutycycle_alerter.scale import write_duration
from dutycycle_alerter.settings.types import Duration, Section

_DAY = 86400.0
_LEAST = 7 * _DAY


def _long_enough(seconds: float) -> float:
    if seconds < _LEAST:
        raise ValueError(f"must not be shorter than {write_duration(_LEAST)}")
    return seconds


_Kept = Annotated[Duration, AfterValidator(_long_enough)]


class Retention(Section):
    """When what is old is deleted."""

    incidents: _Kept = 400 * _DAY
    """Incidents that were resolved longer ago are deleted with their history; 7d at least are kept. Those that are not
    resolved stay, and so does the newest.
    """
    usage: _Kept = 800 * _DAY
    """Hours of the usage ledger and of the fleet that are older are deleted; 7d at least are kept."""
    messages: _Kept = 90 * _DAY
    """Messages that were put together longer ago and wait no more are forgotten, once all of their incidents are
    resolved; 7d at least are kept.
    """
