"""Mails through a real server: who gets them, who has them already, and what the receipt says."""

from __future__ import annotations

import pytest

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.notify.model import Recipient, To
from tests.alerter.notify.mailing import (
    ALICE,
    OPERATORS_AT,
    Says,
    failure,
    item,
    parcel,
    receiver,
)
from tests.fakes.smtp import Fault, MailServer


def test_operators_are_mailed_at_their_addresses(mail_server: MailServer) -> None:
    receipt = receiver(mail_server, to=(*OPERATORS_AT, OPERATORS_AT[0])).deliver(parcel())
    [mail] = mail_server.messages
    assert mail.recipients == receipt.addresses == OPERATORS_AT
    assert mail.sender == "gpus@example.org"
    assert mail.message["To"] == ", ".join(OPERATORS_AT)
    assert not receipt.refused
    assert mail_server.commands[-1] == "QUIT"


def test_the_owner_is_mailed_at_their_own(mail_server: MailServer) -> None:
    receipt = receiver(mail_server).deliver(parcel(to=ALICE))
    assert mail_server.messages[0].recipients == receipt.addresses == ("alice@example.org",)
    assert mail_server.messages[0].message["To"] == "alice@example.org"


@pytest.mark.parametrize("user", ["", "a\r\nBcc: x@evil.org", "bob@evil.org", "x" * 1000, "\u202ebob"])
def test_an_owner_without_an_address_is_not_mailed_and_the_remedy_said(user: str, mail_server: MailServer) -> None:
    error = failure(mail_server, parcel(to=Recipient(To.OWNER, user)))
    assert error.permanent
    assert "notify.people.map_file" in str(error)
    assert (user[:5] or "nobody").split("\r")[0].replace("\u202e", "\ufffd") in str(error)
    assert not mail_server.connections


def test_without_addresses_of_operators_they_cannot_be_mailed(mail_server: MailServer) -> None:
    error = failure(mail_server, to=())
    assert error.permanent
    assert "`to`" in str(error)


def test_a_server_that_closes_among_the_recipients_is_understood(mail_server: MailServer) -> None:
    mail_server.refuse(OPERATORS_AT[1], "421 4.3.2 too many recipients")
    error = failure(mail_server, to=OPERATORS_AT)
    assert not error.permanent
    assert "421 4.3.2 too many recipients" in str(error)
    assert "DATA" not in mail_server.commands


def test_one_that_is_told_later_is_taken_the_next_time_under_the_same_id(mail_server: MailServer) -> None:
    mailer = receiver(mail_server)
    mail_server.next("MESSAGE", "451 4.7.1 greylisted, come back later")
    with pytest.raises(DeliveryError, match=r"451 4\.7\.1 greylisted") as caught:
        mailer.deliver(parcel())
    assert not caught.value.permanent
    mail_server.next("MESSAGE", Fault.DROP)
    with pytest.raises(DeliveryError) as caught:
        mailer.deliver(parcel(attempt=2))
    assert not caught.value.permanent
    mailer.deliver(parcel(attempt=3))
    lost, kept = mail_server.messages
    assert lost.content == kept.content


def test_bounces_at_rcpt_are_on_the_receipt_in_the_servers_words(mail_server: MailServer) -> None:
    mail_server.refuse(OPERATORS_AT[1], "550 5.1.1 <second@example.org>:\x1b[31m no\u202e such \xff" + "x" * 1000)
    mailer = receiver(mail_server, to=OPERATORS_AT)
    receipt = mailer.deliver(parcel())
    assert receipt.addresses == (OPERATORS_AT[0], OPERATORS_AT[2])
    assert list(receipt.refused) == [OPERATORS_AT[1]]
    words = receipt.refused[OPERATORS_AT[1]]
    assert words.startswith("550 5.1.1 <second@example.org>:␛[31m no\ufffd such ")
    assert words.isprintable()
    assert len(words) <= 120
    assert receipt.threads[12]["message_id"] == mail_server.messages[0].message["Message-ID"]


def test_refused_by_all_is_permanent_and_nothing_is_sent(mail_server: MailServer) -> None:
    addresses = tuple(f"u{number}@example.org" for number in range(50))
    for address in addresses:
        mail_server.refuse(address, f"550 5.1.1 {address} unknown " + "x" * 500)
    error = failure(mail_server, to=addresses)
    assert error.permanent
    assert "u0@example.org: 550 5.1.1" in str(error)
    assert "and 47 more" in str(error)
    assert "DATA" not in mail_server.commands


def test_those_who_took_it_are_not_mailed_again_while_others_are_waited_for(mail_server: MailServer) -> None:
    """Whichever alerter tries again: what is settled comes with the parcel."""
    first, second, third = OPERATORS_AT
    mail_server.refuse(second, "450 4.2.0 greylisted", "450 4.2.0 greylisted")
    mail_server.refuse(third, "550 5.1.1 no such user")
    error = failure(mail_server, to=OPERATORS_AT)
    identity = mail_server.messages[0].message["Message-ID"]
    assert str(error) == f"accepted for {first}, not yet for {second}: 450 4.2.0 greylisted"
    assert not error.permanent
    assert (error.addresses, error.refused) == ((first,), {third: "550 5.1.1 no such user"})
    assert error.threads[12]["message_id"] == identity
    settled = frozenset((first, third))
    again = failure(mail_server, parcel(attempt=2, settled=settled), to=OPERATORS_AT)
    assert str(again) == f"not yet for {second}: 450 4.2.0 greylisted"
    assert (again.addresses, again.refused, again.threads) == ((), {}, {})
    kept = item(thread=error.threads[12])
    receipt = receiver(mail_server, to=OPERATORS_AT).deliver(parcel(kept, attempt=3, settled=settled))
    assert (receipt.addresses, receipt.refused) == ((second,), {})
    assert receipt.threads == error.threads
    assert [mail.recipients for mail in mail_server.messages] == [(first,), (second,)]
    assert mail_server.messages[0].content == mail_server.messages[1].content
    assert mail_server.commands.count(f"RCPT TO:<{third}>") == 1


def test_one_that_refuses_beside_one_that_waits_is_settled(mail_server: MailServer) -> None:
    first, second, _ = OPERATORS_AT
    mail_server.refuse(first, "550 5.1.1 no such user")
    mail_server.refuse(second, "450 4.2.0 greylisted")
    error = failure(mail_server, to=OPERATORS_AT[:2])
    assert not error.permanent
    assert (error.addresses, list(error.refused), error.threads) == ((), [first], {})
    assert not mail_server.messages


@pytest.mark.parametrize("stage", ["MESSAGE", "RCPT"])
def test_what_was_taken_stays_so_when_the_rest_cannot_be_had(stage: str, mail_server: MailServer) -> None:
    first, second, _ = OPERATORS_AT
    mail_server.next(stage, "550 5.1.1 no")
    settled = frozenset((first,))
    receipt = receiver(mail_server, to=OPERATORS_AT[:2]).deliver(parcel(attempt=2, settled=settled))
    assert (receipt.addresses, receipt.threads) == ((), {})
    assert list(receipt.refused) == [second]
    assert "550 5.1.1 no" in receipt.refused[second]


def test_nobody_is_mailed_where_all_is_settled(mail_server: MailServer) -> None:
    """The addresses were others when it was tried first."""
    assert receiver(mail_server).deliver(parcel(settled=frozenset(OPERATORS_AT))).addresses == ()
    assert not mail_server.connections


def test_a_template_that_cannot_be_used_is_no_reason_to_lose_the_mail(mail_server: MailServer) -> None:
    error = failure(mail_server, composer=Says(ConfigError("templates/mail.html, line 3: unexpected }}")))
    assert not error.permanent
    assert "line 3" in str(error)
    assert not mail_server.connections


def test_a_server_says_how_large_a_mail_may_be(mail_server: MailServer) -> None:
    mail_server.size_limit = 100
    error = failure(mail_server, parcel(item()))
    assert error.permanent
    assert "552" in str(error)
    assert "DATA" not in mail_server.commands
