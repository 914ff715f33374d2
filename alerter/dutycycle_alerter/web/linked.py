"""Where the links of messages lead: GET asks, POST does. The link itself is the right to do that one thing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from pydantic import ConfigDict, Field

from dutycycle_alerter.errors import IncidentNotFoundError
from dutycycle_alerter.incidents.expectations import Expectation, Scope
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, State
from dutycycle_alerter.notify.links import Action, ActionLink, LinkError, UnsubscribeLink
from dutycycle_alerter.notify.model import To
from dutycycle_alerter.web import forms
from dutycycle_alerter.web.access.visitor import ForbiddenError, NotLoggedInError
from dutycycle_alerter.web.site import OpenSite, Site

router = APIRouter(include_in_schema=False)

Token = Annotated[str, Path(max_length=2000)]

_LEADS_TO = {Action.ACKNOWLEDGE: State.ACKNOWLEDGED, Action.SNOOZE: State.SNOOZED}
_DOES = {
    Action.ACKNOWLEDGE: EventKind.ACKNOWLEDGED,
    Action.SNOOZE: EventKind.SNOOZED,
    Action.RESOLVE: EventKind.RESOLVED,
    Action.INTENDED: EventKind.INTENDED,
}
_BEGINS = frozenset({EventKind.OPENED, EventKind.REOPENED, EventKind.WITHDRAWN})
"""After these a link does again what it did before."""


class Wanted(StrEnum):
    """What a user wants of a receiver."""

    NOTHING = "nothing"
    MESSAGES = "messages"


class Act(forms.Noted, forms.Intent):
    """The form of a link: what any of the actions needs."""


class Unsubscribing(forms.Sent):
    """The form of the page, or what a mail program sends by itself (RFC 8058)."""

    model_config = ConfigDict(populate_by_name=True)

    one_click: str = Field(default="", max_length=40, alias="List-Unsubscribe")
    wanted: Wanted = Wanted.NOTHING


@router.api_route("/act/{token}", methods=["GET", "HEAD"])
def ask(request: Request, site: OpenSite, token: Token) -> HTMLResponse:
    """What the link does, and the form that does it; what became of it where it has been done."""
    link, incident = _of(site, token)
    knows, name = _knows(request, site, link), forms.remembered_name(request)
    said = _said(site, link, incident, knows or _typed(site, name))
    return site.page(
        request,
        "act.html",
        None,
        link=link,
        incident=incident,
        said=said,
        over=said is not None or _over(incident, link.action),
        refused=_refused(site, link),
        knows=knows,
        name=name,
        snoozes=forms.SNOOZES,
        lastings=forms.lastings(site.limits.longest),
        of_users=site.limits.of_users and bool(incident.user),
        time_scale=site.reader.status().time_scale,
    )


@router.post("/act/{token}")
def act(request: Request, site: OpenSite, token: Token, sent: Annotated[Act, Form()]) -> RedirectResponse:
    """Do it; harmless where it has been done."""
    link, incident = _of(site, token)
    forms.check(request, sent.token, origins=site.origins)
    if not _over(incident, link.action):
        actor = _knows(request, site, link) or _typed(site, sent.name)
        if not actor:
            raise forms.unsaid("name", "say who you are")
        if _said(site, link, incident, actor) is None:
            _perform(site, link, sent, actor)
    response = RedirectResponse(f"{site.base}/act/{token}", 303)
    if sent.name:
        forms.remember(response, request, name=sent.name)
    return response


@router.api_route("/unsubscribe/{token}", methods=["GET", "HEAD"])
def ask_unsubscribe(request: Request, site: OpenSite, token: Token) -> HTMLResponse:
    """What would be sent no more, and the form that says so, or takes it back."""
    link = _unsubscribe(site, token)
    return site.page(request, "unsubscribe.html", None, link=link, muted=site.reader.muted(link.receiver, link.user))


@router.post("/unsubscribe/{token}")
def unsubscribe(request: Request, site: OpenSite, token: Token, sent: Annotated[Unsubscribing, Form()]) -> Response:
    """Send no more of it, or again. A mail program has no cookie: its request can do the one thing alone."""
    link = _unsubscribe(site, token)
    if sent.one_click == "One-Click":
        site.unchecked.mute(link.receiver, link.user)
        return PlainTextResponse("unsubscribed\n")
    forms.check(request, sent.token, origins=site.origins)
    if sent.wanted is Wanted.NOTHING:
        site.unchecked.mute(link.receiver, link.user)
    else:
        site.unchecked.unmute(link.receiver, link.user)
    return RedirectResponse(f"{site.base}/unsubscribe/{token}", 303)


def _of(site: Site, token: str) -> tuple[ActionLink, Incident]:
    link = site.links.read(token, now=site.clock())
    if not isinstance(link, ActionLink):
        raise LinkError("malformed")
    incident = site.incident(link.incident_id)
    # An owner's link is for the incident of which the message was: a store that is set up anew counts from one again.
    if link.recipient.to is To.OWNER and link.recipient.user != incident.user:
        raise IncidentNotFoundError(link.incident_id)
    return link, incident


def _unsubscribe(site: Site, token: str) -> UnsubscribeLink:
    link = site.links.read(token, now=site.clock())
    if not isinstance(link, UnsubscribeLink):
        raise LinkError("malformed")
    return link


def _over(incident: Incident, action: Action) -> bool:
    """Whether the incident leaves the link nothing to do. What is over may still be said to have been intended."""
    if action is Action.INTENDED:
        return False
    return incident.state is _LEADS_TO.get(action) or not incident.state.active


def _said(site: Site, link: ActionLink, incident: Incident, actor: str) -> Event | None:
    """How what the link does was done since the incident was opened, or opened again: by this actor; that it was
    intended, by anybody. None where it was not. A snooze that has ended can be had again.
    """
    begins = _BEGINS | {EventKind.SNOOZE_EXPIRED} if link.action is Action.SNOOZE else _BEGINS
    for event in reversed(site.reader.events(incident.id)):
        if event.kind is _DOES[link.action] and (link.action is Action.INTENDED or event.actor == actor):
            return event
        if event.kind in begins:
            break
    if link.action is not Action.INTENDED:
        return None
    known = next((one for one in site.reader.expectations() if _covers(one, incident)), None)
    return None if known is None else Event(known.at, EventKind.INTENDED, known.reason, known.actor)


def _covers(one: Expectation, incident: Incident) -> bool:
    subject = incident.subject if one.scope is Scope.JOB else incident.user
    rules = {rule.rule for rule in incident.rules} or {incident.rule}
    return (one.cluster, one.subject) == (incident.cluster, subject) and rules <= set(one.rules)


def _refused(site: Site, link: ActionLink) -> str:
    """Why the link does nothing at this site; empty where it does."""
    owners = link.action is not Action.INTENDED or link.recipient.to is not To.OWNER or site.limits.owners
    return "" if owners else "at this site, only operators mark incidents as intended: ask one"


def _knows(request: Request, site: Site, link: ActionLink) -> str:
    """Who acts: who is logged in, else the user whom the message was for; empty where that is not known.

    Not whom a proxy names: links go round its log-in, and then it may pass on what a client says of itself.
    """
    try:
        known = site.gate.known_by_token(request)
    except NotLoggedInError:
        known = None
    if known is not None:
        return known.name
    return link.recipient.user if link.recipient.to is To.OWNER else ""


def _typed(site: Site, name: str) -> str:
    return name and site.typed(name, "by a link")


def _perform(site: Site, link: ActionLink, sent: Act, actor: str) -> None:
    number, now = link.incident_id, site.clock()
    scale = site.reader.status().time_scale
    match link.action:
        case Action.ACKNOWLEDGE:
            site.unchecked.acknowledge(number, actor=actor, note=sent.note)
        case Action.SNOOZE:
            site.unchecked.snooze(number, until=now + sent.snooze.seconds / scale, actor=actor, note=sent.note)
        case Action.RESOLVE:
            site.unchecked.resolve(number, actor=actor, note=sent.note)
        case Action.INTENDED:
            if refused := _refused(site, link):
                raise ForbiddenError(refused)
            site.unchecked.intend(
                number,
                actor=actor,
                reason=sent.reason,
                scope=sent.scope,
                until=now + sent.lasting.seconds / scale,
                covered=sent.covered,
            )
