"""The templates' environment: everything printed is escaped and made harmless, and figures have one form."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dutycycle_alerter import figures
from dutycycle_alerter.headline import duration, headline, rule_name, shown_subject, subject_name
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.incidents.reasons import reasons
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.prose import TEXT_LIMIT, sentence
from dutycycle_alerter.rules.purposes import by_purpose
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.web.lists import MAX_TEXT

STATIC = Path(__file__).with_name("static")


@dataclass(frozen=True, slots=True)
class Show:
    """How one page says times and spans; spans in wall seconds are brought to the shown scale here."""

    now: float
    zone: tzinfo | None
    time_scale: float

    def when(self, timestamp: float) -> Markup:
        """A moment as an element that carries the whole of it; to the second where time runs fast."""
        local = figures.local(timestamp, self.zone)
        text = figures.moment(timestamp, now=self.now, zone=self.zone, seconds=self.time_scale > 1)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            local.isoformat(timespec="seconds"), local.strftime("%Y-%m-%d %H:%M:%S %Z"), text
        )

    def ago(self, timestamp: float) -> str:
        """How long ago on the shown scale."""
        return figures.ago((self.now - timestamp) * self.time_scale)

    def heard(self, timestamp: float) -> str | Markup:
        """When the alerter or an exporter last did something: how long ago; where time runs fast, at what time of day,
        since a span on the shown scale would not be about this machine.
        """
        return self.ago(timestamp) if self.time_scale == 1 else Markup("at {}").format(self.when(timestamp))

    def lasted(self, incident: Incident) -> str:
        """For how long an incident has lasted."""
        return duration(incident, self.now, self.time_scale)

    def span(self, seconds: float) -> str:
        """A length of time on the shown scale."""
        return format_duration(max(0.0, seconds) * self.time_scale)

    def zone_behind(self, timestamp: float) -> str:
        """What follows a moment on a page that names no zone for all of them: empty where it carries its own."""
        other = figures.other_zone(timestamp, now=self.now, zone=self.zone)
        return "" if other else f" {self.zone_name}"

    @property
    def zone_name(self) -> str:
        """The abbreviation of the zone that moments are given in, but for those that carry another."""
        return figures.zone_name(self.now, self.zone)


def environment() -> Environment:
    """The environment of all pages."""
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        percent=figures.percent,
        hours=figures.hours,
        energy=figures.energy,
        mass=figures.mass,
        money=figures.money,
        gibibytes=figures.gibibytes,
        name=lambda text: printable(text, NAME_LIMIT),
        long=lambda text: printable(text, TEXT_LIMIT),
        sentence=sentence,
        user_url=_user_url,
        rule_name=rule_name,
        headline=headline,
        subject_name=subject_name,
        shown_subject=shown_subject,
        reasons=reasons,
        places=figures.gpu_places,
        by_purpose=by_purpose,
    )
    # The sheet's address changes with its content, so that browsers never mix an old sheet with a new page.
    made.globals.update(
        count=figures.count, style_version=hashlib.sha256((STATIC / "style.css").read_bytes()).hexdigest()[:12]
    )
    return made


def _user_url(user: str) -> str:
    """The list of a user's incidents; empty for a name that no address can carry."""
    try:
        query = urlencode({"user": user, "state": "all"})
    except UnicodeEncodeError:
        return ""
    return f"/?{query}" if user.strip() == user and 0 < len(user) <= MAX_TEXT else ""


def _finalize(value: object) -> object:
    """Every string that a template prints goes through `printable`, so that no template can forget it."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value)
