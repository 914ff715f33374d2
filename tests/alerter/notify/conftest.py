"""Stores of tests about notifications, each on SQLite and on PostgreSQL, and mail servers."""

from tests.alerter.store.conftest import database, empty_url, sqlite_url, url
from tests.fakes.smtp.fixtures import (
    mail_certificate,
    mail_server,
    running_mail_server,
    running_tls_mail_server,
    tls_mail_server,
)

__all__ = [
    "database",
    "empty_url",
    "mail_certificate",
    "mail_server",
    "running_mail_server",
    "running_tls_mail_server",
    "sqlite_url",
    "tls_mail_server",
    "url",
]
