"""What strace says of a container: which files it opened, and which it looked for. Pure: text in, paths out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_BEGUN = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)")
_PATH = re.compile(r'(?:^|AT_FDCWD, |sun_path=)"([^"]*)"')
_OPENING = ("open", "openat", "openat2", "connect", "readlink", "readlinkat")


@dataclass
class Files:
    """Absolute paths: `opened` with success (a socket: connected to; a link: read), `tried` also without."""

    opened: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)


def files(trace: str) -> Files:
    """From where the container's own root begins: what built it is not its doing."""
    found, entered = Files(), False
    for name, arguments, succeeded in _calls(trace.splitlines()):
        if not entered:
            entered = name == "chroot" and succeeded
            continue
        path = _PATH.search(arguments)
        if path is not None and path[1].startswith("/"):
            found.tried.add(path[1])
            if succeeded and name in _OPENING:
                found.opened.add(path[1])
    return found


def _calls(lines: Iterable[str]) -> Iterable[tuple[str, str, bool]]:
    begun: dict[str, str] = {}
    for line in lines:
        if cut := _BEGUN.match(line):
            begun[cut[1]] = f"{cut[1]} {cut[2]}({cut[3]}"
            continue
        whole = line
        if rest := _RESUMED.match(line):
            whole = begun.pop(rest[1], rest[1]) + rest[2]
        if call := _CALL.match(whole):
            yield call[2], call[3], call[4] not in ("?",) and int(call[4]) >= 0


def below(path: str, directory: str) -> bool:
    """Whether it is in it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")
