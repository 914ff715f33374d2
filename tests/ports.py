"""Ports for programs that are told where to listen."""

from __future__ import annotations

import socket
from dataclasses import dataclass

HEALTH_PATHS = frozenset({"/-/healthy", "/-/ready", "/metrics"})
"""Paths that the alerter's health listener serves, and its page does not."""


def free_port() -> int:
    """A port on the loopback interface that nobody listens on, and that no other process of ours gets while this one
    lives: many nodes' exporters begin at once, each some time after its port was found.
    """
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = int(server.getsockname()[1])
            claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                # The same number of UDP, which nobody uses.
                claim.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
            # Kept until the process ends.
            claim.detach()
            return port


@dataclass(frozen=True)
class AlerterAddresses:
    """Where one alerter listens: HOST:PORT of its page, and of its health and metrics."""

    page: str
    health: str

    @classmethod
    def free(cls) -> AlerterAddresses:
        return cls(f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")

    @property
    def settings(self) -> dict[str, str]:
        """As keys of `web`."""
        return {"listen_address": self.page, "health_listen_address": self.health}

    @property
    def options(self) -> tuple[str, str]:
        """As options of `dutycycle serve` and `dutycycle up`."""
        return f"--web.listen-address={self.page}", f"--web.health-listen-address={self.health}"

    def url(self, path: str = "") -> str:
        """The URL of a path, at the listener that serves it."""
        return f"http://{self.health if path in HEALTH_PATHS else self.page}{path}"
