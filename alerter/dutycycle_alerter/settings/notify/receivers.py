"""The receivers: what each way of notifying people needs."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from dutycycle_alerter.settings.notify.address import is_address
from dutycycle_alerter.settings.types import Duration, RealDuration, Secret, Section, Whole


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("expected a URL like https://alerts.example.org/path") from None
    if not re.fullmatch(r"https?://[^\s/?#\\]+[^\s\\]*", url) or not parts.hostname or port == 0:
        raise ValueError("expected a URL like https://alerts.example.org/path")
    if parts.username is not None:
        raise ValueError("a user in the URL would be logged: give username and password_file")
    return url


def keeps_secrets(url: str) -> bool:
    """Whether nobody on the way reads what is sent to a URL: it is encrypted, or stays on this machine."""
    parts = urlsplit(url)
    try:
        near = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        near = parts.hostname == "localhost"
    return near or parts.scheme == "https"


def _address(text: str) -> str:
    if not is_address(text):
        raise ValueError("expected an email address in ASCII, such as gpus@example.org")
    return text


def _alertmanager(url: str) -> str:
    _url(url)
    if "?" in url or "#" in url or re.search(r"/api/v[12](/|$)", url):
        raise ValueError("expected Alertmanager's address before /api/v2, such as http://alertmanager:9093")
    return url.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Address = Annotated[str, AfterValidator(_address)]
ReceiverName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]


class _Secretive(Section):
    """A secret is given itself (`${NAME}`) or in a file, which is read anew for each use."""

    @model_validator(mode="after")
    def _once(self) -> Self:
        for name in type(self).model_fields:
            if name.endswith("_file") and getattr(self, name) and getattr(self, name[:-5], None):
                raise ValueError(f"{name[:-5]} and {name} exclude each other: remove one")
        return self


class Slack(_Secretive):
    """Slack with a bot's token: a thread for each incident in a channel, direct messages to the owners of jobs."""

    token: Secret | None = None
    """The bot's token (xoxb-...), with the scopes chat:write, im:write, users:read and users:read.email."""
    token_file: Path | None = None
    """A file with it."""
    channel: str = Field(default="", max_length=80)
    """Where operators are notified: the ID or #name of a channel that the bot is a member of."""
    url: Url = "https://slack.com/api/"
    """The Web API."""
    ca_file: Path | None = None
    """The authority that signed the server's certificate, or that of a proxy that intercepts TLS, if the system does
    not know it.
    """
    timeout: RealDuration = 15
    """How long one call may take."""

    @model_validator(mode="after")
    def _has_token(self) -> Self:
        if self.token is None and self.token_file is None:
            raise ValueError("give token_file, or token: ${NAME}")
        if not keeps_secrets(self.url):
            raise ValueError("url: the token is not sent unencrypted: expected https://")
        return self


class SlackWebhook(_Secretive):
    """Slack with an incoming webhook: one channel, no threads."""

    url: Secret | None = None
    """The webhook's address, which is a secret."""
    url_file: Path | None = None
    """A file with it."""
    ca_file: Path | None = None
    """The authority that signed the server's certificate, or that of a proxy that intercepts TLS, if the system does
    not know it.
    """
    timeout: RealDuration = 15
    """How long one call may take."""

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if self.url is None and self.url_file is None:
            raise ValueError("give url_file, or url: ${NAME}")
        if self.url is not None and not keeps_secrets(self.url.get_secret_value()):
            raise ValueError("url: the webhook's address is a secret: expected https://")
        return self


class Email(_Secretive):
    """Email through a site's own mail server."""

    host: str = Field(default="localhost", min_length=1, max_length=255)
    """The mail server."""
    port: Annotated[Whole, Field(ge=1, le=65535)] | None = None
    """Its port; by default 25, with starttls 587, with tls 465."""
    security: Literal["none", "starttls", "tls"] = "starttls"
    """How the connection is encrypted: after STARTTLS, which the server must offer, or from the beginning (tls)."""
    ca_file: Path | None = None
    """The authority that signed the server's certificate, if the system does not know it."""
    username: str = Field(default="", max_length=255)
    """The account; empty: none. Never sent over an unencrypted connection."""
    password: Secret | None = None
    """Its password."""
    password_file: Path | None = None
    """A file with it."""
    sender: Address = "dutycycle@localhost"
    """The address that emails come from,"""
    sender_name: str = Field(default="Dutycycle", max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]*$")
    """under this name."""
    helo: str = Field(default="", max_length=255, pattern=r"^[A-Za-z0-9.:\[\]-]*$")
    """What the alerter's machine calls itself (EHLO); empty: the sender's domain."""
    reply_to: Address | None = None
    """Where replies go, such as the cluster's support."""
    to: tuple[Address, ...] = Field(default=(), max_length=50)
    """The recipients of routes to operators; owners get emails at their own addresses."""
    unsubscribe: bool = True
    """Whether owners may unsubscribe, with a link (List-Unsubscribe), from emails that are not critical."""
    timeout: RealDuration = 30
    """How long one answer of the server may take."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.username) != (self.password is not None or self.password_file is not None):
            raise ValueError("username needs password_file (or password: ${NAME}), and that a username")
        if self.username and self.security == "none":
            raise ValueError("a password is not sent unencrypted: set security to starttls or tls")
        return self


class Alertmanager(_Secretive):
    """Alertmanager's v2 API: it gets every active incident again and again, so that silences and routes there count."""

    url: Annotated[str, AfterValidator(_alertmanager)]
    """Its address, before /api/v2. Each member of a cluster needs a receiver and a route of its own."""
    refresh: Duration = 60
    """Time between two refreshes; an alert that is no longer refreshed ends after four of them."""
    labels: dict[LabelName, str] = Field(default={}, max_length=50)
    """Labels that every alert gets, such as `team: hpc`. They go before ours, and an empty one removes ours."""
    username: str = Field(default="", max_length=255)
    """Basic authentication."""
    password: Secret | None = None
    """Its password."""
    password_file: Path | None = None
    """A file with it."""
    bearer_token: Secret | None = None
    """A token, instead."""
    bearer_token_file: Path | None = None
    """A file with it."""
    ca_file: Path | None = None
    """The authority that signed the server's certificate, if the system does not know it."""
    timeout: RealDuration = 15
    """How long one request may take."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        password = self.password is not None or self.password_file is not None
        if bool(self.username) != password:
            raise ValueError("username needs password_file (or password: ${NAME}), and that a username")
        if password and (self.bearer_token is not None or self.bearer_token_file is not None):
            raise ValueError("bearer_token and username exclude each other: remove one")
        if ":" in self.username:
            raise ValueError("username: basic authentication has no names with a colon")
        if "incident" in self.labels:
            raise ValueError("labels: incident is ours: it tells alerts apart")
        if (password or self.bearer_token or self.bearer_token_file) and not keeps_secrets(self.url):
            raise ValueError("url: a password or token is not sent unencrypted: expected https://")
        return self


class Webhook(_Secretive):
    """A POST of JSON to a program of the site, signed."""

    url: Url
    """The address to post to."""
    secret: Secret | None = None
    """Key of the signature (HMAC-SHA256); without it, messages are not signed."""
    secret_file: Path | None = None
    """A file with it."""
    ca_file: Path | None = None
    """The authority that signed the server's certificate, if the system does not know it."""
    timeout: RealDuration = 15
    """How long one request may take."""


class Apprise(_Secretive):
    """Everything else that Apprise can send to. It is in the image and in the wheels for Slurm."""

    urls: tuple[Secret, ...] = Field(default=(), max_length=20)
    """Apprise's URLs, which are secrets."""
    urls_file: Path | None = None
    """A file with them, one per line."""

    @model_validator(mode="after")
    def _has_urls(self) -> Self:
        if not self.urls and self.urls_file is None:
            raise ValueError("give urls_file, or urls")
        return self


KINDS = ("slack", "slack_webhook", "email", "alertmanager", "webhook", "apprise")
_DAILY_LIMITS = {"email": 20, "slack": 200, "slack_webhook": 100, "apprise": 50}
_DAILY_LIMITS_OF_USERS = {**_DAILY_LIMITS, "email": 5}


class ReceiverSettings(Section):
    """One way of notifying people: its name, one of the kinds, and its limits."""

    name: ReceiverName
    """What routes, logs and metrics call it."""
    slack: Slack | None = None
    slack_webhook: SlackWebhook | None = None
    email: Email | None = None
    alertmanager: Alertmanager | None = None
    webhook: Webhook | None = None
    apprise: Apprise | None = None
    limit: Annotated[Whole, Field(ge=1)] | None = None
    """Messages per day to one recipient, a fifth of them (at least one) reserved for critical incidents; further news
    waits and comes as one digest. By default operators get 20 emails and users 5, anybody 200 messages in Slack, 100
    through its webhook and 50 through Apprise, and programs everything.
    """
    digest_above: Annotated[Whole, Field(ge=1, le=100)] = 10
    """If more incidents than this are waiting for one recipient, they come as one digest."""

    @property
    def kind(self) -> str:
        """The one of `KINDS` that it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def lacking(self) -> str | None:
        """What it lacks to reach operators, and the remedy. It may do without where only users are notified by it."""
        if self.email is not None and not self.email.to:
            return "has no addresses of operators: give its `to`"
        if self.slack is not None and not self.slack.channel:
            return "has no channel of operators: give its `channel`"
        return None

    def daily_limit(self, *, user: bool) -> int | None:
        """Messages a day to one recipient, the user of a job or operators; None is any number."""
        return self.limit or (_DAILY_LIMITS_OF_USERS if user else _DAILY_LIMITS).get(self.kind)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "none is given"
            raise ValueError(f"the receiver {self.name!r} is one of {', '.join(KINDS)}: {found}")
        return self
