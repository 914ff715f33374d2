"""The uids of pods, by their names: from the links that the kubelet keeps beside the logs of their containers.

For every container that it has started there is a link in `/var/log/containers`, whose target is below
`/var/log/pods/<namespace>_<name>_<uid>/`. Only the links are read: where that directory alone is mounted, nothing of
what containers write can be. A pod that was made anew under its name may have links of both for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from .answers import Name
from .records import is_pod_name

_MOST = 16384
"""Links that are looked at: more there are not, unless something is wrong."""
_LONGEST_UID = 64


class ContainerLogs:
    """The directory of links."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def uids(self) -> Mapping[Name, frozenset[str]] | None:
        """The uids that every pod's name has; None where the directory cannot be read."""
        found: dict[Name, set[str]] = {}
        try:
            links = list(islice(self._directory.iterdir(), _MOST))
        except OSError:
            return None
        for link in links:
            try:
                pod = _pod(link.readlink())
            except OSError:
                # No link, or one that has gone meanwhile.
                continue
            if pod is not None:
                found.setdefault(pod[0], set()).add(pod[1])
        return {name: frozenset(uids) for name, uids in found.items()}


def _pod(target: Path) -> tuple[Name, str] | None:
    """Name and uid of the pod whose log it is: `.../<namespace>_<name>_<uid>/<container>/<n>.log`."""
    parts = target.parts[-3:-2]
    words = parts[0].split("_") if parts else []
    if len(words) != 3 or not all(map(is_pod_name, words)) or len(words[2]) > _LONGEST_UID:
        return None
    return (words[0], words[1]), words[2]
