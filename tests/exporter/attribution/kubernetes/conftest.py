"""Fixtures of the tests of pods."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.kubelet.api import certificate
from tests.fakes.kubelet.recorded import recordings

__all__ = ["recordings"]


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Where a kubelet may bind: pytest's own directories are too long for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="dc-") as directory:
        yield Path(directory) / "pod-resources/kubelet.sock"


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key. Skips where there is no openssl, except in CI."""
    made = certificate(tmp_path_factory.mktemp("tls"))
    if made is None:
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail("openssl is missing; CI must test TLS")
        pytest.skip("certificates are made by openssl")
    return made
