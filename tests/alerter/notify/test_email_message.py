"""A mail's bytes as a mail program reads them: every header, the parts, threads, and text that wants to be a header."""

from __future__ import annotations

import re
from dataclasses import replace
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.incidents.model import OpenRule, Severity
from dutycycle_alerter.notify.links import Links, UnsubscribeLink
from dutycycle_alerter.notify.model import Mail, Parcel, Picture
from dutycycle_alerter.notify.receivers.email_message import message, message_id
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.notify.mailing import (
    ALICE,
    ALWAYS,
    AT,
    ENVELOPE,
    MIME,
    OF_INCIDENTS,
    PLAIN,
    PNG,
    Says,
    item,
    made,
    parcel,
    parsed,
    receiver,
    text_of,
)
from tests.fakes.smtp import MailServer

HOSTILE = (
    "a\r\nBcc: x@evil.org\r\n\r\n<b>",
    "a\nBcc: x@evil.org",
    "a\rBcc: x@evil.org",
    "=?utf-8?q?=0D=0ABcc:_x@evil.org?=",
    "\U0001f4a9 a =?UTF-8?Q?=0A?=Bcc: x@evil.org",
    "=?utf-8?b?DQpCY2M6IHhAZXZpbC5vcmc=?= =?x?q?=0a?=",
    "\u202ea\u2066b\u200fc",
    "\x00\x1b[31m\x7f\x85\u2028Bcc: x@evil.org\u2029\x0b\x0c\x1c",
    "a\ud800b",
    "Bcc: " * 200_000,
    "x" * 2**20,
    "é" * 2**18,
    "e" + "\u0301" * 1000,
    " \t ",
    "",
    ".",
    "..",
    "--=_",
)


def test_every_header_of_a_mail_to_operators(mail_server: MailServer) -> None:
    receiver(mail_server, reply_to="help@example.org").deliver(
        parcel(item(12), item(15, rule="hung", severity=Severity.CRITICAL), key="the key")
    )
    mail = parsed(mail_server.messages[0].content)
    identity = mail["Message-ID"]
    assert re.fullmatch(r"<[0-9a-f]{32}\.dutycycle@example\.org>", identity)
    digest = identity[1:33]
    assert mail.items() == [
        ("From", "Dutycycle <gpus@example.org>"),
        ("To", "ops@example.org"),
        ("Reply-To", "help@example.org"),
        ("Subject", "8 GPUs idle: job 4711"),
        ("Date", "Mon, 21 Sep 2026 14:13:20 +0000"),
        ("Message-ID", identity),
        ("Auto-Submitted", "auto-generated"),
        ("X-Auto-Response-Suppress", "DR, RN, NRN, OOF, AutoReply"),
        ("List-Id", "Dutycycle <ops-mail.dutycycle.example.org>"),
        ("X-Dutycycle-Kind", "incidents"),
        ("X-Dutycycle-Incidents", "12, 15"),
        ("X-Dutycycle-Rules", "idle, hung"),
        ("X-Dutycycle-Severity", "critical"),
        ("MIME-Version", "1.0"),
        ("Content-Type", f'multipart/alternative; boundary="=_{digest}_1"'),
    ]
    assert parsedate_to_datetime(mail["Date"]).timestamp() == AT


def test_text_html_and_pictures_arrive_as_they_were(mail_server: MailServer) -> None:
    receiver(mail_server).deliver(parcel())
    mail = parsed(mail_server.messages[0].content)
    assert [part.get_content_type() for part in mail.walk()] == [
        *("multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png")
    ]
    _, text, related, html, picture = mail.walk()
    assert text_of(text) == PLAIN.text
    assert related.get_boundary() == f"=_{mail['Message-ID'][1:33]}_2"
    reference = picture["Content-ID"].strip("<>")
    assert reference == f"plot-1.{mail['Message-ID'][1:-1]}"
    assert text_of(html) == f'<p>Idle</p><img src="cid:{reference}" alt="Utilization">\n'
    assert picture.get_content() == PNG
    assert picture["Content-Disposition"] == 'inline; filename="plot.png"'


def test_pictures_are_found_by_their_own_names() -> None:
    html = "<img src='cid:b'><img src=cid:bb><p>cid:b see cid:b >, \"cid:b c\"</p>"
    mail = Mail("s", "t", html, (Picture("b", PNG, ""), Picture("bb", PNG[:9], "")))
    content = made(mail=mail)
    _, _, _, shown, first, second = content.walk()
    one, other = (part["Content-ID"].strip("<>") for part in (first, second))
    assert text_of(shown) == f"<img src='cid:{one}'><img src=cid:{other}><p>cid:b see cid:b >, \"cid:{one} c\"</p>\n"
    assert (first.get_content(), second.get_content()) == (PNG, PNG[:9])


def test_without_pictures_there_is_nothing_related() -> None:
    assert [part.get_content_type() for part in made(mail=replace(PLAIN, pictures=())).walk()] == [
        *("multipart/alternative", "text/plain", "text/html")
    ]


def test_a_mail_is_the_same_at_every_attempt_and_another_for_another_key() -> None:
    def content(key: str, attempt: int) -> bytes:
        identity = message_id("ops", key, "gpus@example.org")
        return message(parcel(key=key, attempt=attempt), PLAIN, identity, ENVELOPE)

    assert content("a", 1) == content("a", 7) != content("b", 1)
    identities = {message_id(*of) for of in (("ops", "a", "g@b"), ("ops2", "a", "g@b"), ("ops", "a2", "g@b"))}
    assert len(identities) == 3


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_inert_wherever_it_is(text: str, mail_server: MailServer) -> None:
    composer = Says(Mail(text, text, text, (Picture(text[:99], PNG, text),)))
    hostile = item(rule=text[:300], thread={"message_id": text, "subject": text})
    sent = replace(hostile, incident=replace(hostile.incident, user=text, account=text))
    receipt = receiver(mail_server, composer=composer).deliver(parcel(sent, key=text))
    [received] = mail_server.messages
    mail = parsed(received.content)
    assert received.recipients == ("ops@example.org",)
    assert mail.keys() == ALWAYS + OF_INCIDENTS + MIME
    shown = " ".join(printable(text, 200).split()) or "Dutycycle"
    assert mail["Subject"] == shown
    assert mail["Subject"].isprintable()
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,55}", mail["X-Dutycycle-Rules"])
    expected = re.sub("\r\n?", "\n", text).encode("utf-8", "replace").decode()
    _, plain, _, _, picture = mail.walk()
    assert text_of(plain).rstrip("\n") == expected.rstrip("\n")
    assert picture.get_content() == PNG
    assert receipt.threads == {12: {"message_id": mail["Message-ID"], "subject": printable(text, 200)}}


@given(
    st.text()
    | st.lists(
        st.sampled_from(["=?utf-8?q?", "?=", "=0A", "\r\n", "\n", "Bcc: x@y", " ", "é", "\u202e", "a" * 70])
    ).map("".join)
)
def test_no_subject_makes_a_header_and_every_one_is_read_as_it_was_meant(text: str) -> None:
    mail = made(mail=Mail(text, "", ""))
    assert mail.keys() == ALWAYS + OF_INCIDENTS + MIME
    shown = " ".join(printable(text, 200).split()) or "Dutycycle"
    assert mail["Subject"] == shown


@given(st.text(), st.text(), st.text(), st.integers(min_value=0, max_value=10**15))
def test_no_word_of_an_incident_makes_a_header(rule: str, root: str, key: str, number: int) -> None:
    for thread in ({"message_id": root}, {"message_id": "<a@b>", "subject": root}):
        sent = parcel(item(number, rule=rule, thread=thread), key=key)
        names = made(sent).keys()
        assert [name for name in names if name not in ("In-Reply-To", "References")] == ALWAYS + OF_INCIDENTS + MIME


@given(st.text() | st.text(alphabet=st.characters(categories=["Cc", "Cs", "Zl", "Zp", "L"])), st.binary(max_size=99))
def test_text_of_any_kind_arrives(text: str, png: bytes) -> None:
    mail = made(mail=Mail("s", text, text, (Picture("p", png, ""),)))
    _, plain, _, html, picture = mail.walk()
    expected = re.sub("\r\n?", "\n", text).encode("utf-8", "replace").decode()
    assert text_of(plain).removesuffix("\n") == expected.removesuffix("\n")
    assert text_of(html).removesuffix("\n") == expected.removesuffix("\n")
    assert picture.get_content() == png


def test_headers_that_cannot_be_written_are_refused() -> None:
    """What is to be a header was made harmless before; this is the last door."""
    for sender in ("a@b\r\nBcc: x@evil.org", "a@b\n", "ä@b", "a@b\r\n \r\nBcc: x"):
        with pytest.raises(ValueError, match="not the value of a header: From"):
            made(sender=sender)


def test_many_recipients_and_incidents_stay_within_lines() -> None:
    to = tuple(f"{'x' * 60}{number}@example.org" for number in range(50))
    items = [item(10**12 + number, rule=f"rule-{number}") for number in range(1000)]
    mail = made(parcel(*items), recipients=to)
    assert mail["To"] == ", ".join(to)
    assert mail["X-Dutycycle-Incidents"].count(",") == 199


def test_the_sender_has_the_name_that_is_configured(mail_server: MailServer) -> None:
    receiver(mail_server, sender_name="GPU watch of HPC").deliver(parcel())
    assert mail_server.messages[0].message["From"] == "GPU watch of HPC <gpus@example.org>"


def test_pictures_whose_names_become_one_are_told_apart() -> None:
    html = "<img src='cid:a b'><img src='cid:a:b'>"
    content = made(mail=Mail("s", "t", html, (Picture("a b", PNG, ""), Picture("a:b", PNG[:9], ""))))
    _, _, _, shown, first, second = content.walk()
    one, other = (part["Content-ID"].strip("<>") for part in (first, second))
    assert one != other
    assert text_of(shown) == f"<img src='cid:{one}'><img src='cid:{other}'>\n"


def unsubscribing(
    server: MailServer, sent: Parcel, url: str = "https://gpus.example.org", **given: Any
) -> EmailMessage:
    """The mail; what its header says of unsubscribing, its composer was given to say."""
    composer = Says()
    receiver(server, composer=composer, links=Links(url, b"k" * 32), **given).deliver(sent)
    mail = parsed(server.messages[-1].content)
    assert composer.unsubscribe == (mail["List-Unsubscribe"] or "").strip("<>")
    return mail


def test_an_owner_may_unsubscribe_in_one_click(mail_server: MailServer) -> None:
    mail = unsubscribing(mail_server, parcel(to=ALICE))
    url = mail["List-Unsubscribe"].strip("<>")
    assert url.startswith("https://gpus.example.org/unsubscribe/")
    link = Links("", b"k" * 32).read(url.rpartition("/")[2], now=AT)
    assert isinstance(link, UnsubscribeLink)
    assert (link.receiver, link.user) == ("ops.Mail", "alice")
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


@pytest.mark.parametrize("why", ["operators", "critical", "settings", "no page", "unencrypted page"])
def test_what_cannot_be_unsubscribed_of_says_nothing_of_it(why: str, mail_server: MailServer) -> None:
    severity = Severity.CRITICAL if why == "critical" else Severity.WARNING
    items = (item(1), item(2, severity=severity, rules=(OpenRule("idle", AT, severity),)))
    sent = parcel(*items) if why == "operators" else parcel(*items, to=ALICE)
    url = {"no page": "", "unencrypted page": "http://gpus.example.org"}.get(why, "https://gpus.example.org")
    mail = unsubscribing(mail_server, sent, url, unsubscribe=why != "settings")
    assert [name for name in mail if name.startswith("List-")] == ["List-Id"]


@pytest.mark.parametrize(
    ("severity", "told", "offered"),
    [
        (Severity.CRITICAL, Attention.WARNING, True),
        (Severity.INFO, Attention.CRITICAL, False),
        (Severity.CRITICAL, None, False),
    ],
)
def test_an_owner_may_unsubscribe_of_what_is_not_critical_for_them(
    severity: Severity, told: Attention | None, mail_server: MailServer, *, offered: bool
) -> None:
    sent = parcel(item(1, severity=severity, rules=(OpenRule("idle", AT, severity, told),)), to=ALICE)
    mail = unsubscribing(mail_server, sent)
    assert ("List-Unsubscribe" in mail) is offered


@given(st.text())
def test_an_address_that_is_no_link_is_left_out(url: str) -> None:
    for one in (url, f"https://a/{url}"):
        found = made(unsubscribe=one)["List-Unsubscribe"]
        assert found in (None, f"<{one}>")
