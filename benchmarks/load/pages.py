"""Series on the real exporter's page: of the devices, of their owners, of the node."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import results
from benchmarks.exporters import ours
from benchmarks.exporters.nodes import Shape, node
from benchmarks.results import Row
from tests.exporter.daemon import eventually
from tests.fakes.nvml.compiler import Libraries

NODE = Shape(8)
SHAPES = (Shape(1), NODE, Shape(16), Shape(8, 7))
FLAGS = {"defaults": (), "with --collect.processes": ("--collect.processes",), "with --compat=dcgm": ("--compat=dcgm",)}
_SETTLED = 12.0
"""Seconds until GPM, whose first reading is a difference, and the owners' first samples are there."""


@dataclass(frozen=True)
class Series:
    """How many a page has: of devices, of owners on devices, of the node and the exporter itself."""

    device: int
    owner: int
    node: int

    @property
    def total(self) -> int:
        return self.device + self.owner + self.node


def count(page: str) -> Series:
    """By the labels that a series has."""
    device = owner = other = 0
    for line in page.splitlines():
        if line and not line.startswith("#"):
            if 'workload="' in line:
                owner += 1
            elif 'gpu_uuid="' in line or 'UUID="' in line:
                device += 1
            else:
                other += 1
    return Series(device, owner, other)


def counted(folder: Path, libraries: Libraries, shapes: tuple[Shape, ...] = SHAPES) -> dict[tuple[Shape, str], Series]:
    """By shape and flags, on nodes where a job holds every device."""
    found = {}
    for shape in shapes:
        with node(folder / shape.name.replace(" ", "-"), libraries, shape) as busy:
            for number, (name, flags) in enumerate(FLAGS.items()):
                with ours.running(folder / f"{shape.name}-{number}", busy, *flags) as daemon:
                    eventually(lambda d=daemon: d.values("workload_gpu_busy_seconds_total"), "there are two snapshots")
                    time.sleep(_SETTLED)
                    found[shape, name] = count(daemon.get("/metrics")[1])
    return found


def show(found: dict[tuple[Shape, str], Series]) -> None:
    results.show(
        ("node", "device", "owner", "node and exporter", "all", "a GPU"),
        [
            (f"{shape.name}, {flags}", one.device, one.owner, one.node, one.total, round(one.total / shape.gpus))
            for (shape, flags), one in found.items()
        ],
        title="series on a page, a job on every device",
    )


def row(found: dict[tuple[Shape, str], Series]) -> Row:
    told = [
        f"{shape.name} {one.device:,}, {one.owner:,}, {one.node}; {one.total / shape.gpus:.0f}"
        + "".join(
            f" ({flags} {other.total / shape.gpus:.0f})"
            for (of, flags), other in found.items()
            if of == shape and flags != "defaults"
        )
        for (shape, name), one in found.items()
        if name == "defaults"
    ]
    what = "series on the real exporter's page, NVML double, a job on every device: of devices, owners, the node; a GPU"
    return Row(f"{what}, all in all", ". ".join(told))
