"""One Kubernetes cluster over time: its watch, and what is remembered from pass to pass."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.kubernetes.doubts import PATIENCE, Doubts
from dutycycle_alerter.kubernetes.endings import Endings
from dutycycle_alerter.kubernetes.model import Snapshot
from dutycycle_alerter.kubernetes.word import KubernetesWord, target_name
from dutycycle_alerter.model import Job
from dutycycle_alerter.settings import KubernetesCluster, Settings
from dutycycle_alerter.views import WatchCounts

_FIRST_ANSWER = 10.0
"""Seconds that the first pass waits for the API server: what pods consume until they are known is their own."""


class Watch(Protocol):
    """One cluster's API server, over time (`kubernetes.cluster`)."""

    def wait_synced(self, timeout: float) -> bool:
        """Whether everything has been read, which is waited for, for some seconds at most."""
        ...

    def snapshot(self) -> Snapshot:
        """What it has told."""
        ...

    def counters(self) -> WatchCounts:
        """How the watch fares."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...


class KubernetesWorkloads:
    """One Kubernetes cluster. `all_settings` are scaled."""

    def __init__(self, settings: KubernetesCluster, watch: Watch, all_settings: Settings) -> None:
        self._settings = settings
        self._watch = watch
        self._all = all_settings
        self._asked = False
        self._doubts = Doubts(PATIENCE / all_settings.time_scale)
        self._endings = Endings(all_settings.judging)

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> KubernetesWord:  # noqa: ARG002
        """What the watch has heard so far. Without an answer nothing has ended, and pods that it does not know are
        unknown.
        """
        if not self._asked:
            self._watch.wait_synced(min(_FIRST_ANSWER, self._all.schedule.pass_interval))
            self._asked = True
        return KubernetesWord(self._settings, self._all, self._watch.snapshot(), now, self._doubts, self._endings)

    def watches(self) -> Mapping[str, WatchCounts]:
        """Its own."""
        return {target_name(self._settings): self._watch.counters()}

    def close(self) -> None:
        """Let go of connections and threads."""
        self._watch.close()
