"""Fixtures of tests of whole stacks."""

from __future__ import annotations

from tests.cluster.conftest import mortal_cluster

__all__ = ["mortal_cluster"]
