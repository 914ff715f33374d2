"""What was sent is evidence as people read it, whatever it was encoded as; who sent it is known by its links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest

from benchmarks.chaos import clocks
from benchmarks.chaos.certificates import Authority
from benchmarks.chaos.clocks import SteppedClock
from benchmarks.chaos.promises import Violation
from benchmarks.chaos.receivers import SINKS, Receivers, mailed, posted, sent_by
from benchmarks.chaos.record import Taken
from dutycycle_alerter.notify.routing import Routing
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify.routes import News
from tests.alerter.notify.alerting import incident
from tests.fakes.smtp.server import Received

from .evidence import clean, violations

SENDERS = {"http://127.0.0.1:4000": "a", "http://127.0.0.1:40001": "b"}
ERASES, FORGED, SECRET = "\x1b[2J", "\nFORGED", "xoxb-" + "0123456789" * 9
ENCODINGS = ["quoted-printable", "base64"]


def mail(text: str = "idle", html: str = "<p>idle</p>", subject: str = "idle", encoding: str = "base64") -> Taken:
    made = EmailMessage(policy=SMTP)
    made["Message-ID"], made["Subject"] = "<1@example.org>", subject
    made.set_content(f"{text}\n", cte=encoding)
    made.add_alternative(html, subtype="html", cte=encoding)
    return mailed(Received("from", ("to",), made.as_bytes(), (), True, ""), 1500.0)


def post(text: str) -> Taken:
    """A message of which a block has this text."""
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return posted({"ts": "1500.0", "text": "idle", "blocks": [{"type": "divider"}, section]})


def found(taken: Taken) -> list[Violation]:
    """What is wrong with a message of which nothing else is known."""
    return violations(
        replace(
            clean(),
            taken=(*clean().taken, replace(taken, key="")),
            secrets=(SECRET,),
            hostile=("<img",),
            unprintable=(ERASES, FORGED),
        )
    )


@pytest.mark.parametrize("encoding", ["7bit", *ENCODINGS])
def test_a_mail_names_its_sender_in_its_links(encoding: str) -> None:
    link = "See http://127.0.0.1:40001/incidents/7, which is a line that is long enough for a mail to be broken in two."
    assert sent_by(mail(link, encoding=encoding), SENDERS) == "b"


def test_a_slack_message_names_its_sender_in_its_blocks() -> None:
    assert sent_by(post("<http://127.0.0.1:4000/incidents/7|Details>"), SENDERS) == "a"


def test_what_has_no_link_says_nothing() -> None:
    assert sent_by(mail(), SENDERS) == sent_by(post("resolved"), SENDERS) == ""


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("word", [ERASES, FORGED, SECRET])
@pytest.mark.parametrize("part", ["text", "html"])
def test_what_must_not_be_in_a_mail_is_found_however_it_was_encoded(encoding: str, word: str, part: str) -> None:
    said = {part: f"{'a line that is long enough for a mail to be broken ' * 3}{word} here"}
    promise = "secrets are kept" if word == SECRET else "untrusted text does nothing"
    assert [one.promise for one in found(mail(**said, encoding=encoding))] == [promise]


def test_an_encoded_subject_is_read_too() -> None:
    assert [one.promise for one in found(mail(subject=f"{SECRET} ü"))] == ["secrets are kept"]


@pytest.mark.parametrize("word", [ERASES, FORGED, SECRET, "<!channel>"])
def test_what_must_not_be_in_a_block_is_found(word: str) -> None:
    promise = "secrets are kept" if word == SECRET else "untrusted text does nothing"
    assert [one.promise for one in found(post(f"trudy{word} is idle"))] == [promise]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>&lt;img/src=x/onerror=alert(1)&gt;</p>", []),
        ("<p><img/src=x/onerror=alert(1)></p>", ["<img is there as it is"]),
        ('<p><img src="cid:usage-1.1@example.org" width="480"></p>', []),
    ],
)
def test_markup_of_a_name_in_the_html_of_a_mail_is_found_and_its_own_pictures_are_none(
    html: str, expected: list[str]
) -> None:
    assert [one.evidence for one in found(mail(html=html))] == expected


def test_in_the_text_of_a_mail_markup_is_text() -> None:
    assert found(mail("<img/src=x/onerror=alert(1)>")) == []


@pytest.mark.parametrize("harmless", [mail, lambda: post("idle")])
def test_a_message_with_nothing_of_it_violates_nothing(harmless: Callable[[], Taken]) -> None:
    assert found(harmless()) == []


def test_an_alerter_takes_the_settings_and_tells_everybody_of_everything(tmp_path: Path) -> None:
    with SteppedClock(tmp_path / "clock", clocks.build(tmp_path)) as clock:
        authority = Authority(tmp_path / "certificates", clock)
        with Receivers(tmp_path, authority) as receivers:
            notify = Settings.model_validate({"notify": receivers.settings()}).notify
    assert {one.name for one in notify.receivers} == SINKS.keys()
    routing = Routing(notify)
    told = {where.receiver.name: where.news for where in routing.operators(incident())}
    assert told.keys() == SINKS.keys()
    assert all({News.OPENED, News.REOPENED, News.ESCALATED, News.RESOLVED} <= news for news in told.values())
