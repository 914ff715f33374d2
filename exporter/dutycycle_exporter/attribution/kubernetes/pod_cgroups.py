"""Which pods' cgroups have gone: those that were seen, and are not there in two looks. Pure; monotonic seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection

_APART = 2.0
"""Least time between the two looks."""


class PodCgroups:
    """Remembers which cgroups have been seen: a pod's may be where nobody looks for it, and is then not gone.

    `find` tells whether the pod of a uid has a cgroup, None where that cannot be seen.
    """

    def __init__(self, find: Callable[[str], bool | None]) -> None:
        self._find = find
        self._missing: dict[str, float | None] = {}
        """Since when each that has been seen is not there."""

    def there(self, uid: str) -> bool:
        """Whether the pod's cgroup is seen now."""
        return self._find(uid) is True

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
