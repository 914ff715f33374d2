"""From the user of a job to a person: an address, and when that person is to hear of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from dutycycle_alerter.settings.notify.address import is_address
from dutycycle_alerter.settings.policies import RuleNames
from dutycycle_alerter.settings.types import Duration, Number, Section


def _template(text: str) -> str:
    if text and (text.count("{user}") != 1 or not is_address(text.replace("{user}", "u"))):
        raise ValueError("expected an address with {user} in it, such as {user}@example.org")
    return text


class People(Section):
    """How the user of a job is reached. Users without an address are not notified, and the incident says so."""

    address: Annotated[str, AfterValidator(_template)] = ""
    """The email address of a user: `{user}@example.org`."""
    map_file: Path | None = None
    """A file with lines `user address`, reread when it changes; it takes precedence over the template. A user with
    no address after the name has none.
    """


class Owners(Section):
    """When the user of a job is notified. Operators are notified of everything that their routes match."""

    wasted_gpu_hours: Number = Field(default=24, ge=0)
    """Users are notified of efficiency rules once their jobs wasted more than this, within incidents,"""
    within: Duration = 7 * 86400
    """over this time."""
    at_once: RuleNames = ("idle", "hung")
    """Rules that users are notified of once they are critical, whatever was wasted."""
