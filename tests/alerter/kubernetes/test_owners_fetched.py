"""Owners as an API server shows them: what is asked of it on the way to the job."""

from __future__ import annotations

import json
from typing import cast

from dutycycle_alerter.kubernetes.client import Client
from dutycycle_alerter.kubernetes.fetching import Fetcher
from dutycycle_alerter.kubernetes.model import Pod, Reference
from dutycycle_alerter.kubernetes.owners import OwnerFinder

STACK = {"apiVersion": "example.com/v1", "kind": "Stack", "name": "gpu-stack", "uid": "uid-2", "controller": True}
DAEMONS = {"metadata": {"name": "daemons", "namespace": "ml", "uid": "uid-1", "ownerReferences": [STACK]}}
KINDS = {"resources": [{"name": "stacks", "kind": "Stack", "namespaced": False}]}
ANSWERS = {"/apis/apps/v1/namespaces/ml/daemonsets/daemons": DAEMONS, "/apis/example.com/v1": KINDS}


class Server:
    """Answers from a table, and remembers what was asked."""

    shown = "https://server"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str, *, accept: str, at_most: float) -> bytes:
        self.asked.append(path)
        return json.dumps(ANSWERS[path]).encode()


def test_what_is_in_no_namespace_is_not_asked_for() -> None:
    """It is enough to know of its kind that it is: the job is below it, and no right on it is needed."""
    server = Server()
    finder = OwnerFinder(Fetcher(cast("Client", server), lambda: None).fetch)
    pods = [Pod("ml", name, name, Reference("apps/v1", "DaemonSet", "daemons", "uid-1")) for name in ("a", "b")]
    assert [finder.find(pod).workload for pod in pods] == ["k8s/ml/daemonset/daemons/uid-1"] * 2
    assert server.asked == list(ANSWERS)
