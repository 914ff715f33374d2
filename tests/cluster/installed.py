"""Slurm whose nodes are machines of their own, where slurmd runs, and the prolog and the epilog that it is told."""

from __future__ import annotations

import re
import signal
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.slurm.cluster import NODES, Cluster

from .machines import Machine

HEAD = "head"
OURS = "PrologFlags=Alloc\nProlog=/etc/slurm/prolog.d/*\nEpilog=/etc/slurm/epilog.d/*\n"
_TAKEN = ("PrologFlags=", "Prolog=", "Epilog=")


class InstalledCluster(Cluster):
    """Nothing of ours is in its configuration until it is written there. `machines` has the nodes and a head."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.machines = {name: self._stack.enter_context(Machine(name)) for name in (*NODES, HEAD)}
        self.addresses = {node: f"127.0.1.{10 + number}" for number, node in enumerate(NODES)}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)

    def __enter__(self) -> Self:
        return super().__enter__()

    @property
    def conf(self) -> Path:
        return self.directory / "slurm.conf"

    def _configure(self) -> None:
        super()._configure()
        lines = [line for line in self.conf.read_text().splitlines() if not line.startswith(_TAKEN)]
        text = "\n".join([*lines, ""])
        for node, address in self.addresses.items():
            text = re.sub(rf"(NodeName={node} .*?NodeAddr=)\S+", rf"\g<1>{address}", text)
        self.conf.write_text(text)

    def start_slurmd(self, node: str) -> None:
        # It listens where its host name says that it is.
        self.machines[node].write("/etc/hosts", f"{self.addresses[node]} {socket.gethostname()}\n127.0.0.1 localhost\n")
        self._start(node, *self.machines[node].command("slurmd", "-D", "-N", node))

    def _stop(self) -> None:
        try:
            super()._stop()
        finally:
            self._stack.close()

    def say(self, lines: str) -> None:
        """What an operator adds to slurm.conf, followed by `scontrol reconfigure`."""
        self.conf.write_text(self.conf.read_text() + lines)
        self.reconfigure()

    def unsay(self, lines: str) -> None:
        self.conf.write_text(self.conf.read_text().replace(lines, ""))
        self.reconfigure()

    def reconfigure(self) -> None:
        said = self.scontrol("reconfigure")
        assert not said.strip(), said
        # slurmd reads it a moment after it was told.
        for node in NODES:
            with suppress(KeyError):
                self.signal(node, signal.SIGHUP)
