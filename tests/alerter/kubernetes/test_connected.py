"""Clusters as the configuration has them: watched from the moment they are connected to, until they are let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.schedulers import connected
from dutycycle_alerter.settings import KubernetesCluster, Settings
from tests.alerter.kubernetes.watched import kubeconfig, until
from tests.fakes.kubernetes import KubernetesServer, builders


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as found:
        found.put(builders.pod("train-0"))
        yield found


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("kubernetes-")]


def test_a_cluster_is_watched_from_the_beginning_to_the_end(server: KubernetesServer, tmp_path: Path) -> None:
    """Nobody has to ask first: what is known when it is asked would else be nothing."""
    settings = Settings(kubernetes=(KubernetesCluster(kubeconfig=kubeconfig(tmp_path, server.url), cluster="prod"),))
    workloads = connected(settings)
    try:
        until(lambda: server.watching == 2)
        until(lambda: all(not target.error for target in workloads.ask(time.time(), (), ()).targets))
        server.put(builders.pod("train-1"))
        until(lambda: [counts.events for counts in workloads.watches().values()] == [1])
    finally:
        workloads.close()
    until(lambda: not threads())
    until(lambda: not server.watching)


def test_where_one_cannot_be_configured_none_is_watched(server: KubernetesServer, tmp_path: Path) -> None:
    good = KubernetesCluster(kubeconfig=kubeconfig(tmp_path, server.url), cluster="prod")
    bad = KubernetesCluster(kubeconfig=tmp_path / "none", cluster="other")
    with pytest.raises(ConfigError, match="No such file"):
        connected(Settings(kubernetes=(good, bad)))
    until(lambda: not threads())
    until(lambda: not server.watching)
