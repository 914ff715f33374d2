"""What is wrong with a job: DESIGN's table, applied with a margin to what the mechanism knows of it.

Nothing is measured here and nothing of the alerter is asked. Figures are exact integrals of the course; what an idle
gap is follows from how NVML samples. Causes come from the ledger of what the GPUs waited for.
"""

from .conditions import conditions

__all__ = ["conditions"]
