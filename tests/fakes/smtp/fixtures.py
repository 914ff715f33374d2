"""Mail servers that tests share: started once, and behaving at the beginning of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.kubelet.api import certificate
from tests.fakes.smtp.server import MailServer
from tests.required import lacking


@pytest.fixture(scope="session")
def mail_certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, which is its own authority, and its key."""
    made = certificate(tmp_path_factory.mktemp("mail"))
    if made is None:
        lacking("openssl")
    return made


@pytest.fixture(scope="session")
def running_mail_server(mail_certificate: tuple[Path, Path]) -> Iterator[MailServer]:
    with MailServer(mail_certificate) as server:
        yield server


@pytest.fixture(scope="session")
def running_tls_mail_server(mail_certificate: tuple[Path, Path]) -> Iterator[MailServer]:
    with MailServer(mail_certificate, tls=True) as server:
        yield server


@pytest.fixture
def mail_server(running_mail_server: MailServer) -> MailServer:
    """One that offers STARTTLS."""
    running_mail_server.behave()
    return running_mail_server


@pytest.fixture
def tls_mail_server(running_tls_mail_server: MailServer) -> MailServer:
    """One that is encrypted from the beginning."""
    running_tls_mail_server.behave()
    return running_tls_mail_server
