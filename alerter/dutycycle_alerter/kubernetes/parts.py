"""Which resources are whole GPUs, and which are shares or slices of one, by their names."""

from __future__ import annotations


def is_part(resource: str) -> bool:
    """Whether a GPU resource counts shares of GPUs (`nvidia.com/gpu.shared`) or slices (`nvidia.com/mig-1g.5gb`)."""
    name = resource.rpartition("/")[2]
    return name.endswith(".shared") or name.startswith("mig-")
