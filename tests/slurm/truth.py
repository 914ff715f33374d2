"""Whose every GPU is: as Slurm says, and as the exporters publish it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_JOB = re.compile(r"^JobId=(\d+) ")
_USER = re.compile(r" UserId=([^( ]+)\(")
_HELD = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\d+ GRES=(\S*)")
_GPUS = re.compile(r"(?:gpu|shard):[^(]*\(IDX:([0-9,-]+)\)")
_BRACKETS = re.compile(r"([^,\[]+)(?:\[([0-9,-]+)\])?,?")


@dataclass(frozen=True, order=True)
class Owner:
    job_id: int
    user: str


Owners = Mapping[tuple[str, int], frozenset[Owner]]
"""By node and Slurm's number of the GPU; only those that have an owner."""


def slurm_owners(shown: str) -> Owners:
    """From `scontrol --oneliner show job -d`."""
    owners: dict[tuple[str, int], set[Owner]] = {}
    for line in shown.splitlines():
        job, user = _JOB.search(line), _USER.search(line)
        if job is None or user is None:
            continue
        for nodes, gres in _HELD.findall(line):
            for node in _expand_nodes(nodes):
                for gpu in _held(gres):
                    owners.setdefault((node, gpu), set()).add(Owner(int(job[1]), user[1]))
    return {gpu: frozenset(found) for gpu, found in owners.items()}


def published_owners(text: str, node: str, gpus: Mapping[str, int]) -> Owners:
    """From one exporter's /metrics; `gpus` has Slurm's number of each UUID."""
    owners: dict[tuple[str, int], set[Owner]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "gpu_allocation":
                labels = sample.labels
                assert labels["node"] == node
                gpu = node, gpus[labels["gpu_uuid"]]
                owners.setdefault(gpu, set()).add(Owner(int(labels["job_id"]), labels["user"]))
    return {gpu: frozenset(found) for gpu, found in owners.items()}


def _held(gres: str) -> Iterator[int]:
    for ranges in _GPUS.findall(gres):
        yield from _expand(ranges)


def _expand(ranges: str) -> Iterator[int]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _expand_nodes(expression: str) -> Iterator[str]:
    for name, ranges in _BRACKETS.findall(expression):
        yield from (f"{name}{number}" for number in _expand(ranges)) if ranges else (name,)
