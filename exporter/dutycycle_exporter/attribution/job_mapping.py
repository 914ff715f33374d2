"""The job mapping directory of dcgm-exporter (`--hpc-job-mapping-dir`), for sites whose prolog writes one already.

A file is named by the GPU's index, `0`, or by index and GPU instance, `0.7` (also `0-7`), and has a job id on each
line; an empty one says that nobody holds the GPU. GPU and MIG UUIDs are understood as names, too
(https://github.com/NVIDIA/dcgm-exporter, "How to include HPC jobs in metric labels"). Indexes are NVML's. Job ids are
Slurm's own numbers, SLURM_JOB_ID. Other files are somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from dutycycle_exporter.model import GpuReading

from .errors import UnusableError
from .prolog_directory import PrologFiles
from .slurm import PrologJob
from .trusted_files import TrustedFile, TrustedFiles

MAX_JOBS = 256
_NAME = re.compile(r"[0-9]{1,4}(?:[.-][0-9]{1,4})?|(?:GPU|MIG)-[0-9A-Za-z-]{1,80}", re.ASCII)
_JOB_ID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_MAX_JOB_ID = 2**32 - 1


class JobMappingDirectory:
    """Reads the directory again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = TrustedFiles(path, concerns=lambda name: _NAME.fullmatch(name) is not None, parse=parse)
        self._keys: dict[str, tuple[str, ...]] = {}
        self._starts: Mapping[str, Mapping[str, float | None]] = {}

    def read(self, gpus: Iterable[GpuReading]) -> PrologFiles:
        """Jobs by device, of which only the number is known, and since when where that can be told.

        A job has begun when the file was written that named it first; of several in a file that was there before,
        nobody knows. A file that is written anew for another job says nothing new of those that stay.

        `gpus` are what NVML shows now; with none, what it last showed. A file about a GPU that it does not show counts
        as a failure, `unknown_gpu`.
        """
        self._keys = _keys(gpus) or self._keys
        found = self._files.read()
        self._starts = {name: _starts(named, self._starts.get(name)) for name, named in found.answers.items()}
        failures = dict(found.failures)
        jobs: dict[str, dict[str, PrologJob]] = {}
        for name, named in found.answers.items():
            keys = (name,) if name.startswith(("GPU-", "MIG-")) else self._keys.get(name.replace("-", "."), ())
            if named and not keys:
                failures["unknown_gpu"] = failures.get("unknown_gpu", 0) + 1
            starts = self._starts[name]
            for key in keys:
                jobs.setdefault(key, {}).update((job.name, replace(job, start=starts[job.name])) for job in named)
        return PrologFiles({key: tuple(held.values()) for key, held in jobs.items() if held}, failures)


def parse(file: TrustedFile) -> tuple[PrologJob, ...]:
    """A file's jobs, each once, with the time when it was written as their start.

    Raises UnusableError: bad_field where a line is no job id, or there are too many.
    """
    lines = [line.strip() for line in file.content.splitlines()]
    names = list(dict.fromkeys(line.decode("ascii", "replace") for line in lines if line))
    if len(names) > MAX_JOBS or not all(_JOB_ID.fullmatch(name) and int(name) <= _MAX_JOB_ID for name in names):
        raise UnusableError("bad_field")
    start = file.modified if file.modified > 0 else None
    return tuple(PrologJob(job_id=int(name), uid=None, name=name, start=start) for name in names)


def _starts(named: Iterable[PrologJob], before: Mapping[str, float | None] | None) -> Mapping[str, float | None]:
    """When each of a file's jobs has begun, by name. `before` is what was told of the file last, None for a new one."""
    starts = {job.name: job.start for job in named}
    if before is None:
        return starts if len(starts) == 1 else dict.fromkeys(starts)
    return {name: before.get(name, start) for name, start in starts.items()}


def _keys(gpus: Iterable[GpuReading]) -> dict[str, tuple[str, ...]]:
    """The devices that a file's name may mean. A GPU instance with several compute instances is each of them."""
    keys: dict[str, tuple[str, ...]] = {}
    for gpu in gpus:
        name = str(gpu.index) if not gpu.mig else f"{gpu.index}.{gpu.gpu_instance}"
        keys[name] = (*keys.get(name, ()), gpu.key)
    return keys
