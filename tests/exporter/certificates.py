"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Issues certificates. Skips the test where there is no openssl, except in CI, which must have it."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            if os.environ.get("CI") == "true":
                pytest.fail("openssl is missing; CI must test TLS")
            pytest.skip("certificates need openssl")
        self._directory = directory / name
        self._directory.mkdir()
        self.pair = Pair(self._directory / "ca.crt", self._directory / "ca.key")
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", str(self.pair.key), "-out", str(self.pair.cert)),
        )

    def issue(self, name: str, *sans: str) -> Pair:
        """A certificate with alternative names such as `DNS:localhost`, `IP:127.0.0.1`."""
        pair = Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        request, extensions = self._directory / f"{name}.csr", self._directory / f"{name}.ext"
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(pair.key), "-out", str(request)),
        )
        extensions.write_text(f"subjectAltName={','.join(sans)}\n" if sans else "basicConstraints=CA:FALSE\n")
        self._openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.pair.cert), "-CAkey", str(self.pair.key)),
            *("-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(pair.cert)),
        )
        return pair

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
