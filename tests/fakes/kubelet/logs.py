"""The links that a kubelet keeps to the logs of containers, in `/var/log/containers`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4


def link_logs(
    directory: Path, name: str, uid: str, *, namespace: str = "ml", containers: Sequence[str] = ("main",)
) -> None:
    """Those of a pod's containers, once they have been started; nothing is where they lead to."""
    directory.mkdir(parents=True, exist_ok=True)
    for container in containers:
        link = directory / f"{name}_{namespace}_{container}-{uuid4().hex}.log"
        link.symlink_to(f"/var/log/pods/{namespace}_{name}_{uid}/{container}/0.log")
