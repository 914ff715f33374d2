"""Parcels as JSON for programs: the shapes of the API, text as it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dutycycle_alerter.answers import incident_shape
from dutycycle_alerter.notify.composing.content import Report
from dutycycle_alerter.notify.composing.offering import Offer
from dutycycle_alerter.notify.links import Action
from dutycycle_alerter.notify.model import Item, Parcel, ParcelKind, To
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.wire import IncidentShape, Moment, Shape, Text

VERSION = 1


class TellingShape(Shape):
    """One thing that is new of an incident."""

    news: News
    at: Moment
    text: Text
    actor: Text
    """Empty where the alerter acted by itself."""


class LinksShape(Shape):
    """Where people go; empty where there is no such link."""

    incident: str
    dashboard: str
    acknowledge: str
    snooze: str
    intended: str
    resolve: str


class ItemShape(Shape):
    """An incident as it is now, what is new, and its links."""

    tellings: list[TellingShape]
    incident: IncidentShape
    links: LinksShape


class ToShape(Shape):
    """Whom the message is for."""

    audience: To
    user: Text


class TableShape(Shape):
    """A table of a report, as people read it."""

    title: Text
    heads: list[Text]
    rows: list[list[Text]]


class ReportShape(Shape):
    """The weekly report."""

    since: Moment
    until: Moment
    lines: list[Text]
    tables: list[TableShape]


class ParcelShape(Shape):
    """What a webhook posts. `version` changes when something in it changes its meaning; what is added does not."""

    version: int
    key: str
    """The same at every attempt."""
    kind: ParcelKind
    replay: bool
    at: Moment
    title: Text
    to: ToShape
    items: list[ItemShape]
    left_out: int
    """How many incidents a digest is about besides its items."""
    report: ReportShape | None


def document(
    parcel: Parcel, offer: Offer, *, time_scale: float, title: str, report: Report | None, replay: bool
) -> Mapping[str, Any]:
    """The parcel as JSON."""
    shape = ParcelShape(
        version=VERSION,
        key=parcel.key,
        kind=parcel.kind,
        replay=replay,
        at=_moment(parcel.at),
        title=title,
        to=ToShape(audience=parcel.to.to, user=parcel.to.user),
        items=[_item(item, parcel, offer, time_scale) for item in parcel.items],
        left_out=parcel.left_out,
        report=None if report is None else _report(parcel, report),
    )
    return shape.model_dump(mode="json")


def _item(item: Item, parcel: Parcel, offer: Offer, time_scale: float) -> ItemShape:
    incident, links = item.incident, offer.links
    acting = {action.value: offer.link(incident, action, parcel.to, now=parcel.as_of) for action in Action}
    return ItemShape(
        tellings=[
            TellingShape(news=told.news, at=_moment(told.at), text=told.text, actor=told.actor)
            for told in item.tellings
        ],
        incident=incident_shape(incident, time_scale=time_scale),
        links=LinksShape(
            incident=links.incident(incident.id) if incident.id > 0 else "",
            dashboard=links.dashboard(incident, now=parcel.as_of),
            **acting,
        ),
    )


def _report(parcel: Parcel, report: Report) -> ReportShape:
    since, until = parcel.report or (parcel.at, parcel.at)
    tables = [
        TableShape(title=table.title, heads=list(table.heads), rows=[list(row) for row in table.rows])
        for table in report.tables
    ]
    return ReportShape(since=_moment(since), until=_moment(until), lines=list(report.lines), tables=tables)


def _moment(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)
