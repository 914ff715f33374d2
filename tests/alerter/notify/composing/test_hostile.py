"""Names, notes and reasons are whatever somebody typed: in every format they are shown, and do nothing."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import Cause, Diagnosis, Incident, Resolution, Severity, State
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.composing.voices import MRKDWN, mrkdwn
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind, Recipient, Telling, To
from dutycycle_alerter.settings.notify import News
from tests.alerter.notify.composing.parcels import NOW, composition, resolved
from tests.alerter.web.html import Element, parse
from tests.fakes.slack.rendering import mentions, seen

HOSTILE = {
    "promql": 'x"} or vector(1) # {{a=~".*"}}',
    "template": "{{ 7*7 }}{% include 'mail.html.j2' %}{{ config.__class__ }}",
    "script": "<script>alert(1)</script>",
    "attribute": "\"><img src=x onerror=alert(1)>'",
    "entities": "&lt;b&gt; &amp;amp; &#60;",
    "cid": "cid:incident-7",
    "headers": "job\r\nBcc: everybody@example.org\r\n\r\nbody",
    "address": "=?utf-8?q?Bcc=3A?= <a@b.example>",
    "mention": "<!channel> <!here|here> <@U012AB3CD> <!subteam^S0> @channel @here @everyone",
    "link": "<https://evil.example|click> https://evil.example www.evil.example mailto:a@b.example",
    "formatting": "*bold* _italic_ ~gone~ `code` ```block``` > quote",
    "fence": "``` <!channel> ```",
    "emoji": ":tada: :white_check_mark::skin-tone-2:",
    "ansi": "\x1b[31mred\x1b[0m \x9b31m \x07",
    "newlines": "a\nb\r\nc\x0bd\x0ce\x85f\u2028g\u2029h\ttab",
    "direction": "\u202egnp.exe\u202c \u2066\u200f\u061c",
    "nul": "a\x00b",
    "surrogate": "user\ud800\udfff\udc00",
    "invisible": "a\u200bb\u2060c\ufeffd\u00ade",
    "marks": "z" + "\u0336\u0489" * 300,
    "shell": "$(reboot) `reboot`; reboot | reboot",
    "format": "%s %(x)s {0} {x!r} %n",
    "long": "<&>*_`" * 2000,
    "space": " ",
}
COMPOSER = composition()


def incident(text: str, *, about: str = "job") -> Incident:
    """One in which every piece of text from outside is `text`."""
    gpus = tuple(Gpu(f"{text}{n}", text, text, model=text, workload=f"k8s/{text}/{text}/{n}") for n in range(6))
    return Incident(
        id=7,
        subject=f"k8s/{text}/Pod/{text}/uid" if about == "job" else f"gpu/{text}/{text}",
        rule="idle" if about == "job" else "gpu_fault",
        severity=Severity.CRITICAL,
        state=State.ACKNOWLEDGED,
        started_at=NOW - 7200,
        opened_at=NOW - 5400,
        updated_at=NOW,
        diagnosis=Diagnosis(
            (Cause.NO_PROCESS, Cause.CPU_ONLY),
            (text, f"held by {text}"),
            (text, "x"),
            "one; two",
            (text, "nvidia-smi", "scancel 1"),
        ),
        gpus=gpus,
        rules=(),
        kind="efficiency" if about == "job" else "gpu_fault",
        actor=text,
        job_gpus=8,
        cluster=text,
        scheduler="k8s",
        user=text,
        account=text,
        partition=text,
        namespace=text,
        wasted=7200.0,
        energy=3.6e6,
    )


def parcels(text: str) -> list[Parcel]:
    """Of every kind, with `text` wherever something may be from outside."""
    tellings = (
        Telling(News.UPDATED, NOW, text, text),
        Telling(News.UPDATED, NOW, f"note: {text}"),
        Telling(News.OPENED, NOW, "", text),
    )
    one = incident(text)
    over = replace(resolved(one), resolution=Resolution.OPERATOR)
    items = (Item(one, tellings), Item(replace(over, id=8), (Telling(News.RESOLVED, NOW, text, text),)))
    owner, kind = Recipient(To.OWNER, text), ParcelKind.INCIDENTS
    return [
        Parcel("1", kind, owner, items[:1], NOW),
        Parcel("2", kind, OPERATORS, items[1:], NOW),
        Parcel("3", kind, OPERATORS, (Item(incident(text, about="gpu"), tellings),), NOW),
        Parcel("4", kind, OPERATORS, items, NOW),
        Parcel("5", ParcelKind.DIGEST, owner, items * 6, NOW),
    ]


PLAIN = parcels("plain")


def _tricks(text: str) -> list[str]:
    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")]


def _shape(page: Element) -> list[tuple[str, tuple[str, ...]]]:
    """Elements and attributes; a link or a command may be left out where a name cannot stand in it."""
    return [
        (element.tag, tuple(sorted(element.attributes)))
        for element in page.walk()
        if element.tag not in ("a", "pre", "p")
    ]


def _only_ours(page: Element) -> None:
    for element in page.walk():
        assert not [name for name in element.attributes if name.startswith("on")]
        for name in ("href", "src"):
            target = element.attributes.get(name, "https://")
            ours = target.startswith(("https://gpus.example.org/", "https://grafana."))
            assert ours or target in ("https://", "cid:incident-7")


def check_mail(parcel: Parcel, plain: Parcel) -> None:
    mail, known = COMPOSER.mail(parcel), COMPOSER.mail(plain)
    assert not _tricks(mail.subject)
    assert "\n" not in mail.subject
    assert len(mail.subject) <= 160
    assert not _tricks(mail.text)
    assert not _tricks(mail.html)
    page = parse(mail.html)
    assert _shape(page) == _shape(parse(known.html))
    _only_ours(page)
    assert len(mail.html) < 100_000
    assert len(mail.text) < 30_000


def check_slack(parcel: Parcel) -> None:
    message = COMPOSER.slack(parcel)
    for found in mentions(message):
        assert found.kind == "link"
        assert found.target.startswith(("https://gpus.example.org/", "https://grafana.example.org/"))
    assert not _tricks(seen(message).replace("\n", " "))
    assert not _tricks(message.text)
    assert "\n" not in message.text
    for item in parcel.items[:2]:
        reply = COMPOSER.slack_reply(item, parcel.to)
        assert mentions(reply) == ()
        assert not _tricks(reply)
        assert len(reply) <= 3000


def check_plain(parcel: Parcel) -> None:
    brief = COMPOSER.brief(parcel)
    assert not _tricks(brief.title + brief.text + brief.url)
    assert "\n" not in brief.title
    assert len(brief.text) < 10_000
    for item in parcel.items[:2]:
        said = COMPOSER.annotations(item.incident)
        assert all(re.fullmatch("[a-z_]+", name) for name in said)
        assert not _tricks("".join(said.values()))
        assert len("".join(said.values())) < 10_000


@pytest.mark.parametrize("name", HOSTILE)
def test_known_attacks_are_inert_in_every_format(name: str) -> None:
    for parcel, plain in zip(parcels(HOSTILE[name]), PLAIN, strict=True):
        check_mail(parcel, plain)
        check_slack(parcel)
        check_plain(parcel)


def test_a_megabyte_of_text_is_cut_in_every_format() -> None:
    one = parcels("<&>*_`" * 170_000)[0]
    check_mail(one, PLAIN[0])
    check_slack(one)
    check_plain(one)


_ANY = st.text(st.characters(codec=None), min_size=1, max_size=200)
_SYMBOLS = st.text("<>&|!@#*_~`:;'\"{}%/\\= \n\r\x1b\u202e\ud800aA1", min_size=1, max_size=80)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=_ANY | _SYMBOLS)
def test_no_text_does_anything_in_any_format(text: str) -> None:
    for parcel, plain in zip(parcels(text)[:2], PLAIN[:2], strict=True):
        check_mail(parcel, plain)
        check_slack(parcel)
        check_plain(parcel)


@pytest.mark.parametrize("name", HOSTILE)
def test_json_is_json_and_keeps_text_as_it_is(name: str) -> None:
    text = HOSTILE[name]
    said = json.loads(json.dumps(COMPOSER.document(parcels(text)[0])))
    assert said["items"][0]["incident"]["user"] == text.encode("utf-8", "replace").decode()
    json.dumps(said).encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train_v2", "train_v2"),
        ("_train_", "\u02cdtrain\u02cd"),
        ("a*b*", "a\u2217b\u2217"),
        ("<!channel>", "&lt;!channel&gt;"),
        ("a & b", "a &amp; b"),
        ("gpu1:0, gpu1:1", "gpu1:0, gpu1:1"),
        (":tada:", "\u2236tada:"),
        ("me@here.example", "me\uff20here.example"),
        ("`x`", "\u02cbx\u02cb"),
    ],
)
def test_names_in_mrkdwn_read_as_they_are(text: str, shown: str) -> None:
    assert mrkdwn(text) == shown


@pytest.mark.parametrize("line", ["rm\nrf", "x" * 700, "a\u202eb", "echo `date`"])
def test_a_command_that_cannot_be_said_exactly_is_left_out(line: str) -> None:
    assert MRKDWN.command(line) is None


def test_a_command_is_said_exactly() -> None:
    line = 'for pid in $(pgrep -u "$(id -u)" python); do py-spy dump --pid "$pid"; done # *_~ <a> & b'
    said = MRKDWN.command(line)
    assert said is not None
    assert said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == line


def test_a_link_that_would_end_early_is_left_out() -> None:
    assert [MRKDWN.link(url) for url in ("https://a.example/|x", "javascript:alert(1)", "https://a/>", "")] == [""] * 4
