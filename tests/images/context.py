"""The context of a build: the files of the repository that .dockerignore leaves, and their copies."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path, PurePosixPath


class Context:
    """A directory, as a build sees it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ignore = directory / ".dockerignore"
        self._rules = rules(ignore.read_text()) if ignore.exists() else []

    def sees(self, path: str) -> bool:
        """Whether the file at this path, relative to the directory, is in the context."""
        return not ignored(path, self._rules)

    def files(self, source: str) -> dict[str, Path]:
        """The files of a source of COPY: by their path below it ('' where it is a file itself).

        Raises FileNotFoundError where nothing of it is in the context.
        """
        root = self.directory / source
        if root.is_file():
            found = {"": root} if self.sees(source) else {}
        else:
            found = {}
            for parent, directories, names in os.walk(root):
                directories.sort()
                for name in sorted(names):
                    path = Path(parent, name)
                    if self.sees(path.relative_to(self.directory).as_posix()):
                        found[path.relative_to(root).as_posix()] = path
        if not found:
            raise FileNotFoundError(f"{source} is not in the context")
        return found

    def digest(self, sources: list[str]) -> str:
        """Of names, modes and contents."""
        total = hashlib.sha256()
        for source in sources:
            for name, path in self.files(source).items():
                executable = bool(path.stat().st_mode & 0o111)
                total.update(f"{source}\0{name}\0{executable}\0{path.stat().st_size}\0".encode())
                total.update(path.read_bytes())
        return total.hexdigest()

    def copy(self, source: str, target: Path, owner: tuple[int, int]) -> None:
        """The files of a source, at `target` or below it; directories that are missing are root's."""
        for name, path in self.files(source).items():
            to = target / name if name else target
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
            os.chown(to, *owner)


def rules(text: str) -> list[tuple[re.Pattern[str], bool]]:
    """The patterns of a .dockerignore in their order, and whether each takes files back."""
    found = []
    for line in text.splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        back = pattern.startswith("!")
        found.append((_compiled(pattern.removeprefix("!").strip().strip("/")), back))
    return found


def ignored(path: str, wanted: list[tuple[re.Pattern[str], bool]]) -> bool:
    """The last pattern that matches the path, or a directory that it is in, decides."""
    whole = PurePosixPath(path)
    names = [whole.as_posix(), *(parent.as_posix() for parent in whole.parents if parent.name)]
    verdict = False
    for pattern, back in wanted:
        if any(pattern.fullmatch(name) for name in names):
            verdict = not back
    return verdict


def _compiled(pattern: str) -> re.Pattern[str]:
    """Go's filepath.Match, and `**` for any number of directories."""
    if "[" in pattern or "\\" in pattern:
        raise ValueError(f".dockerignore: {pattern}: classes and escapes are not understood here")
    text = ""
    for part in re.split(r"(\*\*/?|\*|\?)", pattern):
        text += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(text)
