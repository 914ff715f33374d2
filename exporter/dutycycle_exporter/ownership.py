"""Whose the GPUs of this node are, by the settings: attribution and its sources put together, and exchanged on a
reload.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.attribution.hosts import CgroupFiles
from dutycycle_exporter.attribution.kubernetes import (
    ApiServer,
    ContainerLogs,
    KubernetesPods,
    Naming,
    Pace,
    Selection,
)
from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.model import GpuReading, Ownership
from dutycycle_exporter.service import CollectorRun
from dutycycle_exporter.settings import Settings


class NodeOwnership:
    """Resolves as `Attribution` does. `resolve` is for one thread, the others for another."""

    def __init__(self, settings: Settings) -> None:
        """Raises ExporterError."""
        self._settings = settings
        self._pods = _pods(settings)
        self._attribution = Attribution(
            procfs=settings.procfs, cgroup=settings.cgroup, pods=self._pods, **_changeable(settings)
        )
        # A reload waits until a snapshot has been resolved.
        self._resolving = threading.Lock()

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
        with self._resolving:
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
        """Go on by other settings. What is known of jobs, pods and processes goes on being known."""
        if settings == self._settings:
            return
        if self._pods is not None:
            self._pods.apply(_selection(settings), _naming(settings))
        with self._resolving:
            self._attribution.apply(**_changeable(settings))
        self._settings = settings


class _Changeable(TypedDict):
    slurm_prolog_dir: Path
    job_mapping_dir: Path | None
    local: bool
    people: bool
    hosts: bool


def _changeable(settings: Settings) -> _Changeable:
    """What a reload may change of the attribution."""
    return _Changeable(
        slurm_prolog_dir=settings.prolog_dir,
        job_mapping_dir=settings.job_mapping_dir,
        local=settings.local,
        people="processes" in settings.collect or "accounting" in settings.collect,
        hosts="host" in settings.collect,
    )


def _pods(settings: Settings) -> KubernetesPods | None:
    if not settings.kubernetes:
        return None
    return KubernetesPods(
        node=settings.node_name,
        socket=settings.kubernetes_socket,
        api=_api_server() if settings.kubernetes_api else None,
        selection=_selection(settings),
        naming=_naming(settings),
        pace=_pace(settings.time_scale),
        groups=CgroupFiles(settings.cgroup),
        logs=ContainerLogs(settings.kubernetes_container_logs),
        # In a pod there is one, whether its socket was mounted or not.
        expected="KUBERNETES_SERVICE_HOST" in os.environ,
    )


def _api_server() -> ApiServer:
    found = ApiServer.of_pod(os.environ)
    if found is None:
        raise ExporterError(
            "--kubernetes.api: there is no service account here (KUBERNETES_SERVICE_HOST and a token); run it in "
            "a pod that has one, or switch it off: pods then have no users and labels"
        )
    return found


def _selection(settings: Settings) -> Selection:
    return Selection(resources=settings.kubernetes_resources)


def _naming(settings: Settings) -> Naming:
    return Naming(
        user_annotation=settings.kubernetes_user_annotation,
        user_label=settings.kubernetes_user_label,
        labels=settings.kubernetes_pod_labels,
        slurm=settings.kubernetes_slurm_labels,
    )


def _pace(time_scale: float) -> Pace:
    """Time-outs are not shortened: they are for others, whose time is not scaled."""
    usual = Pace()
    return replace(
        usual,
        interval=usual.interval / time_scale,
        refresh=usual.refresh / time_scale,
        calm=usual.calm / time_scale,
        patience=usual.patience / time_scale,
        start_up=usual.start_up / time_scale,
        stale=usual.stale / time_scale,
    )
