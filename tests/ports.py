"""Ports for programs that are told where to listen."""

from __future__ import annotations

import socket


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
