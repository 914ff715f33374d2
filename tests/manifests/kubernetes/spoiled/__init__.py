"""Ways to spoil the manifests, one by one, and what the checks say then: one that finds nothing proves nothing."""

from __future__ import annotations

from .containers import ROWS as IN_PODS
from .objects import ROWS as OF_OBJECTS
from .operators import ROWS as OF_OPERATORS
from .pods import ROWS as OF_PODS
from .selectors import ROWS as OF_SELECTORS
from .spoiling import Spoiled

ROWS: tuple[Spoiled, ...] = (*OF_OBJECTS, *OF_PODS, *IN_PODS, *OF_SELECTORS, *OF_OPERATORS)
