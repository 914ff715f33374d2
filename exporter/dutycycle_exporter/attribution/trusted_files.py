"""The small files of a directory that only root or the exporter's own user can have written: read when they change.

What cannot be trusted is refused with one of the reasons of `UnusableError`: a file or directory that others could have
written would let them pass their GPU time off as somebody else's.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from .errors import UnusableError

MAX_BYTES = 64 * 1024
MAX_FILES = 4096

_T = TypeVar("_T")
_Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrustedFile:
    """A file as it was read. `modified` is in Unix seconds."""

    name: str
    content: bytes
    modified: float


@dataclass(frozen=True, slots=True)
class FileAnswers(Generic[_T]):
    """What the files say, by name, and how many files (or directories) could not be used, by reason."""

    answers: Mapping[str, _T] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer(Generic[_T]):
    """What a file said when it was last read, and whether it has been repeated since for want of a better one."""

    version: _Version
    said: _T
    repeated: bool = False


class TrustedFiles(Generic[_T]):
    """Reads a directory again and again, each file only when it has changed.

    `concerns` tells by its name whether a file is looked at; one whose name begins with a dot never is. `parse` may
    raise UnusableError.
    """

    def __init__(self, path: Path, concerns: Callable[[str], bool], parse: Callable[[TrustedFile], _T]) -> None:
        self._path = path
        self._concerns = concerns
        self._parse = parse
        self._answers: dict[str, _Answer[_T]] = {}
        self._refused: dict[str, tuple[_Version, str]] = {}

    def read(self) -> FileAnswers[_T]:
        """What every file says now: the same object as long as the file does not change. A missing directory has none.

        What cannot be read this once (a file that is being replaced, a directory that fails) keeps its previous
        answer for one call. While there are too many files those of which something is known go on being read.
        """
        failures: Counter[str] = Counter()
        answers: dict[str, _Answer[_T]] = {}
        try:
            directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._answers, self._refused = {}, {}
            return FileAnswers()
        except OSError:
            failures["directory_unreadable"] += 1
            answers = self._repeated(self._answers)
        else:
            try:
                self._read_all(directory, answers, failures)
            finally:
                os.close(directory)
        self._answers = answers
        return FileAnswers({name: answers[name].said for name in sorted(answers)}, failures)

    def _read_all(self, directory: int, answers: dict[str, _Answer[_T]], failures: Counter[str]) -> None:
        try:
            _check_owner(os.fstat(directory), "directory")
            names = self._names(directory)
        except UnusableError as error:
            failures[error.reason] += 1
            return
        except OSError:
            failures["directory_unreadable"] += 1
            answers |= self._repeated(self._answers)
            return
        if len(names) > MAX_FILES:
            failures["too_many_files"] += 1
            names = set()
        # A listing may miss a file that is replaced meanwhile.
        names |= self._answers.keys()
        for name in sorted(names):
            try:
                answer = self._answer(directory, name)
            except FileNotFoundError:
                continue
            except UnusableError as error:
                failures[error.reason] += 1
                answers |= self._repeated({name: self._answers[name]} if name in self._answers else {})
            else:
                answers[name] = answer
        self._refused = {name: refusal for name, refusal in self._refused.items() if name in names}

    def _names(self, directory: int) -> set[str]:
        names = set()
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and self._concerns(entry.name):
                    names.add(entry.name)
                    if len(names) > MAX_FILES:
                        break
        return names

    def _answer(self, directory: int, name: str) -> _Answer[_T]:
        try:
            version = _version(os.stat(name, dir_fd=directory, follow_symlinks=False))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnusableError("unreadable") from error
        known = self._answers.get(name)
        if known and known.version == version:
            return _Answer(version, known.said)
        refused = self._refused.get(name)
        if refused and refused[0] == version:
            raise UnusableError(refused[1])
        try:
            version, file = _read(directory, name)
            return _Answer(version, self._parse(file))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnusableError("unreadable") from error
        except UnusableError as error:
            self._refused[name] = (version, error.reason)
            raise

    @staticmethod
    def _repeated(answers: Mapping[str, _Answer[_T]]) -> dict[str, _Answer[_T]]:
        return {
            name: _Answer(answer.version, answer.said, repeated=True)
            for name, answer in answers.items()
            if not answer.repeated
        }


def _version(status: os.stat_result) -> _Version:
    """Differs wherever content, owner or mode may differ: a change of any of them sets the time of change."""
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_uid, status.st_mode)


def _read(directory: int, name: str) -> tuple[_Version, TrustedFile]:
    """A file's version and content. Never waits: a FIFO without a writer opens at once, and is then refused."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        if stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise
        raise UnusableError("not_a_file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnusableError("not_a_file")
        _check_owner(status, "file")
        if status.st_size > MAX_BYTES:
            raise UnusableError("too_large")
        content = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise UnusableError("too_large")
    return _version(status), TrustedFile(name, content, status.st_mtime)


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UnusableError(f"{what}_of_another_user")
    # In a sticky directory only a file's owner can rename it.
    sticky = what == "directory" and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise UnusableError(f"{what}_writable_by_others")
