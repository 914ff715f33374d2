"""A PromQL engine: where it is, how to get in, and what of it is ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from dutycycle_alerter.promql.text import parse_matcher
from dutycycle_alerter.settings.types import Duration, RealDuration, Secret, Section, Whole

_OURS = frozenset({"query", "time", "timeout"})
_OUR_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)


def _base_url(url: str) -> str:
    remedy = "a URL like http://prometheus:9090 or https://mimir.example.org/prometheus"
    if not re.fullmatch(r"https?://[^\s/?#\\][^\s\\]*", url):
        raise ValueError(f"expected {remedy}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"no valid host and port; expected {remedy}") from None
    if not parts.hostname or port == 0:
        raise ValueError(f"no valid host and port; expected {remedy}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user in the URL would be logged: give username and password_file")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("ends at the path: parameters belong under params")
    if re.search(r"/api/v1(/|$)", parts.path):
        raise ValueError("ends before /api/v1, which is added")
    return url.rstrip("/")


def _matcher(text: str) -> str:
    return str(parse_matcher(text))


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError("not the name of a header")
    if name.lower() in _OUR_HEADERS:
        raise ValueError("this header is set by the request itself")
    return name


def _parameter(name: str) -> str:
    if not name or name in _OURS:
        raise ValueError("query, time and timeout are set by the request itself" if name else "a parameter has a name")
    return name


_Matchers = tuple[Annotated[str, AfterValidator(_matcher)], ...]


class Prometheus(Section):
    """A PromQL engine: Prometheus, Thanos, Mimir, VictoriaMetrics."""

    url: Annotated[str, AfterValidator(_base_url)] = "http://127.0.0.1:9090"
    """Its address up to /api/v1, such as http://thanos:10902, https://mimir/prometheus or
    http://vmselect:8481/select/0/prometheus.
    """
    bearer_token: Secret | None = None
    """A token sent as `Authorization: Bearer`."""
    bearer_token_file: Path | None = None
    """The file that holds it, read for every query."""
    username: str = Field(default="", max_length=256)
    """The user for basic authentication."""
    password: Secret | None = None
    """The user's password."""
    password_file: Path | None = None
    """The file that holds it, read for every query."""
    headers: dict[Annotated[str, AfterValidator(_header_name)], Secret] = Field(default={})
    """Further headers, such as X-Scope-OrgID for Mimir's tenant. Their values are not shown."""
    params: dict[Annotated[str, AfterValidator(_parameter)], str] = Field(default={})
    """Further parameters of every query. They replace those that ask Thanos and VictoriaMetrics for the whole truth:
    `partial_response: "false"`, `deny_partial_response: "1"`, `nocache: "1"`.
    """
    ca_file: Path | None = None
    """Certificates (PEM) of those who may have signed the server's, instead of the system's."""
    cert_file: Path | None = None
    """The certificate (PEM) to show to the server."""
    key_file: Path | None = None
    """Its key (PEM, not encrypted), where that is not in the same file."""
    server_name: str = Field(default="", max_length=253)
    """The name that the server's certificate must have, where it is not the URL's."""
    insecure_skip_verify: bool = False
    """Take any certificate for the server's: for trying things out."""
    timeout: RealDuration = 60
    """How long one query may take, the whole answer included. The engine is asked to give up a little earlier."""
    pass_timeout: RealDuration = 120
    """How long all queries of one pass may take together. What has no answer by then is unknown until the next pass. A
    quarter of it is kept for usage.
    """
    max_bytes: Whole = Field(default=2**30, ge=2**16)
    """An answer that is larger than this, unpacked, is refused."""
    scrape_interval: Duration = 15
    """How often the engine scrapes the exporters: the exporter's --series-hold is twice this."""
    matchers: _Matchers = ()
    """What every series must fulfil beside its name, such as `cluster="a"`."""
    shards: _Matchers = ()
    """Every query is asked once with each of these, such as `node=~"a.*"` and `node!~"a.*"`: for fleets that are too
    large for one answer. Together they must match every node, and no node twice.
    """
    recorded: bool = False
    """Whether the engine evaluates our recording rules, so that their series can be read instead."""
    metrics: Literal["dutycycle", "dcgm"] = "dutycycle"
    """Whose metrics they are: our exporter's, or dcgm-exporter's."""

    @model_validator(mode="after")
    def _no_conflicts(self) -> Self:
        for one, other in (("bearer_token", "bearer_token_file"), ("password", "password_file")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} exclude each other: remove one")
        bearer = self.bearer_token is not None or self.bearer_token_file is not None
        password = self.password is not None or self.password_file is not None
        if bearer and self.username:
            raise ValueError("bearer_token and username exclude each other: remove one")
        if password and not self.username:
            raise ValueError("password is given, but no username")
        if self.username and not password:
            raise ValueError("username is given, but neither password nor password_file")
        if ":" in self.username:
            raise ValueError("username: basic authentication has no names with a colon")
        if (bearer or self.username) and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("headers.Authorization and bearer_token or username exclude each other: remove one")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is given, but no cert_file")
        self._tls_only()
        return self

    def _tls_only(self) -> None:
        if self.url.startswith("https:"):
            return
        for key in ("ca_file", "cert_file", "server_name", "insecure_skip_verify"):
            if getattr(self, key):
                raise ValueError(f"{key} means nothing for {self.url.partition(':')[0]}: the url must begin with https")
