"""The job mapping directory of dcgm-exporter (`--hpc-job-mapping-dir`), for sites whose prolog writes one already.

A file is named by the GPU's index, `0`, or by index and GPU instance, `0.7` (also `0-7`), and has a job id on each
line; an empty one says that nobody holds the GPU. GPU and MIG UUIDs are understood as names, too
(https://github.com/NVIDIA/dcgm-exporter, "How to include HPC jobs in metric labels"). Indexes are NVML's, as they were
when the file was written: a GPU that is lost may give its number to the next one. Job ids are Slurm's own numbers,
SLURM_JOB_ID. Other files are somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dutycycle_exporter.model import GpuReading

from .errors import UnusableError
from .prolog_directory import PrologFiles
from .slurm import PrologJob
from .trusted_files import TrustedFile, TrustedFiles

MAX_JOBS = 256
_Named = tuple[PrologJob, ...]
_Keys = tuple[str, ...]
_NAME = re.compile(r"[0-9]{1,4}(?:[.-][0-9]{1,4})?|(?:GPU|MIG)-[0-9A-Za-z-]{1,80}", re.ASCII)
_JOB_ID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_MAX_JOB_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a file said when it was read last, and the devices that it is about.

    `shown` are the GPUs that NVML showed by whose numbers that is told, where they may be others than when the file was
    written: it was there already when the exporter began. None for one that was written since.
    """

    named: _Named
    keys: _Keys
    shown: frozenset[str] | None = None


class JobMappingDirectory:
    """Reads the directory again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = TrustedFiles(path, concerns=lambda name: _NAME.fullmatch(name) is not None, parse=parse)
        self._numbers: Mapping[str, _Keys] = {}
        self._meant: Mapping[str, _Meaning] = {}
        self._starts: Mapping[str, Mapping[str, float | None]] = {}

    def read(self, gpus: Iterable[GpuReading]) -> PrologFiles:
        """Jobs by device, of which only the number is known, and since when where that can be told.

        A job has begun when the file was written that named it first; of several in a file that was there before,
        nobody knows. A file that is written anew for another job says nothing new of those that stay.

        `gpus` are what NVML shows now. A number that it shows no more means what it meant, as long as that has no other
        one. A file about a GPU that NVML has never shown counts as a failure, `unknown_gpu`.
        """
        gpus = tuple(gpus)
        shown = frozenset(gpu.uuid for gpu in gpus)
        # Before NVML has shown any GPU, nothing is known of the numbers that a file was written by.
        supposed = None if self._numbers else shown
        self._numbers = _numbers(gpus, self._numbers)
        found = self._files.read()
        self._starts = {name: _starts(named, self._starts.get(name)) for name, named in found.answers.items()}
        failures = dict(found.failures)
        jobs: dict[str, dict[str, PrologJob]] = {}
        self._meant = {
            name: self._meaning(name, named, shown, supposed) for name, named in found.answers.items() if named
        }
        for name, meaning in self._meant.items():
            named, keys = meaning.named, meaning.keys
            if not keys:
                failures["unknown_gpu"] = failures.get("unknown_gpu", 0) + 1
            starts = self._starts[name]
            for key in keys:
                jobs.setdefault(key, {}).update((job.name, replace(job, start=starts[job.name])) for job in named)
        return PrologFiles({key: tuple(held.values()) for key, held in jobs.items()}, failures)

    def _meaning(self, name: str, named: _Named, shown: frozenset[str], supposed: frozenset[str] | None) -> _Meaning:
        """The devices that a file is about: those that its name meant when it was written, whatever it means now.

        `supposed` are the GPUs shown now if a file that is read for the first time may be from before; else None.
        """
        if name.startswith(("GPU-", "MIG-")):
            return _Meaning(named, (name,))
        now = self._numbers.get(name.replace("-", "."), ())
        meant = self._meant.get(name)
        # As long as a file does not change, its answer is the same object.
        if meant is None or meant.named is not named:
            return _Meaning(named, now, supposed)
        # It was read while a GPU was lost, which is back: the more are shown, the nearer are the numbers to those that
        # it was written by.
        if meant.shown is not None and shown > meant.shown:
            return _Meaning(named, now, shown)
        # Of its instances some may be shown later.
        return replace(meant, keys=now) if set(now) >= set(meant.keys) else meant


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


def _numbers(gpus: Iterable[GpuReading], before: Mapping[str, _Keys]) -> Mapping[str, _Keys]:
    """The devices that a file's name may mean. A GPU instance with several compute instances is each of them.

    A GPU that is lost, or did not say who it is this once, keeps its number and those of its instances: `before` is
    what they were. One that has another number now is not meant by its old one.
    """
    numbers: dict[str, _Keys] = {}
    for gpu in gpus:
        name = str(gpu.index) if not gpu.mig else f"{gpu.index}.{gpu.gpu_instance}"
        numbers[name] = (*numbers.get(name, ()), gpu.key)
    indexes = {name.partition(".")[0] for name in numbers}
    shown = {key for keys in numbers.values() for key in keys}
    lost = {
        name: keys for name, keys in before.items() if name.partition(".")[0] not in indexes and shown.isdisjoint(keys)
    }
    return {**lost, **numbers}
