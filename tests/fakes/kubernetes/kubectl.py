"""A real kubectl that talks to the server, with a home and a cache of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.kubelet.api import certificate
from tests.required import lacking

from .server import KubernetesServer, Request

NEWEST = Path(sys.prefix) / "bin/kubectl"
OLDEST = Path(sys.prefix) / "bin/kubectl-1.30"
_PATIENCE = 120.0
_READS = ("GET", "HEAD")


@dataclass(frozen=True)
class Done:
    """What one call said, and what it asked of the server, in turn."""

    code: int
    out: str
    err: str
    requests: list[Request]

    @property
    def writes(self) -> list[Request]:
        return [one for one in self.requests if one.method not in _READS]

    @property
    def lines(self) -> list[str]:
        """Of what it said, sorted: objects come in an order that is kubectl's."""
        return sorted(self.out.splitlines())


class Kubectl:
    """Speaks as the user of a token; kubectl sends tokens over TLS alone, so the server must have a certificate."""

    def __init__(self, server: KubernetesServer, directory: Path, authority: Path, program: Path = NEWEST) -> None:
        if not program.exists():
            lacking(f"{program.name} (`make test` fetches it)")
        self.server = server
        self.home = directory
        self._authority = authority
        self._program = program

    def start(self, *arguments: str | Path, token: str | None = None) -> subprocess.Popen[str]:
        """Runs on its own; the caller waits for it."""
        home = self.home / (token or self.server.token).replace(":", "-")
        home.mkdir(exist_ok=True)
        config = home / "config.json"
        config.write_text(json.dumps(self._config(token or self.server.token)))
        return subprocess.Popen(
            [self._program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(config)},
        )

    def __call__(self, *arguments: str | Path, token: str | None = None) -> Done:
        """Whatever it answers."""
        self.server.requests.clear()
        running = self.start(*arguments, token=token)
        try:
            out, err = running.communicate(timeout=_PATIENCE)
        finally:
            running.kill()
        return Done(running.returncode, out, err, list(self.server.requests))

    def well(self, *arguments: str | Path, token: str | None = None) -> Done:
        """Fails the test where it does."""
        done = self(*arguments, token=token)
        assert done.code == 0, f"kubectl {' '.join(map(str, arguments))}: {done.out}{done.err}"
        return done

    def _config(self, token: str) -> dict[str, object]:
        cluster = {"server": self.server.url, "certificate-authority": str(self._authority)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "one", "cluster": cluster}],
            "users": [{"name": "me", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
            "current-context": "here",
        }


@contextmanager
def serving(directory: Path, **settings: object) -> Iterator[tuple[KubernetesServer, Path]]:
    """A server over TLS, and the file with its authority."""
    made = certificate(directory)
    if made is None:
        lacking("openssl")
    with KubernetesServer(tls=made, **settings) as server:  # type: ignore[arg-type]
        yield server, made[0]
