"""Conversations with a real mail server: encryption, log-in, refusals, stalls and broken connections."""

from __future__ import annotations

import socket
from base64 import b64encode
from pathlib import Path

import pytest

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.receivers.smtp import send
from dutycycle_alerter.settings.notify.receivers import Email
from tests.alerter.notify.mailing import (
    OPERATORS_AT,
    PASSWORD,
    failure,
    parcel,
    receiver,
    secret_file,
)
from tests.fakes.smtp import Fault, MailServer


@pytest.mark.parametrize("mechanisms", [("PLAIN",), ("LOGIN",), ("LOGIN", "PLAIN")])
def test_starttls_and_a_password_that_is_read_anew(
    mechanisms: tuple[str, ...], mail_server: MailServer, mail_certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    mail_server.users, mail_server.mechanisms = {"dutycycle": PASSWORD}, mechanisms
    file = secret_file(tmp_path, "old\n")
    tls = {"security": "starttls", "ca_file": mail_certificate[0]}
    mailer = receiver(mail_server, username="dutycycle", password_file=file, **tls)
    with pytest.raises(DeliveryError) as caught:
        mailer.deliver(parcel())
    assert not caught.value.permanent
    assert "535" in str(caught.value)
    assert "check username and password" in str(caught.value)
    secret_file(tmp_path, f"{PASSWORD}\n")
    mailer.deliver(parcel())
    [mail] = mail_server.messages
    assert mail.encrypted
    assert mail.user == "dutycycle"
    assert [line.split()[0] for line in mail_server.commands[-8:]] == [
        *("EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "QUIT")
    ]


def test_tls_from_the_beginning(
    tls_mail_server: MailServer, mail_certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    tls_mail_server.users = {"dutycycle": PASSWORD}
    given = {"username": "dutycycle", "password_file": secret_file(tmp_path, PASSWORD)}
    receiver(tls_mail_server, security="tls", ca_file=mail_certificate[0], **given).deliver(parcel())
    assert tls_mail_server.messages[0].encrypted
    assert tls_mail_server.messages[0].user == "dutycycle"


def test_without_encryption_no_password_leaves(mail_server: MailServer, tmp_path: Path) -> None:
    """Neither where the server withholds STARTTLS, nor where the settings were not checked."""
    mail_server.users = {"dutycycle": PASSWORD}
    given = {"username": "dutycycle", "password_file": secret_file(tmp_path, PASSWORD)}
    mail_server.starttls = False
    error = failure(mail_server, security="starttls", **given)
    assert "does not offer STARTTLS" in str(error)
    assert not error.permanent
    unchecked = Email(host=mail_server.host, port=mail_server.port, security="tls", timeout=20, **given)  # type: ignore[arg-type]
    with pytest.raises(DeliveryError, match="a password is not sent unencrypted"):
        send(unchecked.model_copy(update={"security": "none"}), ["a@example.org"], b"")
    assert not any(line.startswith(("AUTH", "MAIL")) for line in mail_server.commands)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_certificate_of_somebody_else_is_not_trusted(
    security: str, mail_server: MailServer, tls_mail_server: MailServer, mail_certificate: tuple[Path, Path]
) -> None:
    server = tls_mail_server if security == "tls" else mail_server
    error = failure(server, security=security)
    assert "certificate is not trusted" in str(error)
    assert "ca_file" in str(error)
    error = failure(server, security=security, ca_file=mail_certificate[0], host="localhost")
    assert "Hostname mismatch" in str(error)
    assert not server.messages


@pytest.mark.parametrize("content", [None, "", "not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_an_authority_that_is_none_is_named(content: str | None, mail_server: MailServer, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "ca").write_text(content)
    for name, shown in (("ca", "ca"), ("\u202eac", "\ufffdac")):
        error = failure(mail_server, security="starttls", ca_file=tmp_path / name)
        assert f"ca_file {tmp_path / shown}: not usable" in str(error)
    assert not error.permanent


@pytest.mark.parametrize("content", [None, b"", b"a\nb\n", b"\xff\xfe"])
def test_a_password_file_that_is_none_is_named(content: bytes | None, mail_server: MailServer, tmp_path: Path) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    error = failure(mail_server, security="starttls", username="dutycycle", password_file=path)
    assert str(path) in str(error)
    assert not error.permanent
    assert not mail_server.connections


def test_what_the_server_says_of_the_password_is_not_repeated(
    mail_server: MailServer, mail_certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    mail_server.users = {"dutycycle": PASSWORD}
    plain = b64encode(f"\0dutycycle\0{PASSWORD}".encode()).decode()
    given = {"username": "dutycycle", "password_file": secret_file(tmp_path, PASSWORD)}
    given |= {"security": "starttls", "ca_file": mail_certificate[0]}
    for stage in ("AUTH", "MAIL", "RCPT", "MESSAGE"):
        mail_server.next(stage, f"535 no: {plain} {b64encode(PASSWORD.encode()).decode()} {PASSWORD}\r")
        error = failure(mail_server, **given)
        assert "no: *** *** ***" in str(error)
        assert plain not in str(error)


def test_a_server_without_a_way_to_log_in_is_named(
    mail_server: MailServer, mail_certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    mail_server.mechanisms = ()
    given = {"username": "dutycycle", "password_file": secret_file(tmp_path, PASSWORD)}
    error = failure(mail_server, security="starttls", ca_file=mail_certificate[0], **given)
    assert "offers no log-in with AUTH PLAIN or LOGIN" in str(error)


@pytest.mark.parametrize(
    ("stage", "answer", "permanent"),
    [
        ("CONNECT", "421 4.3.2 too busy", False),
        ("CONNECT", "554 5.7.1 no service for you", False),
        ("EHLO", "421 4.3.2 going down", False),
        ("MAIL", "451 4.3.0 later", False),
        ("MAIL", "530 5.7.0 Must issue a STARTTLS command first", False),
        ("MAIL", "550 5.7.1 sender is not yours", False),
        ("MAIL", "552 5.3.4 too large", True),
        ("RCPT", "421 4.3.2 going down", False),
        ("RCPT", "450 4.2.0 greylisted", False),
        ("RCPT", "550 5.1.1 no such user", True),
        ("RCPT", "550 5.1.10 has null MX", True),
        ("RCPT", "552 5.2.2 full", True),
        ("RCPT", "550 5.4.1 Recipient address rejected: Access denied", True),
        ("RCPT", "550 no such user here", True),
        ("RCPT", "551 user not local", True),
        ("RCPT", "530 5.7.0 Authentication required", False),
        ("RCPT", "530 log in first", False),
        ("RCPT", "535 5.7.8 bad credentials", False),
        ("RCPT", "504 5.5.2 <gpus>: Helo command rejected", False),
        ("RCPT", "521 5.3.2 does not accept mail", False),
        ("RCPT", "521 does not accept mail", False),
        ("RCPT", "554 5.7.1 Client host rejected", False),
        ("RCPT", "554 5.7.1 Relay access denied", False),
        ("RCPT", "554 no", False),
        ("RCPT", "553 5.7.1 Sender address rejected: not logged in", False),
        ("RCPT", "550 5.1.0 Sender address rejected: User unknown", False),
        ("RCPT", "550 5.1.8 Domain not found", False),
        ("RCPT", "550 5.7.1 Unable to relay", False),
        ("RCPT", "550 relay not permitted", False),
        ("RCPT", "553 sorry, that domain isn't here (#5.7.1)", False),
        ("DATA", "451 4.3.0 later", False),
        ("DATA", "554 5.5.1 no valid recipients", False),
        ("DATA", "554 no", True),
        ("MESSAGE", "421 4.3.2 going down", False),
        ("MESSAGE", "451 4.3.0 later", False),
        ("MESSAGE", "452 4.3.1 full", False),
        ("MESSAGE", "550 5.7.1 looks like spam", True),
        ("MESSAGE", "554 rejected due to spam content", True),
        ("MESSAGE", "550 5.2.2 mailbox over quota", True),
        ("MESSAGE", "550 daily sending limit reached", False),
        ("MESSAGE", "554 5.2.252 SendAsDenied; gpus@example.org not allowed to send as other@example.org", False),
        ("MESSAGE", "550 5.7.60 client does not have permissions to send as this sender", False),
        ("MESSAGE", "550 5.7.26 blocked because the sender is unauthenticated", False),
        ("MESSAGE", "550 5.4.5 Daily user sending limit exceeded", False),
        ("MESSAGE", "550 5.1.8 bad sender's system", False),
        ("MESSAGE", "554 5.3.0 internal error", False),
        ("MESSAGE", "552 5.3.4 too large", True),
        ("MESSAGE", "554 5.6.0 no", True),
        ("MESSAGE", "999 nonsense", False),
    ],
)
def test_each_refusal_is_permanent_or_not(stage: str, answer: str, permanent: bool, mail_server: MailServer) -> None:
    if stage == "CONNECT":
        mail_server.next(stage, answer)
    else:
        mail_server.next(stage, *[answer] * 2)
    error = failure(mail_server)
    assert error.permanent is permanent
    assert answer.split(maxsplit=1)[1][:20] in str(error) or stage == "EHLO"
    assert not mail_server.messages
    mail_server.behave()
    assert receiver(mail_server).deliver(parcel()).addresses == OPERATORS_AT[:1]


@pytest.mark.parametrize("stage", ["CONNECT", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "MESSAGE"])
@pytest.mark.parametrize("fault", [Fault.DROP, Fault.GARBAGE, Fault.ENDLESS_LINE, Fault.ENDLESS_LINES])
def test_a_conversation_that_breaks_is_held_again(
    stage: str, fault: Fault, mail_server: MailServer, mail_certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    mail_server.users = {"dutycycle": PASSWORD}
    given = {"username": "dutycycle", "password_file": secret_file(tmp_path, PASSWORD)}
    mail_server.next(stage, fault)
    error = failure(mail_server, security="starttls", ca_file=mail_certificate[0], **given)
    assert not error.permanent
    assert not error.threads
    assert "mail server 127.0.0.1:" in str(error)
    expected = {
        Fault.DROP: ("closed the connection", "reset"),
        Fault.GARBAGE: ("not an SMTP answer: ␀",),
        Fault.ENDLESS_LINE: ("does not end",),
        Fault.ENDLESS_LINES: ("does not end",),
    }
    assert any(words in str(error) for words in expected[fault])


@pytest.mark.parametrize("stage", ["CONNECT", "EHLO", "MAIL", "DATA", "MESSAGE"])
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP])
def test_a_server_that_stalls_is_left(stage: str, fault: Fault, mail_server: MailServer) -> None:
    """Also one that sends a byte now and then, which never exceeds a socket's own time-out."""
    mail_server.next(stage, fault)
    error = failure(mail_server, timeout=0.2)
    assert "no answer within 0.2 s" in str(error)
    assert not error.permanent


def test_a_handshake_that_stalls_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = Email(host="127.0.0.1", port=silent.getsockname()[1], security="tls", timeout=0.2)
        with pytest.raises(DeliveryError) as caught:
            send(settings, ["a@example.org"], b"")
    assert not caught.value.permanent


@pytest.mark.parametrize("act", [*Fault, "500 what", "221 bye"])
def test_what_was_taken_stays_so_whatever_the_farewell_is(act: Fault | str, mail_server: MailServer) -> None:
    mail_server.next("QUIT", act)
    assert receiver(mail_server).deliver(parcel()).addresses == OPERATORS_AT[:1]
    assert len(mail_server.messages) == 1


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 1), ("nobody.invalid", 25), ("a..b", 25), ("x" * 255, 25), ("a\0b", 25)]
)
def test_a_server_that_is_not_there_is_asked_again(host: str, port: int) -> None:
    with pytest.raises(DeliveryError) as caught:
        send(Email(host=host, port=port, security="none", timeout=5), ["a@example.org"], b"")
    assert not caught.value.permanent
    assert f":{port}: " in str(caught.value)
    assert str(caught.value).isprintable()


def test_tls_on_a_port_that_speaks_plainly_is_said(mail_server: MailServer) -> None:
    assert "check port and security" in str(failure(mail_server, security="tls"))


def test_what_the_server_has_against_us_is_said_with_a_remedy_and_keeps_no_recipient_from_their_mail(
    mail_server: MailServer,
) -> None:
    first, second, third = OPERATORS_AT
    mail_server.refuse(second, "554 5.7.1 <second@example.org>: Relay access denied")
    mail_server.refuse(third, "550 5.1.1 no such user")
    error = failure(mail_server, to=OPERATORS_AT)
    assert (error.addresses, list(error.refused)) == ((first,), [third])
    assert f"not yet for {second}: 554 5.7.1" in str(error)
    assert "check sender, helo, and whether the server wants a username" in str(error)


@pytest.mark.parametrize(("given", "said"), [({}, "example.org"), ({"helo": "gpus.example.com"}, "gpus.example.com")])
def test_the_name_that_is_said_first_needs_no_look_up(
    given: dict[str, str], said: str, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: pytest.fail("DNS was asked, without a time-out"))
    receiver(mail_server, **given).deliver(parcel())
    assert mail_server.commands[0] == f"EHLO {said}"
