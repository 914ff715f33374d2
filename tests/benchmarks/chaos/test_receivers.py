"""Who sent a message is known by the address of its page, whatever the message was encoded as."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from benchmarks.chaos.receivers import read_text, sent_by

SENDERS = {"http://127.0.0.1:4000": "a", "http://127.0.0.1:40001": "b"}


@pytest.mark.parametrize("encoding", ["7bit", "quoted-printable", "base64"])
def test_a_mail_names_its_sender_in_its_links(encoding: str) -> None:
    mail = EmailMessage()
    link = "See http://127.0.0.1:40001/incidents/7, which is a line that is long enough for a mail to be broken in two."
    mail.set_content(f"{link}\n", cte=encoding)
    mail.add_alternative("<p>nothing</p>", subtype="html")
    assert sent_by(read_text(mail), SENDERS) == "b"


def test_what_has_no_link_says_nothing() -> None:
    assert sent_by(read_text(EmailMessage()), SENDERS) == ""
    assert sent_by("resolved", SENDERS) == ""
