"""Nodes as slurmctld tells them: `/slurm/VERSION/nodes`, `scontrol show nodes --json`, 22.05's `sinfo --json`."""

from __future__ import annotations

from collections.abc import Mapping

from dutycycle_alerter.slurm.fields import Fields
from dutycycle_alerter.slurm.gres import Gres, parse_gres
from dutycycle_alerter.slurm.model import SlurmNode


def read_node(fields: Fields) -> SlurmNode | None:
    """One node; None without a name."""
    name = fields.text("name")
    if not name:
        fields.wrong("name")
        return None
    configured = fields.parsed(parse_gres, "gres") or ()
    return SlurmNode(
        name=name,
        # Until 22.05 the base state stands alone and the flags beside it.
        states=frozenset((*fields.words("state"), *fields.words("state_flags"))),
        hostname=fields.text("hostname"),
        address=fields.text("address"),
        gpus=sum(gres.count for gres in configured),
        gpu_types=_by_type(configured),
        gpus_allocated=_allocated(fields),
        reason=fields.text("reason"),
        partitions=fields.texts("partitions"),
    )


def _by_type(configured: tuple[Gres, ...]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for gres in configured:
        found[gres.type] = found.get(gres.type, 0) + gres.count
    return found


def _allocated(fields: Fields) -> int | None:
    """GPUs in use; None where it is not told or not understood."""
    used = fields.parsed(parse_gres, "gres_used")
    return None if used is None else sum(gres.count for gres in used)
