"""The lease on both databases, and alerters that share one."""

from tests.alerter.store.conftest import database, sqlite_url, url

__all__ = ["database", "sqlite_url", "url"]
