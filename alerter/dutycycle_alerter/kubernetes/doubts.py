"""Pods of which it is not known what they are part of, over time: any job of their namespace may lack them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dutycycle_alerter.kubernetes.model import Snapshot

PATIENCE = 600.0
"""Seconds, unscaled, for which such a pod holds up the jobs of its namespace, while the API server answers."""


class Doubts:
    """Remembers since when. Not for several threads at once."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[str, float] = {}

    def namespaces(self, snapshot: Snapshot, strangers: Mapping[str, str], now: float) -> frozenset[str]:
        """Those whose jobs may have more pods than is known.

        `strangers` are the namespaces of pods that exporters show and the API server does not know, by workload. What
        is looked for in vain does not hold up the others for ever, but that a silent server does not know it says
        nothing.
        """
        waiting = dict(strangers)
        waiting.update(ownerless(snapshot))
        self._since = {name: self._since.get(name, now) if snapshot.fresh else now for name in waiting}
        return frozenset(waiting[name] for name, since in self._since.items() if now - since < self._patience)

    def lasting(self, now: float) -> frozenset[str]:
        """Return what was in doubt before `now`: after a start, exporters still show pods that have just ended."""
        return frozenset(name for name, since in self._since.items() if since < now)


def ownerless(snapshot: Snapshot, *, pending: bool = False) -> Iterable[tuple[str, str]]:
    """Uid and namespace of the live pods whose owner is looked for; with `pending` also those that hold nothing yet."""
    return (
        (uid, pod.namespace)
        for uid, pod in snapshot.pods.items()
        if uid not in snapshot.owners and not pod.over and (pending or pod.node)
    )
