"""The directory of prolog files: whom to believe, and what has changed since it was last read.

What cannot be trusted is refused with one of the reasons of `UnusableError`: a file or directory that others could have
written would let them pass their GPU time off as somebody else's.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import UnusableError
from .slurm import PrologJob, gpu_uuid, parse

MAX_BYTES = 64 * 1024
MAX_FILES = 4096
_BOOT_ID = re.compile(r"[0-9a-f-]{36}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PrologFiles:
    """Jobs by GPU UUID, and how many files (or directories) could not be used, by reason."""

    jobs: Mapping[str, tuple[PrologJob, ...]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a file said when it was last read, and whether it has been repeated since for want of a better one."""

    version: tuple[int, ...]
    job: PrologJob
    repeated: bool = False


class PrologDirectory:
    """Reads a directory of prolog files again and again, each file only when it has changed.

    `boot_id` is the running kernel's, None where it is not known: files of another one are stale.
    """

    def __init__(self, path: Path, boot_id: str | None = None) -> None:
        self._path = path
        self._boot_id = boot_id
        self._answers: dict[str, _Answer] = {}
        self._refused: dict[str, tuple[tuple[int, ...], str]] = {}

    def read(self) -> PrologFiles:
        """Every job that holds a GPU now. A missing directory means none.

        What cannot be read this once (a file that is being replaced, a directory that fails) keeps its previous
        answer for one call.
        """
        failures: Counter[str] = Counter()
        answers: dict[str, _Answer] = {}
        try:
            directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._answers, self._refused = {}, {}
            return PrologFiles()
        except OSError:
            failures["directory_unreadable"] += 1
            answers = self._repeated(self._answers)
        else:
            try:
                self._read_all(directory, answers, failures)
            finally:
                os.close(directory)
        self._answers = answers
        jobs: dict[str, dict[str, PrologJob]] = {}
        for name in sorted(answers):
            job = answers[name].job
            jobs.setdefault(gpu_uuid(name), {}).setdefault(job.name, job)
        return PrologFiles({gpu: tuple(found.values()) for gpu, found in jobs.items()}, failures)

    def _read_all(self, directory: int, answers: dict[str, _Answer], failures: Counter[str]) -> None:
        try:
            _check_owner(os.fstat(directory), "directory")
            names = _names(directory)
        except UnusableError as error:
            failures[error.reason] += 1
            return
        except OSError:
            failures["directory_unreadable"] += 1
            answers |= self._repeated(self._answers)
            return
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

    def _answer(self, directory: int, name: str) -> _Answer:
        try:
            version = _version(os.stat(name, dir_fd=directory, follow_symlinks=False))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnusableError("unreadable") from error
        known = self._answers.get(name)
        if known and known.version == version:
            return _Answer(version, known.job)
        refused = self._refused.get(name)
        if refused and refused[0] == version:
            raise UnusableError(refused[1])
        try:
            version, content = _content(directory, name)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UnusableError("unreadable") from error
        except UnusableError as error:
            self._refused[name] = (version, error.reason)
            raise
        try:
            return _Answer(version, parse(name, content, self._boot_id))
        except UnusableError as error:
            self._refused[name] = (version, error.reason)
            raise

    @staticmethod
    def _repeated(answers: Mapping[str, _Answer]) -> dict[str, _Answer]:
        return {
            name: _Answer(answer.version, answer.job, repeated=True)
            for name, answer in answers.items()
            if not answer.repeated
        }


def read_boot_id(procfs: Path) -> str | None:
    """The running kernel's boot id; None where it cannot be read."""
    try:
        with (procfs / "sys/kernel/random/boot_id").open("rb") as file:
            text = file.read(64).decode("ascii", "replace").strip()
    except OSError:
        return None
    return text if _BOOT_ID.fullmatch(text) else None


def _names(directory: int) -> set[str]:
    names = set()
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.name.endswith(".json"):
                names.add(entry.name)
                if len(names) > MAX_FILES:
                    raise UnusableError("too_many_files")
    return names


def _version(status: os.stat_result) -> tuple[int, ...]:
    """Differs wherever content, owner or mode may differ: a change of any of them sets the time of change."""
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_uid, status.st_mode)


def _content(directory: int, name: str) -> tuple[tuple[int, ...], bytes]:
    """A file's version and bytes. Never waits: a FIFO without a writer opens at once, and is then refused."""
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
    return _version(status), content


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UnusableError(f"{what}_of_another_user")
    # In a sticky directory only a file's owner can rename it.
    sticky = what == "directory" and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise UnusableError(f"{what}_writable_by_others")
