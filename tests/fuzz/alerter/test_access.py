"""By what somebody gets in, or we get in elsewhere: tokens, sessions, hosts, kubeconfigs, services of Apprise."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

from hypothesis import assume, example
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.kubernetes.access import Access
from dutycycle_alerter.notify.receivers.apprise import AppriseReceiver, _named
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from dutycycle_alerter.settings.notify import Apprise
from dutycycle_alerter.settings.web import Auth, Token
from dutycycle_alerter.web.access.gate import Gate
from dutycycle_alerter.web.access.sessions import COOKIE, Sessions
from dutycycle_alerter.web.access.tokens import Tokens
from dutycycle_alerter.web.access.visitor import NotLoggedInError, TooManyAttemptsError
from dutycycle_alerter.web.guard import host_name
from dutycycle_alerter.web.login import _here
from tests.alerter.notify.listening import PlainComposer
from tests.fuzz.hostile import documents, jsons, texts
from tests.fuzz.running import fuzz

NOW = 1_800_000_000.0
SECRET = "hunter2-do-not-show-this-to-anybody"
ADA = Token(name="ada", role="operator", token=SECRET)  # type: ignore[arg-type]
BOB = Token(name="bob the operator", token=f"{SECRET}-of-bob")  # type: ignore[arg-type]
SESSIONS = Sessions(Tokens([ADA, BOB]), bytes(range(32)), 3600.0)
COOKIES = (
    SESSIONS.begun(ADA, SECRET, now=NOW),
    SESSIONS.begun(BOB, f"{SECRET}-of-bob", now=NOW),
    SESSIONS.begun(ADA, "another-token-than-it-has-now", now=NOW),
)


@fuzz(cookie=texts(COOKIES, tokens=["A", "=", "==", "_", "-", "A" * 44]), after=st.sampled_from([0.0, 3599.0, 3601.0]))
@example(cookie=COOKIES[0], after=0.0)
@example(cookie=COOKIES[2], after=0.0)
def test_no_session_but_a_genuine_one_is_somebodys(cookie: str, after: float) -> None:
    found = SESSIONS.read(cookie, now=NOW + after)
    genuine = COOKIES[:2].index(cookie) if cookie in COOKIES[:2] and after < 3600 else None
    assert found == (None if genuine is None else (ADA, BOB)[genuine])


SHOWN = (f"Bearer {SECRET}", f"bearer  {SECRET} ", "Basic YTpi", "Bearer", f"Negotiate {SECRET}", "")


@fuzz(
    headers=st.lists(texts(SHOWN, tokens=[SECRET, "Bearer", "ada"]), max_size=2),
    cookies=texts([f"{COOKIE}={COOKIES[0]}; a=b", f'{COOKIE}="x"'], tokens=[COOKIE, f"{COOKIE}=", ";"]),
    presented=texts([SECRET, f"{SECRET}-of-bob"]),
)
def test_who_shows_no_token_of_ours_is_nobody(headers: list[str], cookies: str, presented: str) -> None:
    gate = Gate(Auth(tokens=(ADA, BOB), anonymous="none"), bytes(range(32)), lambda: NOW)
    given = [("authorization", text) for text in headers] + [("cookie", cookies)]
    raw = [(name.encode(), text.encode("utf-8", "surrogatepass")) for name, text in given]
    scope: dict[str, Any] = {"type": "http", "headers": raw, "client": ("10.0.0.1", 1), "scheme": "http"}
    try:
        found = gate.known(HTTPConnection(scope))
    except (NotLoggedInError, TooManyAttemptsError) as error:
        assert SECRET not in str(error)
    else:
        own = COOKIES[0] in cookies or any(SECRET in text for text in headers)
        assert found is None or (own and found.name in ("ada", "bob the operator"))
    try:
        assert presented in (SECRET, f"{SECRET}-of-bob") or not gate.log_in(HTTPConnection(scope), presented)
    except NotLoggedInError as error:
        assert SECRET not in str(error)


@fuzz(path=texts(["/incidents/7?a=b#c", "//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example/"]))
def test_a_log_in_leads_to_a_path_of_this_site(path: str) -> None:
    here = _here(path)
    assert here.startswith("/")
    assert here[1:2] not in ("/", "\\")
    assert here.isascii()
    assert not set(here) & set(" \r\n\t")


@fuzz(host=texts(["gpus.example.org:9837", "[::1]:9837", "127.0.0.1", "a_b.example"], tokens=["[", "]", ":80", "@"]))
def test_a_host_is_a_name_or_none(host: str) -> None:
    name = host_name(host)
    assert name.isascii()
    assert name == name.lower()
    assert name in host.lower()
    assert all(character.isalnum() or character in "._-:" for character in name)


USER = {"name": "me", "user": {"token": SECRET}}
CLUSTER = {"name": "one", "cluster": {"server": "https://cluster.example:6443", "insecure-skip-tls-verify": True}}
CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [CLUSTER],
    "users": [USER],
    "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me", "namespace": "ml"}}],
    "current-context": "here",
}
HOSTS = ('"https://[::1"', '"https://a:b@[::1"', '"https://c:x"', '"ftp://c"')
RAW = (*HOSTS, '"me"', '"here"', '"one"', '{"username":"a","password":"b"}', '{"tokenFile":"/nowhere"}')


@fuzz(content=jsons([CONFIG], raw=RAW) | documents([json.dumps(CONFIG).encode()], tokens=[b"&a", b"*a", b"- "]))
def test_a_kubeconfig_is_a_configuration_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "kubeconfig"
    # What nests deep takes the official client's YAML as long as it takes: to the cluster's time-out at most.
    assume(not re.search(rb"[\[{]{30}|(\{\"a\":){30}", content))
    # A program for credentials would be run: what that says is another test's.
    path.write_bytes(content.replace(b"exec", b"").replace(b"auth-provider", b""))
    # Names are told.
    assume(not re.search(rb'"(current-context|name|cluster|user)": "' + SECRET.encode(), content))
    try:
        found = Access(KubernetesCluster(kubeconfig=path, timeout=60.0))
    except ConfigError as error:
        assert str(error).startswith(f"kubernetes.kubeconfig {path}: "), "names the file"
        assert SECRET not in str(error)
        assert len(str(error)) < 2000
        assert str(error).isprintable()
        return
    assert SECRET not in found.shown + found.note()
    found.close()


URLS = (
    f"json://user:{SECRET}@localhost:9/path?+X-Token={SECRET}",
    f"slack://{SECRET}/B12345678/aaaaaaaaaaaaaaaaaaaaaaaa/#general",
    f"mailto://user:{SECRET}@mail.example?to=a@example.org",
    f"tgram://123456789:{SECRET}/12315544/",
)


@fuzz(url=texts(URLS, tokens=["://", "%00", "?", "@", ":99999", "[::1", "file:///etc/passwd", "xml://", "+"]))
@example(url="tgram://12:/")
def test_a_service_of_apprise_is_known_or_refused_without_its_secrets(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the services, all of which it imports
        try:
            AppriseReceiver("chat", Apprise(urls=(url,)), PlainComposer())  # type: ignore[arg-type]
        except ValidationError as error:
            told = error.errors(include_url=False, include_input=False)
            assert SECRET not in str(told), "as a configuration's errors are told"
        except ConfigError as error:
            assert str(error).startswith("receiver chat: Apprise")
            assert "service 1" in str(error)
            assert SECRET not in str(error)
            assert str(error).isprintable()
    name = _named(1, url)
    assert name.isprintable()
    assert SECRET not in name
    assert len(name) < 50
