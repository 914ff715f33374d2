"""People of a site with log-in, and what they send."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlencode

import urllib3

from dutycycle_alerter.settings.web import Auth
from tests.alerter.web.conftest import Client

SECRETS = {name: f"{name}-{name[0] * 24}" for name in ("olga", "vic", "alice", "bob")}
ROLES = {"olga": "operator", "vic": "viewer", "alice": "own", "bob": "own"}
TOKENS = [{"name": name, "role": ROLES[name], "token": secret} for name, secret in SECRETS.items()]
AUTH = Auth.model_validate({"tokens": TOKENS})


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


@dataclass
class Browser:
    """Keeps cookies, and sends forms with the token of the page that it has loaded last."""

    client: Client
    cookies: dict[str, str] = field(default_factory=dict)
    token: str = ""

    def send(
        self, method: str, path: str, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()), **(headers or {})}
        body = None
        if fields is not None:
            body = urlencode(fields)
            sent = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.client.url.rstrip("/")} | sent
        answer = self.client.request(method, path, body=body, headers=sent)
        for cookie in answer.headers.getlist("set-cookie"):
            name, _, value = cookie.split(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        found = re.search(r'name="token" value="([^"]+)"', answer.data.decode())
        if found:
            self.token = found[1]
        return answer

    def get(self, path: str) -> urllib3.BaseHTTPResponse:
        return self.send("GET", path)

    def post(self, path: str, **fields: str) -> urllib3.BaseHTTPResponse:
        return self.send("POST", path, {"token": self.token, **fields})

    def log_in(self, secret: str, following: str = "/") -> urllib3.BaseHTTPResponse:
        self.get("/login")
        return self.post("/login", secret=secret, next=following)


def logged_in(client: Client, name: str) -> Browser:
    browser = Browser(client)
    assert browser.log_in(SECRETS[name]).status == 303
    return browser
