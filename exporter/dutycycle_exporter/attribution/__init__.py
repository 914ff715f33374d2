"""Whose the GPUs are: a node's allocations, the workloads of its processes, and what these use of the host."""

from .resolver import Attribution

__all__ = ["Attribution"]
