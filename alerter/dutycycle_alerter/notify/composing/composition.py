"""The composer: each kind of parcel in each format, by the templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.composing import blocks
from dutycycle_alerter.notify.composing.content import Command, Message
from dutycycle_alerter.notify.composing.documents import document
from dutycycle_alerter.notify.composing.messages import IN_FULL, Saying
from dutycycle_alerter.notify.composing.offering import Offer
from dutycycle_alerter.notify.composing.pictures import Series, picture
from dutycycle_alerter.notify.composing.samples import samples
from dutycycle_alerter.notify.composing.stories import Teller
from dutycycle_alerter.notify.composing.templates import OF_ONE, Templates
from dutycycle_alerter.notify.composing.voices import MRKDWN, PLAIN, Voice
from dutycycle_alerter.notify.composing.weekly import Weekly, histogram, told
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import (
    OPERATORS,
    Brief,
    Item,
    Mail,
    Parcel,
    ParcelKind,
    Picture,
    Recipient,
    SlackMessage,
)
from dutycycle_alerter.printable import printable
from dutycycle_alerter.reports.weekly import WeeklyReport
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.calendar import zone_of

_SUBJECT, _TITLE, _REPLY = 160, 120, 3000
_BLANK = re.compile(r"[ \t]+(?=\n)|[ \t]+\Z")
_GAPS = re.compile(r"\n{3,}")


class Composition:
    """Implements `Composer`. `settings` are scaled; `series` are the curves of an incident until an instant, `weekly`
    makes the weekly report, `replay` tells whether a recording is played. Without them mails have no pictures, there is
    no report, and nothing is a replay. Raises ConfigError where a template of the site cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        links: Links,
        *,
        series: Series | None = None,
        weekly: Weekly | None = None,
        replay: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings = settings
        self._offer = Offer(links, settings.policies.expectations.owners)
        self._series = series
        self._weekly = weekly
        self._replay = replay
        self._zone = zone_of(settings.notify.timezone)
        self._templates = Templates(settings.notify.templates)
        self._try_templates()

    def mail(self, parcel: Parcel, *, unsubscribe: str = "") -> Mail:
        """Of any kind of parcel, with pictures where it tells of few incidents. Raises StoreError, for a report."""
        weekly = self._weekly_report(parcel)
        users = None if weekly is None else histogram(weekly)
        pictures = self._pictures(parcel)
        report = None if weekly is None else told(weekly, PLAIN, self._zone, self._settings.time_scale, users)
        saying = self._saying(parcel.to, parcel.as_of, PLAIN)
        values = _values(saying.message(parcel, pictures=pictures, report=report, unsubscribe=unsubscribe))
        return Mail(
            subject=_line(self._templates.render("mail.subject.j2", values), _SUBJECT),
            text=_tidy(self._templates.render("mail.text.j2", values)) + "\n",
            html=_tidy(self._templates.render("mail.html.j2", values)) + "\n",
            pictures=(*pictures.values(), *(() if users is None else (users,))),
        )

    def slack(self, parcel: Parcel, *, threaded: bool = True) -> SlackMessage:
        """Of any kind; of one incident, the message at the head of its thread, with what is new where there are no
        threads. Raises StoreError, for a report.
        """
        weekly = self._weekly_report(parcel)
        message = self._message(parcel, MRKDWN, weekly, threaded=threaded)
        title = self._title(self._message(parcel, PLAIN, weekly))
        alone = message.stories[0] if parcel.kind is ParcelKind.INCIDENTS and message.total == 1 else None
        if alone is not None:
            links = blocks.of_incident(alone.urls)
            context = f"#{alone.id} · {alone.severity} · {alone.state} · times are {message.zone}"
        else:
            links = [("All users" if parcel.kind is ParcelKind.REPORT else "Show all", message.list_url)]
            context = f"Dutycycle · times are {message.zone}"
        body = _tidy(self._templates.render("slack.head.j2", _values(message)))
        head = _tidy(self._templates.render("mail.subject.j2", _values(message)))
        return SlackMessage(blocks.shortened(_line(head, _REPLY), _REPLY), blocks.blocks(title, body, links, context))

    def slack_reply(self, item: Item, to: Recipient) -> str:
        """What is new, in a line or two of mrkdwn, for the incident's thread."""
        values = _values(self._saying(to, _latest(item), MRKDWN).one(item))
        return blocks.shortened(_tidy(self._templates.render("slack.reply.j2", values)), _REPLY)

    def brief(self, parcel: Parcel) -> Brief:
        """Of any kind: the first line the template puts out is the title. Raises StoreError, for a report."""
        message = self._message(parcel, PLAIN, self._weekly_report(parcel))
        title, _, text = _tidy(self._templates.render("brief.j2", _values(message))).partition("\n")
        alone = message.stories[0].urls.incident if len(parcel.items) == 1 else message.list_url
        return Brief(title=_line(title, _TITLE), text=text.strip("\n"), url=alone)

    def annotations(self, incident: Incident) -> Mapping[str, str]:
        """`summary`, `description` and, where there are such, `commands` (one a line, each under a comment that says
        what it is for), `cost_per_day`, `incident_url` and `dashboard_url`. No links that act: alerts are shown to
        everybody.
        """
        now = max(incident.known_at, incident.updated_at)
        message = self._saying(OPERATORS, now, PLAIN).one(Item(incident, ()))
        values = _values(message)
        summary, _, text = _tidy(self._templates.render("annotations.j2", values)).partition("\n")
        story = message.stories[0]
        found = {
            "summary": _line(summary, _SUBJECT),
            "description": text.strip("\n"),
            "commands": "\n".join(_commented(command) for command in story.commands),
            "cost_per_day": _line(self._templates.built_in("_daily.j2", values), _SUBJECT),
            "incident_url": story.urls.incident,
            "dashboard_url": story.urls.dashboard,
        }
        return {name: value for name, value in found.items() if value}

    def document(self, parcel: Parcel) -> Mapping[str, Any]:
        """JSON for programs: the shapes of the API, with the links. Raises StoreError, for a report."""
        message = self._message(parcel, PLAIN, self._weekly_report(parcel))
        return document(
            parcel,
            self._offer,
            time_scale=self._settings.time_scale,
            title=self._title(message),
            report=message.report,
            replay=self._replay(),
        )

    def _saying(self, to: Recipient, now: float, voice: Voice) -> Saying:
        teller = Teller(
            voice=voice,
            to=to,
            now=now,
            zone=self._zone,
            time_scale=self._settings.time_scale,
            prices=self._settings.costs,
            offer=self._offer,
        )
        return Saying(teller, self._settings.web.public_url, self._replay())

    def _message(self, parcel: Parcel, voice: Voice, weekly: WeeklyReport | None, *, threaded: bool = False) -> Message:
        """Without pictures."""
        report = None if weekly is None else told(weekly, voice, self._zone, self._settings.time_scale)
        return self._saying(parcel.to, parcel.as_of, voice).message(parcel, report=report, threaded=threaded)

    def _title(self, message: Message) -> str:
        """What stands above a message without saying whose it is."""
        return _line(self._templates.built_in("_title.j2", _values(message)), _TITLE)

    def _weekly_report(self, parcel: Parcel) -> WeeklyReport | None:
        if parcel.kind is not ParcelKind.REPORT:
            return None
        if self._weekly is None or parcel.report is None:
            raise ConfigError("there is no weekly report to send: nothing makes one")
        return self._weekly(*parcel.report)

    def _pictures(self, parcel: Parcel) -> Mapping[int, Picture]:
        if self._series is None or parcel.kind is not ParcelKind.INCIDENTS or len(parcel.items) > IN_FULL:
            return {}
        found = {}
        for item in parcel.items:
            if item.incident.about == "job":
                drawn = picture(item.incident, self._series, now=parcel.as_of, zone=self._zone)
                if drawn is not None:
                    found[item.incident.id] = drawn
        return found

    def _try_templates(self) -> None:
        """Every template of the site with every kind of parcel. Raises ConfigError."""
        for name in self._templates.replaced:
            voice = MRKDWN if name.startswith("slack.") else PLAIN
            for sample in samples():
                parcel = sample.parcel
                if name in OF_ONE and len(parcel.items) != 1:
                    continue
                saying = self._saying(parcel.to, parcel.as_of, voice)
                message = saying.message(
                    parcel, pictures=sample.pictures, report=sample.report, unsubscribe=sample.unsubscribe
                )
                self._templates.check(name, _values(message))


def _values(message: Message) -> dict[str, Any]:
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {**values, "message": message, "in_full": IN_FULL}


def _latest(item: Item) -> float:
    told_at = [telling.at for telling in item.tellings]
    return max(told_at) if told_at else item.incident.updated_at


def _tidy(text: str) -> str:
    """No spaces at the ends of lines and no rows of empty lines: templates need not be written around them."""
    return _GAPS.sub("\n\n", _BLANK.sub("", text)).strip("\n ")


def _commented(command: Command) -> str:
    """Under what it is for, as a comment of the shell: what reads one line after the other is not misled by it."""
    return f"# {command.label}\n{command.line}" if command.label else command.line


def _line(text: str, limit: int) -> str:
    """One line, whatever a template puts out."""
    return printable(" ".join(text.split()), limit)
