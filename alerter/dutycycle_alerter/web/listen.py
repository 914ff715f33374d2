"""`[HOST]:PORT`: where to listen, and under which names a server that listens there is reached."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from dutycycle_alerter.errors import ConfigError

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """`host` empty is every interface; `port` 0 is any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """`127.0.0.1:9837`, `[::1]:9837`, `:9837`. Raises ConfigError."""
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match["port"]) > 65535:
            raise ConfigError(
                f"listen address {text!r} is not [HOST]:PORT; write it like 127.0.0.1:9837, [::1]:9837 or :9837"
            )
        return cls(match["v6"] or match["host"] or "", int(match["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names a request may be for; IP addresses and localhost need not be among them."""
        # Not the fully qualified name, which only DNS knows, and it may not answer: `allowed_hosts` is for that.
        return (self.host or socket.gethostname(),)

    def bind(self) -> socket.socket:
        """A listening socket. Raises ConfigError where the address cannot be had."""
        bound = self._bind()
        # Connections have it from the socket that accepts them. asyncio sets it only where a socket names its protocol,
        # which these do not, and an answer's body would wait 40 ms for the client to acknowledge the head.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A client that vanished, such as a laptop without network, does not keep its connection for ever.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return bound

    def _bind(self) -> socket.socket:
        try:
            if not self.host and socket.has_dualstack_ipv6():
                return socket.create_server(("", self.port), family=socket.AF_INET6, dualstack_ipv6=True)
            family, _, _, _, address = socket.getaddrinfo(
                self.host or "0.0.0.0",  # noqa: S104 - asked for by an empty host
                self.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )[0]
            return socket.create_server(address, family=family)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self}: {error.strerror or error}; choose another address with "
                "--web.listen-address (the page) or --web.health-listen-address (health and metrics)"
            ) from error
