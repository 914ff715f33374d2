"""Pods that use a device and that the kubelet does not list as holders, or not yet: what they are called. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dutycycle_exporter.model import Workload

from .answers import Answers
from .records import workload

_FORGET = 300.0
"""Seconds for which one is remembered that nobody asks for."""


@dataclass(slots=True)
class _Stranger:
    seen: float
    asked: float
    workload: Workload | None = None


class Strangers:
    """Each by its uid. What one is called does not change while it is asked for. With `api` there is an API server to
    wait for, `patience` seconds.
    """

    def __init__(self, patience: float, *, api: bool) -> None:
        self._patience = patience
        self._api = api
        self._strangers: dict[str, _Stranger] = {}

    def workload_of(self, uid: str, now: float, answers: Answers, *, nameless: bool) -> Workload | None:
        """The workload of a pod that holds nothing; None while that is open. `nameless`: some holder has no uid."""
        stranger = self._strangers.setdefault(uid, _Stranger(now, now))
        stranger.asked = now
        if stranger.workload is None:
            record = answers.records.get(uid)
            # Of a pod that has just begun the kubelet has not told.
            awaited = self._api or nameless or answers.listed is None or answers.listed <= stranger.seen
            if record is not None:
                stranger.workload = workload(record.namespace, record.name, uid, record)
            elif now - stranger.seen >= self._patience or not awaited:
                stranger.workload = Workload(f"k8s///{uid}", "k8s")
        return stranger.workload

    def unrecorded(self, answers: Answers) -> Iterator[float]:
        """When those came of whom the API server has not told, if it has not been asked since."""
        for uid, stranger in self._strangers.items():
            if answers.asked_before(stranger.seen) and uid not in answers.records:
                yield stranger.seen

    def forget(self, now: float) -> None:
        """Those that nobody has asked for in a while."""
        self._strangers = {uid: one for uid, one in self._strangers.items() if now - one.asked < _FORGET}
