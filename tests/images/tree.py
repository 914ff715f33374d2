"""What a file tree is, as an image's layers tell: names, kinds, modes, owners, contents, times up to a moment."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One file; `content` is a digest, a link's target or a device's number."""

    mode: int
    uid: int
    gid: int
    content: str
    size: int
    modified: int


def entries(root: Path, *, until: int) -> dict[str, Entry]:
    """By path below the root. Later times are taken for `until`, as an engine's `rewrite-timestamp` does."""
    return {path.relative_to(root).as_posix(): _entry(path, until) for path in _walk(root)}


def digest(tree: dict[str, Entry]) -> str:
    """Equal where nothing of the trees differs."""
    return hashlib.sha256("\n".join(f"{name} {tree[name]}" for name in sorted(tree)).encode()).hexdigest()


def beyond(tree: dict[str, Entry], base: dict[str, Entry]) -> int:
    """Bytes of the files that the base does not have, or has otherwise."""
    return sum(entry.size for name, entry in tree.items() if base.get(name) != entry)


def _walk(root: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(root):
        for name in (*directories, *names):
            yield Path(parent, name)


def _entry(path: Path, until: int) -> Entry:
    status = path.lstat()
    content = ""
    if stat.S_ISREG(status.st_mode):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        content = str(path.readlink())
    elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        content = str(status.st_rdev)
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    return Entry(status.st_mode, status.st_uid, status.st_gid, content, size, min(int(status.st_mtime), until))
