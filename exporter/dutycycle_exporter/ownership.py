"""Whose the GPUs of this node are, by the settings: attribution and its sources put together, and exchanged on a
reload.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.model import GpuReading, Ownership
from dutycycle_exporter.service import CollectorRun
from dutycycle_exporter.settings import KUBERNETES, Settings, changed

if TYPE_CHECKING:
    from dutycycle_exporter.attribution.kubernetes import KubernetesPods

_FIRST_ANSWER = 5.0
"""Seconds for which a reload waits for the kubelet, lest nobody hold a GPU until it has answered."""
_LOOK_AGAIN = 0.05


class NodeOwnership:
    """Resolves as `Attribution` does. `resolve` is for one thread, the others for another."""

    def __init__(self, settings: Settings) -> None:
        """Raises ExporterError."""
        self._settings = settings
        self._pods = _pods(settings)
        self._attribution = _attribution(settings, self._pods)

    def start(self) -> None:
        """Begin to ask those who have to be asked over a socket."""
        if self._pods is not None:
            self._pods.start()

    def stop(self) -> None:
        """Ask no more."""
        if self._pods is not None:
            self._pods.stop()

    def resolve(self, gpus: Sequence[GpuReading], now: float) -> Ownership:
        """Allocations and the owners of processes at `now` (Unix seconds)."""
        return self._attribution.resolve(gpus, now)

    def health(self) -> Mapping[str, CollectorRun]:
        """Of the sources that are asked over a socket, by name."""
        if self._pods is None:
            return {}
        return {
            name: CollectorRun(source.success, source.last_success, source.duration)
            for name, source in self._pods.health().items()
        }

    def apply(self, settings: Settings) -> None:
        """Go on by other settings. Pods are asked for anew where what is asked has changed. Raises ExporterError."""
        differing = changed(self._settings, settings)
        if not differing:
            return
        pods, before = self._pods, self._pods
        if differing & KUBERNETES:
            pods = _pods(settings)
            if pods is not None:
                pods.start()
                _await_answer(pods)
        # What was learned is found again: files are read, and processes known, at the next resolution.
        self._attribution, self._pods, self._settings = _attribution(settings, pods), pods, settings
        if before is not None and before is not pods:
            before.stop()


def _attribution(settings: Settings, pods: KubernetesPods | None) -> Attribution:
    return Attribution(
        slurm_prolog_dir=settings.prolog_dir,
        job_mapping_dir=settings.job_mapping_dir,
        procfs=settings.procfs,
        cgroup=settings.cgroup,
        local=settings.local,
        people="processes" in settings.collect or "accounting" in settings.collect,
        hosts="host" in settings.collect,
        pods=pods,
    )


def _pods(settings: Settings) -> KubernetesPods | None:
    if not settings.kubernetes:
        return None
    # Imported where used: a Slurm node that switches it off does without HTTP/2.
    from dutycycle_exporter.attribution.kubernetes import (  # noqa: PLC0415
        ApiServer,
        KubernetesPods,
        Naming,
        Selection,
    )

    return KubernetesPods(
        node=settings.node_name,
        socket=settings.kubernetes_socket,
        api=ApiServer.of_pod(os.environ) if settings.kubernetes_api else None,
        selection=Selection(resources=settings.kubernetes_resources),
        naming=Naming(
            user_annotation=settings.kubernetes_user_annotation,
            user_label=settings.kubernetes_user_label,
            labels=settings.kubernetes_pod_labels,
        ),
    )


def _await_answer(pods: KubernetesPods) -> None:
    until = time.monotonic() + _FIRST_ANSWER
    while not pods.health() and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN)
