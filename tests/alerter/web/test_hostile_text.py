"""Names of jobs, users and nodes are whatever somebody typed: they are shown, and do nothing."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.notify.links import Action, Links
from dutycycle_alerter.notify.model import OPERATORS, Recipient, To
from dutycycle_alerter.printable import printable
from dutycycle_alerter.web.app import create_app
from tests.alerter.web.conftest import KEY, Client, serving
from tests.alerter.web.doubles import NOW, FixedReader, full_reader
from tests.alerter.web.html import Element, parse

Serve = Callable[..., Client]
READ = ("/?state=all", "/incidents/7", "/expectations", "/users", "/gpus")
LINKS = Links("http://127.0.0.1", KEY)
NAMED = "<b>\u202ea\n&amp;"
PAGES = (
    *READ,
    *(
        urlsplit(url).path
        for url in (
            LINKS.action(7, Action.INTENDED, OPERATORS, now=NOW),
            LINKS.action(7, Action.SNOOZE, OPERATORS, now=NOW),
            LINKS.unsubscribe(NAMED, NAMED, now=NOW),
        )
    ),
)
API = (
    "/api/v1/incidents",
    "/api/v1/incidents/7",
    "/api/v1/expectations",
    "/api/v1/users",
    "/api/v1/gpus",
    "/api/v1/status",
    "/api/v1/reports/users",
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</title><script>alert(1)</script>",
    "{{ 7*7 }}{% include 'base.html' %}",
    "javascript:alert(1)",
    "a\nb\r\nc\td\x00e\x1b[31mf",
    "\u202egnp.exe\u2066\u200f\u2028",
    "user@evil\ud800",
    "Ω" * 5000 + "<b>" * 1000,
    "z" + "\u0336\u0489" * 500,
    " ",
    "../../etc/passwd",
    "&lt;b&gt; &amp;amp;",
    "%s %(x)s {0} {x!r}",
]


class Site:
    """One server whose reader's text can be exchanged."""

    def __init__(self, client: Client, reader: FixedReader) -> None:
        self.client, self._reader = client, reader
        self.plain = {path: self.page(path, "plain") for path in PAGES}

    def _show(self, text: str) -> None:
        for name, value in vars(full_reader(text)).items():
            setattr(self._reader, name, value)

    def page(self, path: str, text: str) -> str:
        self._show(text)
        return self.client.page(path)

    def answer(self, path: str, text: str) -> object:
        self._show(text)
        return json.loads(self.client.page(path))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    reader = FixedReader()
    app = create_app(reader, reader, clock=lambda: NOW, zone=UTC, key=KEY, public_url="http://127.0.0.1")
    with serving(app) as client:
        yield Site(client, reader)


def check_page(page: str, plain: str) -> None:
    """The page has exactly the elements that it has with plain text, and no character that plays tricks."""
    shown, expected = parse(page), parse(plain)
    assert _tags(shown) == _tags(expected)
    for element in shown.walk():
        assert not [name for name in element.attributes if name.startswith("on") or name == "style"]
        assert not element.attributes.get("href", "/").startswith("javascript:")
    tricks = [c for c in page if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn") and c != "\n"]
    assert not tricks


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("path", PAGES, ids=range(len(PAGES)))
def test_known_attacks_are_shown_as_text(site: Site, path: str, text: str) -> None:
    page = site.page(path, text)
    check_page(page, site.plain[path])
    assert len(page) < 120_000


@pytest.mark.parametrize("text", [NAMED, *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_a_link_of_somebody_whose_name_is_an_attack_shows_it_as_text(site: Site, text: str) -> None:
    """Their own job's; a name that no address can carry has no link."""
    mine, plain = (
        urlsplit(LINKS.action(7, Action.SNOOZE, Recipient(To.OWNER, name), now=NOW)).path for name in (text, "plain")
    )
    if mine:
        check_page(site.page(mine, text), site.page(plain, "plain"))
    else:
        assert not text.isprintable() or len(text) > 255


_ANY = st.text(st.characters(codec=None), min_size=1, max_size=300)
_TOGETHER = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@_TOGETHER
@given(text=_ANY | st.sampled_from(HOSTILE) | st.text("<>\"'&{}%/\\= \n\u202e", min_size=1, max_size=60))
def test_no_text_changes_the_structure_of_a_page(site: Site, text: str) -> None:
    for path in READ:
        check_page(site.page(path, text), site.plain[path])


@_TOGETHER
@given(text=_ANY | st.sampled_from(HOSTILE))
def test_the_api_gives_text_as_it_is(site: Site, text: str) -> None:
    """But for what cannot be written in UTF-8."""
    said = text.encode("utf-8", "replace").decode()
    for path in API:
        assert said in _strings(site.answer(path, text))


def _tags(page: Element) -> list[str]:
    """Every element; but links to a user's incidents are left out: not every name can stand in an address."""
    return [e.tag for e in page.walk() if not (e.tag == "a" and "user=" in e.attributes.get("href", ""))]


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


@given(st.text(st.characters(codec=None)))
def test_printable_shows_every_character_in_one_line(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(c)[0] != "C" and unicodedata.category(c) not in ("Zl", "Zp") for c in shown)
    assert len(shown) <= len(text)
    assert printable(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == text


@given(st.text(), st.integers(1, 50))
def test_printable_keeps_to_its_limit(text: str, limit: int) -> None:
    assert len(printable(text, limit)) <= limit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a␊b"),
        ("\x1b[31m", "␛[31m"),
        ("\x7f\x85", "\ufffd\ufffd"),
        ("a\u00a0b\u3000c", "a b c"),
        ("abc\u202edef", "abc\ufffddef"),
        ("Ångström 大 é", "Ångström 大 é"),
        ("e\u0301", "e\u0301"),
        ("z\u0336\u0336\u0336\u0336\u0336", "z\u0336\u0336\u0336"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_what_is_typed_into_the_filter_comes_back_as_text(serve: Serve) -> None:
    page = parse(serve(FixedReader()).page("/?user=%22%3E%3Cscript%3E&text=%3C/form%3E&rule=%3Cb%3E"))
    values = [field.attributes.get("value") for field in page.all("input")]
    assert '"><script>' in values
    assert "</form>" in values
    assert "<b>" in [option.attributes["value"] for option in page.all("option")]
    assert not page.all("script")
