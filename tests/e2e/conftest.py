"""Fixtures of tests of whole stacks."""

from __future__ import annotations

from tests.cluster.conftest import mortal_cluster, requeue_delay
from tests.fakes.smtp.fixtures import mail_certificate

__all__ = ["mail_certificate", "mortal_cluster", "requeue_delay"]
