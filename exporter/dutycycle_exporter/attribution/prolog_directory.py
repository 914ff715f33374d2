"""The directory of prolog files: which jobs hold which GPU now, as far as its files can be believed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .slurm import PrologJob, gpu_uuid, parse
from .trusted_files import TrustedFiles

_BOOT_ID = re.compile(r"[0-9a-f-]{36}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PrologFiles:
    """Jobs by GPU UUID, and how many files (or directories) could not be used, by reason."""

    jobs: Mapping[str, tuple[PrologJob, ...]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)


class PrologDirectory:
    """Reads a directory of prolog files again and again.

    `boot_id` is the running kernel's, None where it is not known: files of another one are stale.
    """

    def __init__(self, path: Path, boot_id: str | None = None) -> None:
        self.path = path
        self._files = TrustedFiles(
            path,
            concerns=lambda name: name.endswith(".json"),
            parse=lambda file: parse(file.name, file.content, boot_id),
        )

    def read(self) -> PrologFiles:
        """Every job that holds a GPU now. A missing directory means none."""
        found = self._files.read()
        jobs: dict[str, dict[str, PrologJob]] = {}
        for name, job in found.answers.items():
            jobs.setdefault(gpu_uuid(name), {}).setdefault(job.name, job)
        return PrologFiles({gpu: tuple(held.values()) for gpu, held in jobs.items()}, found.failures)


def read_boot_id(procfs: Path) -> str | None:
    """The running kernel's boot id; None where it cannot be read."""
    try:
        with (procfs / "sys/kernel/random/boot_id").open("rb") as file:
            text = file.read(64).decode("ascii", "replace").strip()
    except OSError:
        return None
    return text if _BOOT_ID.fullmatch(text) else None
