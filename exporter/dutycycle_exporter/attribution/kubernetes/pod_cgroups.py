"""Which pods' cgroups have gone: those that were seen, and are not there in two looks. Pure; monotonic seconds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

_APART = 2.0
"""Least time between the two looks."""


class PodGroups(Protocol):
    """Looks at the cgroups of pods, by their uids: `CgroupFiles`."""

    def has_pod(self, uid: str) -> bool | None:
        """Whether a pod has a cgroup; None where that cannot be seen."""
        ...

    def pod_lives(self, uid: str) -> bool:
        """Whether a process is seen in a pod's cgroup."""
        ...


class PodCgroups:
    """Remembers which cgroups have been seen: a pod's may be where nobody looks for it, and is then not gone.

    Without `groups` none is seen.
    """

    def __init__(self, groups: PodGroups | None) -> None:
        self._groups = groups
        self._missing: dict[str, float | None] = {}
        """Since when each that has been seen is not there."""

    def there(self, uid: str) -> bool:
        """Whether the pod's cgroup is seen now."""
        return self._find(uid) is True

    def live(self, uid: str) -> bool:
        """Whether the pod is seen to have a process now. A cgroup may be left over; one with a process is not."""
        return bool(uid) and self._groups is not None and self._groups.pod_lives(uid)

    def gone(self, uid: str, now: float) -> bool:
        """Whether the pod's cgroup has gone, as this look and an earlier one tell."""
        found = self._find(uid)
        if found:
            self._missing[uid] = None
        elif uid in self._missing:
            since = self._missing[uid]
            self._missing[uid] = None if found is None else now if since is None else since
            return found is False and since is not None and now - since >= _APART
        return False

    def forget_but(self, uids: Collection[str]) -> None:
        """Remember no others."""
        self._missing = {uid: since for uid, since in self._missing.items() if uid in uids}

    def _find(self, uid: str) -> bool | None:
        return None if self._groups is None else self._groups.has_pod(uid)
