"""The Kubernetes API server as an exporter on a node meets it: the pods and resource slices of its node."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes import KubernetesServer, Rule, pod

_SLICES = "resource.k8s.io"


def certificate(directory: Path) -> tuple[Path, Path] | None:
    """A certificate of its own authority for 127.0.0.1 and its key; None where there is no openssl."""
    if shutil.which("openssl") is None:
        return None
    chain, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(chain)),
        ],
        check=True,
        capture_output=True,
    )
    return chain, key


class FakeApiServer(KubernetesServer):
    """One that has resource slices at these `versions`; the token "good" may list them, and pods."""

    def __init__(self, *, tls: tuple[Path, Path] | None = None, versions: tuple[str, ...] = ("v1",)) -> None:
        super().__init__(tls=tls, namespaces=())
        slices = self.registry.named("ResourceSlice")
        for name in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"):
            self.uninstall(name)
        for version in versions:
            self.registry.install(replace(slices, version=version))
        listing = Rule(("list",), ("pods",)), Rule(("list",), ("resourceslices",), (_SLICES,))
        self.add_user("exporter", "good", *listing)

    def add(self, name: str, uid: str, *, node: str = "gpu-real-0", **fields: Any) -> None:
        """A running pod; `fields` as of the builder of pods. Another of that name is replaced."""
        self.put(pod(name, uid=uid, node=node, started="2026-11-20T22:14:14Z", **fields))

    @property
    def targets(self) -> list[str]:
        """What was asked for."""
        return [request.target for request in self.requests]
