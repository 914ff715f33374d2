"""One mail's conversation with a mail server: bounded in time and size, and each answer understood for what it means.

A mistake of the configuration (a password, a sender that the server does not take, a certificate) is no reason to lose
mails: they are tried again until somebody has mended it.
"""

from __future__ import annotations

import base64
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from dutycycle_alerter.bounded_http import cut_off
from dutycycle_alerter.credentials import hidden, secret
from dutycycle_alerter.errors import DeliveryError, SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.notify.receivers import Email

_PORTS = {"none": 25, "starttls": 587, "tls": 465}
_LONGEST_LINE = 2000
_MOST_LINES = 100
_FAREWELL = 1.0
_WORDS, _LONGEST_ERROR = 120, 240
"""Characters of a server's words, and of what went wrong, that are kept: an error's remedy comes after them."""
_CLOSING, _LOGGED_IN, _CHALLENGE, _TOO_LARGE = 421, 235, 334, 552
_NO_ANSWER = -1

# Many servers say only at RCPT what they have against the client, its HELO, the sender, or relaying for it. A refusal
# is the recipient's own where it says so (RFC 3463), or has nothing but a reply code that is for mailboxes alone.
_MAILBOX = frozenset({550, 551, 552, 553})
_ENHANCED = re.compile(rb"5\.(\d{1,3})\.(\d{1,3})\b")
_OF_RECIPIENT, _OF_SENDER = (b"1", b"2"), ((b"1", b"7"), (b"1", b"8"))
_UNKNOWN_TO_EXCHANGE = (b"4", b"1")  # Exchange Online's "Recipient address rejected", an edge that knows its mailboxes
_US = rb"sender|relay|helo|authenticat"
_ABOUT_US = re.compile(_US + rb"|rcpthosts|#5\.[^12]", re.IGNORECASE)
_MENDABLE = "check sender, helo, and whether the server wants a username"

# Others say it only after the last byte: who may not send as whom, that a day's emails were sent, that a disk is full.
_OF_CONTENT, _MESSAGE_TOO_BIG = (*_OF_RECIPIENT, b"6", b"7"), (b"3", b"4")
_NOT_AS_SENDER = (b"2", b"252")  # Exchange Online's SendAsDenied
_ABOUT_SENDING = re.compile(_US + rb"|sending", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of each address. `refused` are those that will be again, `deferred` those to be tried later, both
    with the server's words, made printable.
    """

    taken: tuple[str, ...]
    refused: Mapping[str, str]
    deferred: Mapping[str, str]


def send(settings: Email, recipients: Sequence[str], message: bytes) -> Outcome:
    """Hand a message to the server, for those recipients whom it takes; for none of them nothing is sent. Raises
    DeliveryError: nobody got it, or nobody knows.
    """
    conversation = _Conversation(settings)
    try:
        return conversation.hold(recipients, message)
    except SourceError as error:
        raise DeliveryError(str(error)) from None
    except smtplib.SMTPResponseException as error:
        raise conversation.failure(error.smtp_code, error.smtp_error) from None
    except ssl.SSLCertVerificationError as error:
        said = f"its certificate is not trusted: {error.verify_message}; set ca_file to the authority that signed it"
        raise conversation.trouble(said) from None
    except ssl.SSLError as error:
        raise conversation.trouble(f"TLS failed: {error.reason}; check port and security") from None
    except (OSError, ValueError) as error:
        # smtplib's own errors are OSErrors; a host name that cannot be one is a ValueError.
        raise conversation.trouble(str(error)) from None


class _Conversation:
    def __init__(self, settings: Email) -> None:
        self._settings = settings
        self._port = settings.port or _PORTS[settings.security]
        self._step = "to connect"
        self._secrets: tuple[str, ...] = ()

    def hold(self, recipients: Sequence[str], message: bytes) -> Outcome:
        password = secret("password", self._settings.password, self._settings.password_file)
        client = _Client(self._settings, self._port, self._context())
        try:
            self._open(client)
            if password is not None:
                self._log_in(client, password)
            return self._hand_over(client, recipients, message)
        finally:
            client.leave()

    def trouble(self, said: str, *, permanent: bool = False) -> DeliveryError:
        words = printable(hidden(said, self._secrets), _LONGEST_ERROR)
        where = f"mail server {printable(self._settings.host)}:{self._port}"
        return DeliveryError(f"{where}: {words} (when asked {self._step})", permanent=permanent)

    def failure(self, code: int, said: object, remedy: str = "", *, permanent: bool = False) -> DeliveryError:
        return self.trouble(self._words(code, said) + (f"; {remedy}" if remedy else ""), permanent=permanent)

    def _context(self) -> ssl.SSLContext | None:
        if self._settings.security == "none":
            return None
        try:
            return ssl.create_default_context(cafile=self._settings.ca_file)
        except (OSError, ValueError) as error:
            raise self.trouble(f"ca_file {self._settings.ca_file}: not usable: {error}") from None

    def _open(self, client: _Client) -> None:
        self._step = "for its greeting"
        client.open()
        self._step = "what it can do"
        client.ehlo_or_helo_if_needed()
        if self._settings.security == "starttls":
            self._step = "to encrypt"
            if not client.has_extn("starttls"):
                raise self.trouble("does not offer STARTTLS; check port and security")
            client.encrypt()
            client.ehlo_or_helo_if_needed()

    def _log_in(self, client: _Client, password: str) -> None:
        self._step = "to log in"
        if not isinstance(client.sock, ssl.SSLSocket):
            raise self.trouble("a password is not sent unencrypted; check security")
        user = self._settings.username
        plain, name, word = (_base64(text) for text in (f"\0{user}\0{password}", user, password))
        self._secrets = plain, word, password
        # By hand: smtplib's login knows ASCII alone, and shows the password's place that is not.
        offered = client.esmtp_features.get("auth", "").upper().split()
        if "PLAIN" in offered:
            code, said = client.docmd("AUTH", f"PLAIN {plain}")
        elif "LOGIN" in offered:
            code, said = client.docmd("AUTH", "LOGIN")
            for answer in (name, word):
                if code == _CHALLENGE:
                    code, said = client.docmd(answer)
        else:
            raise self.trouble("offers no log-in with AUTH PLAIN or LOGIN; check port, security and username")
        if code != _LOGGED_IN:
            raise self.failure(code, said, "check username and password")

    def _hand_over(self, client: _Client, recipients: Sequence[str], message: bytes) -> Outcome:
        self._step = "to accept an email from the sender"
        size = [f"SIZE={len(message)}"] if client.has_extn("size") else []
        code, said = client.mail(self._settings.sender, size)
        if not _yes(code):
            # Whatever else it has against the sender, somebody can mend.
            raise self.failure(code, said, "" if code == _TOO_LARGE else _MENDABLE, permanent=code == _TOO_LARGE)
        taken: list[str] = []
        refused: dict[str, str] = {}
        deferred: dict[str, str] = {}
        self._step = "to accept its recipients"
        for address in recipients:
            code, said = client.rcpt(address)
            if code == _CLOSING:
                raise self.failure(code, said)
            words = self._words(code, said)
            if _yes(code):
                taken.append(address)
            elif not _permanent(code):
                deferred[address] = words
            elif _of_recipient(code, _bytes(said)):
                refused[address] = words
            else:
                deferred[address] = f"{words} ({_MENDABLE})"
        if taken:
            self._send(client, message)
        return Outcome(tuple(taken), refused, deferred)

    def _send(self, client: _Client, message: bytes) -> None:
        self._step = "to accept the email itself"
        try:
            code, said = client.data(message)
        except smtplib.SMTPDataError as error:
            code, said = error.smtp_code, _bytes(error.smtp_error)
        if not _yes(code):
            permanent = _permanent(code) and _of_email(code, _bytes(said))
            mendable = _permanent(code) and not permanent
            raise self.failure(code, said, _MENDABLE if mendable else "", permanent=permanent)

    def _words(self, code: int, said: object) -> str:
        text = " ".join(hidden(_bytes(said).decode("utf-8", "replace"), self._secrets).split())
        return printable(f"{code} {text}" if code != _NO_ANSWER else f"not an SMTP answer: {text}", _WORDS)


class _Client(smtplib.SMTP):
    """smtplib's, which takes as long and as much as the server likes, with an end to both."""

    def __init__(self, settings: Email, port: int, context: ssl.SSLContext | None) -> None:
        # Without a name smtplib asks DNS for one, for as long as that takes.
        super().__init__(local_hostname=settings.helo or settings.sender.rpartition("@")[2], timeout=settings.timeout)
        self._host = settings.host  # whom the certificate is for
        self._port = port
        self._context = context
        self._at_once = settings.security == "tls"
        self._raw: socket.socket | None = None
        self._limit = settings.timeout

    def open(self) -> None:
        code, said = self.connect(self._host, self._port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, said)

    def encrypt(self) -> None:
        with self._within():
            self.starttls(context=self._context)

    def leave(self) -> None:
        """What was accepted stays so whatever becomes of the farewell, and is not long waited for."""
        self._limit = min(self._limit, _FAREWELL)
        with suppress(OSError):
            self.docmd("QUIT")
        self.close()

    def close(self) -> None:
        super().close()
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def send(self, s: object) -> None:
        started = time.monotonic()
        try:
            with self._within():
                super().send(s)  # type: ignore[arg-type]
        except smtplib.SMTPServerDisconnected:
            raise self._gone(started) from None

    def getreply(self) -> tuple[int, bytes]:
        started = time.monotonic()
        if self.sock is None:
            raise self._gone(started)
        if self.file is None:
            self.file = self.sock.makefile("rb")
        line, lines = b"", list[bytes]()
        try:
            with self._within():
                while len(lines) < _MOST_LINES and (line := self.file.readline(_LONGEST_LINE)).endswith(b"\n"):
                    if not line[:3].isdigit():
                        break
                    lines.append(line[4:].strip())
                    if line[3:4] != b"-":
                        return int(line[:3]), b"\n".join(lines)
        except OSError:
            line = b""
        self.close()
        if len(lines) == _MOST_LINES or len(line) == _LONGEST_LINE:
            raise smtplib.SMTPResponseException(_NO_ANSWER, b"it does not end: " + line)
        if line and not self._late(started):
            raise smtplib.SMTPResponseException(_NO_ANSWER, line)
        raise self._gone(started)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        made = socket.create_connection((host, port), timeout)
        self._raw = made.dup()  # wrapping it in TLS takes the connection away from the object
        if not self._at_once or self._context is None:
            return made
        with self._within():
            return self._context.wrap_socket(made, server_hostname=host)

    def _within(self) -> AbstractContextManager[None]:
        return cut_off(self._limit, self._shut)

    def _shut(self) -> None:
        if self._raw is not None:
            self._raw.shutdown(socket.SHUT_RDWR)

    def _gone(self, started: float) -> smtplib.SMTPServerDisconnected:
        said = f"no answer within {self._limit:g} s" if self._late(started) else "closed the connection"
        return smtplib.SMTPServerDisconnected(said)

    def _late(self, started: float) -> bool:
        return time.monotonic() - started >= self._limit


def _yes(code: int) -> bool:
    return 200 <= code < 300


def _permanent(code: int) -> bool:
    return 500 <= code < 600


def _of_recipient(code: int, said: bytes) -> bool:
    """Whether a refusal at RCPT is of the recipient, and no matter of how this alerter is configured."""
    if _ABOUT_US.search(said):
        return False
    enhanced = _ENHANCED.match(said)
    if enhanced is None:
        return code in _MAILBOX
    detail = enhanced.groups()
    return detail == _UNKNOWN_TO_EXCHANGE or (enhanced[1] in _OF_RECIPIENT and detail not in _OF_SENDER)


def _of_email(code: int, said: bytes) -> bool:
    """Whether a refusal after DATA is of this email, and not of the sender, a quota, or how the server is today."""
    if code == _TOO_LARGE:
        return True
    if _ABOUT_SENDING.search(said):
        return False
    enhanced = _ENHANCED.match(said)
    if enhanced is None:
        return True
    detail = enhanced.groups()
    return detail == _MESSAGE_TOO_BIG or (enhanced[1] in _OF_CONTENT and detail not in (*_OF_SENDER, _NOT_AS_SENDER))


def _bytes(said: object) -> bytes:
    return said if isinstance(said, bytes) else str(said).encode("utf-8", "replace")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
