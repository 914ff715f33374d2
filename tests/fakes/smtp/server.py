"""A mail server (aiosmtpd) that keeps what it accepts, and refuses, stalls and breaks off where it is told to."""

from __future__ import annotations

import asyncio
import email.policy
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.message import EmailMessage
from enum import Enum
from pathlib import Path
from typing import Any, Self

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

_STAGES = ("EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "RSET", "QUIT")


class Fault(Enum):
    """What a server may do instead of answering."""

    DROP = "close the connection"
    HANG = "answer nothing"
    GARBAGE = "answer what is not SMTP"
    ENDLESS_LINE = "answer with a line that does not end"
    ENDLESS_LINES = "answer with lines that do not end"
    DRIP = "answer a byte at a time, for ever"


Act = str | Fault


@dataclass(frozen=True)
class Received:
    """A mail that the server took. `content` is as it came, without the dots of the transport."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    options: tuple[str, ...]
    encrypted: bool
    user: str

    @property
    def message(self) -> EmailMessage:
        """It, parsed."""
        parsed = email.message_from_bytes(self.content, policy=email.policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed


class MailServer:
    """Listens on `host` and `port` while it is entered. Its settings count for the next connection.

    `certificate` is its chain and key, with which it offers STARTTLS, or speaks TLS from the beginning (`tls`).
    Stages at which it can be told what to do: CONNECT, EHLO, STARTTLS, AUTH, MAIL, RCPT, RSET, QUIT, DATA (in the
    middle of the mail) and MESSAGE (after its end: the mail is kept where it is a fault, as nobody hears of it).
    """

    host = "127.0.0.1"

    def __init__(self, certificate: tuple[Path, Path] | None = None, *, tls: bool = False) -> None:
        self.port = 0
        self.starttls = certificate is not None and not tls
        """Whether it offers STARTTLS."""
        self.users: dict[str, str] = {}
        """Passwords; where there are any, nobody else may mail."""
        self.mechanisms: tuple[str, ...] = ("LOGIN", "PLAIN")
        """What AUTH offers."""
        self.size_limit = 2**25
        """Bytes of a mail."""
        self.messages: list[Received] = []
        """What it accepted."""
        self.commands: list[str] = []
        """The lines of all conversations, without mails and passwords."""
        self.connections = 0
        self._tls = tls
        self._context = _context(certificate)
        self._next: defaultdict[str, deque[Act]] = defaultdict(deque)
        self._always: dict[str, Act] = {}
        self._recipients: dict[str, deque[str] | str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.BaseTransport] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def next(self, stage: str, *acts: Act) -> None:
        """What it does at a stage, in turn, before it behaves again."""
        self._next[stage].extend(acts)

    def always(self, stage: str, act: Act | None) -> None:
        """What it does at a stage from now on; None: it behaves."""
        if act is None:
            self._always.pop(stage, None)
        else:
            self._always[stage] = act

    def refuse(self, address: str, *answers: str) -> None:
        """What it says of a recipient: one answer always, several in turn; none: it takes them."""
        self._recipients[address] = answers[0] if len(answers) == 1 else deque(answers)

    def behave(self) -> None:
        """Forget what it was told to do, and what it received."""
        self._next.clear()
        self._always.clear()
        self._recipients.clear()
        self.users, self.mechanisms, self.size_limit = {}, ("LOGIN", "PLAIN"), 2**25
        self.starttls = self._context is not None and not self._tls
        self.messages, self.commands, self.connections = [], [], 0

    def act(self, stage: str) -> Act | None:
        waiting = self._next[stage]
        return waiting.popleft() if waiting else self._always.get(stage)

    def about(self, address: str) -> str | None:
        said = self._recipients.get(address)
        if isinstance(said, deque):
            return said.popleft() if said else None
        return said

    def opened(self, transport: asyncio.BaseTransport) -> None:
        self._open.add(transport)

    def _run(self, what: Awaitable[None]) -> None:
        asyncio.run_coroutine_threadsafe(_awaited(what), self._loop).result(30)

    async def _listen(self) -> None:
        context = self._context if self._tls else None
        self._listening = await self._loop.create_server(lambda: _Protocol(self, self._loop), self.host, 0, ssl=context)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        assert self._listening is not None
        self._listening.close()
        for transport in self._open:
            transport.abort()  # type: ignore[attr-defined]
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' farewells

    @property
    def context(self) -> ssl.SSLContext | None:
        """What STARTTLS is done with."""
        return self._context if self.starttls else None


class _Protocol(SMTP):
    def __init__(self, server: MailServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        super().__init__(
            _Hooks(server),
            loop=loop,
            hostname="mail.example.org",
            ident="test",
            enable_SMTPUTF8=False,
            data_size_limit=server.size_limit,
            tls_context=server.context,
            authenticator=self._judge,
            auth_exclude_mechanism={"LOGIN", "PLAIN"} - set(server.mechanisms),
        )
        # The constructor warns of what a connection that is TLS from its beginning needs.
        self._auth_required = bool(server.users)
        self._auth_require_tls = server.context is not None
        for stage in _STAGES:
            self._smtp_methods[stage] = self._staged(stage, self._smtp_methods[stage])
        self._smtp_methods["DATA"] = self._in_the_middle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._server.opened(transport)
        super().connection_made(transport)

    async def _handle_client(self) -> None:
        self._server.connections += 1
        try:
            act = self._server.act("CONNECT")
            if act is None:
                await super()._handle_client()
            else:
                await self.perform(act)
                if isinstance(act, str):
                    await self._reader.readline()
                    await self.push("221 2.0.0 bye")
                    self._writer.close()
        except (ConnectionError, asyncio.CancelledError):
            self._writer.close()

    async def push(self, status: str | bytes) -> None:
        await super().push(status.encode("utf-8", "surrogateescape") if isinstance(status, str) else status)

    async def perform(self, act: Act) -> None:
        if isinstance(act, str):
            await self.push(act)
            if act.startswith("421"):
                self.transport.close()
        elif act is Fault.DROP:
            self.transport.abort()
        elif act is Fault.GARBAGE:
            await self.push(b"\x00\xff\x1b[31mHTTP/1.1 400 Bad Request\r\n\xe2\x80\xaeContent-Type: text/html")
        else:
            while act is not Fault.HANG:
                endless = {Fault.ENDLESS_LINE: b"x" * 65536, Fault.ENDLESS_LINES: b"250-more\r\n" * 1000}
                self._writer.write(endless.get(act, b"2"))
                await self._writer.drain()
                await asyncio.sleep(0.02 if act is Fault.DRIP else 0)
            await asyncio.Event().wait()

    def _staged(self, stage: str, method: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        async def staged(argument: str) -> None:
            self._server.commands.append(f"{stage} {'' if stage == 'AUTH' else argument or ''}".strip())
            act = self._server.act(stage)
            await (method(argument) if act is None else self.perform(act))

        return staged

    async def _in_the_middle(self, argument: str) -> None:
        self._server.commands.append("DATA")
        act = self._server.act("DATA")
        if act is None:
            await self.smtp_DATA(argument)
            return
        if not isinstance(act, str):
            await self.push("354 go on")
            await self._reader.readline()
        await self.perform(act)

    def _judge(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        right = self._server.users.get(data.login.decode()) == data.password.decode()
        return AuthResult(success=right, handled=False, auth_data=data)


class _Hooks:
    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        said = self._server.about(address)
        if said is None or said.startswith("2"):
            envelope.rcpt_tos.append(address)
        return said or "250 2.1.5 ok"

    async def handle_DATA(self, protocol: _Protocol, session: Any, envelope: Any) -> str:  # noqa: N802
        act = self._server.act("MESSAGE")
        if isinstance(act, str):
            return act
        login = session.auth_data.login.decode() if session.authenticated else ""
        encrypted = protocol.transport.get_extra_info("ssl_object") is not None
        self._server.messages.append(
            Received(
                envelope.mail_from,
                tuple(envelope.rcpt_tos),
                envelope.original_content,
                tuple(envelope.mail_options),
                encrypted,
                login,
            )
        )
        if act is not None:
            await protocol.perform(act)
        return f"250 2.0.0 kept as {len(self._server.messages)}"


def _context(certificate: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def _awaited(what: Awaitable[None]) -> None:
    await what
