"""What the design promises on exact figures: its table of rules, applied with a margin to what the mechanism knows.

A score against it says whether the chain keeps the table. It cannot say that the table is right: a rule that is wrong
is wrong here, too. For that there is the ledger of waits (`..waste`), in which no rule is.

Nothing is measured here and nothing of the alerter is asked. Figures are exact integrals of the course; what an idle
gap is follows from how NVML samples. Causes come from the ledger of what the GPUs waited for.
"""

from .conditions import conditions
from .losses import losses
from .reports import reports

__all__ = ["conditions", "losses", "reports"]
