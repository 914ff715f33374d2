"""Which mail answers which, and under what subject: what mail programs show as one conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dutycycle_alerter.notify.model import Parcel, ParcelKind
from tests.alerter.notify.mailing import (
    ALWAYS,
    AT,
    MIME,
    OF_INCIDENTS,
    PLAIN,
    Says,
    item,
    made,
    parcel,
    parsed,
    receiver,
)
from tests.fakes.smtp import MailServer


def test_what_follows_answers_the_mail_that_told_first(mail_server: MailServer) -> None:
    mailer = receiver(mail_server)
    threads = dict(mailer.deliver(parcel(item(1), item(2), key="first")).threads)
    first = mail_server.messages[0].message["Message-ID"]
    assert threads == {1: {"message_id": first}, 2: {"message_id": first}}

    later = mailer.deliver(parcel(item(2, threads[2]), item(3), key="second")).threads
    second = mail_server.messages[1].message
    assert second["In-Reply-To"] == second["References"] == first
    assert later == {2: {"message_id": first}, 3: {"message_id": second["Message-ID"]}}

    mailer.deliver(parcel(item(3, later[3]), item(1, threads[1]), item(2, later[2]), key="third"))
    third = parsed(mail_server.messages[2].content)
    assert third["In-Reply-To"] == second["Message-ID"]
    assert third["References"].split() == [first, second["Message-ID"]]

    mailer.deliver(parcel(item(1, threads[1]), key="first"))
    assert "References" not in mail_server.messages[3].message


def test_an_answer_has_the_subject_of_what_it_answers(mail_server: MailServer) -> None:
    """Else Gmail shows each as a conversation of its own."""
    composer = Says()
    mailer = receiver(mail_server, composer=composer)
    threads = mailer.deliver(parcel(item(1), key="first")).threads
    composer.said = replace(PLAIN, subject="Critical: 8 GPUs idle: job 4711")
    for key in ("second", "third"):
        threads = mailer.deliver(parcel(item(1, threads[1]), key=key)).threads
    mailer.deliver(parcel(item(1, threads[1]), key="first"))  # for somebody who was put off
    mailer.deliver(parcel(item(1, threads[1]), item(2), key="fourth"))
    subjects = [received.message["Subject"] for received in mail_server.messages]
    assert subjects == [PLAIN.subject, *[f"Re: {PLAIN.subject}"] * 2, PLAIN.subject, composer.said.subject]


@pytest.mark.parametrize("subject", ["", 7, None, ["x"]])
def test_a_subject_that_is_none_is_forgotten(subject: Any) -> None:
    assert made(parcel(item(1, {"message_id": "<a@b>", "subject": subject})))["Subject"] == PLAIN.subject


@pytest.mark.parametrize("kind", [ParcelKind.DIGEST, ParcelKind.REPORT, ParcelKind.TEST])
def test_digests_reports_and_tests_answer_nothing(kind: ParcelKind) -> None:
    items = () if kind is not ParcelKind.DIGEST else (item(1, {"message_id": "<a@b>"}),)
    sent = Parcel("k", kind, parcel().to, items, AT)
    mail = made(sent)
    assert mail.keys() == ALWAYS + (OF_INCIDENTS if items else []) + MIME
    assert mail["X-Dutycycle-Kind"] == kind.value


@pytest.mark.parametrize(
    "root",
    ["", "a@b", "<a@b", "<a b@c>", "<a@b> <c@d>", "<a@b>\r\nBcc: x", "<ä@b>", "<a>", f"<{'x' * 500}@b>", 7, None],
)
def test_a_root_that_is_none_is_forgotten(root: Any, mail_server: MailServer) -> None:
    receipt = receiver(mail_server).deliver(parcel(item(1, {"message_id": root})))
    mail = mail_server.messages[0].message
    assert "In-Reply-To" not in mail
    assert receipt.threads[1] == {"message_id": mail["Message-ID"], "subject": PLAIN.subject}
