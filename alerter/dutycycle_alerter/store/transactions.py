"""What whoever works on the store needs of it, be it all of the database or what a term as evaluator may do."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


class Transactions(Protocol):
    """Safe to use from several threads."""

    def read(self) -> AbstractContextManager[sa.Connection]:
        """A consistent view. Raises StoreError."""
        ...

    def write(self) -> AbstractContextManager[sa.Connection]:
        """One transaction that commits as a whole or not at all. Raises StoreError."""
        ...
