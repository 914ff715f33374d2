"""Certificates that expire while they are in use, and are renewed in place, as by a site's certificate manager."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .clocks import SteppedClock

_DAY = 86400.0
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Certificate:
    """One of this machine's loopback address and its key, at paths that stay."""

    def __init__(self, authority: Authority, name: str) -> None:
        self._authority = authority
        self.name = name
        self.chain = authority.directory / f"{name}.crt"
        self.key = authority.directory / f"{name}.key"
        self.renew()

    @property
    def pair(self) -> tuple[Path, Path]:
        return self.chain, self.key

    def write_web_config(self) -> Path:
        """A file for --web.config.file of a program that serves with it."""
        written = self._authority.directory / f"{self.name}.web.yml"
        written.write_text(f"tls_server_config:\n  cert_file: {self.chain}\n  key_file: {self.key}\n")
        return written

    def renew(self) -> None:
        """Valid for a day from now."""
        self._authority.issue(self, age=0.0)

    def become(self, *, expired: bool) -> None:
        """Expired, or renewed."""
        if expired:
            self.expire()
        else:
            self.renew()

    def replace(self, context: ssl.SSLContext, *, expired: bool) -> None:
        """The same; new connections of a server with this context get what there is now."""
        self.become(expired=expired)
        context.load_cert_chain(*self.pair)

    def expire(self) -> None:
        """Nobody renewed it: it was valid until a day ago."""
        self._authority.issue(self, age=2 * _DAY)


class Authority:
    """Issues them, under `directory`."""

    def __init__(self, directory: Path, clock: SteppedClock) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self._clock = clock
        self.chain, self._key = directory / "ca.crt", directory / "ca.key"
        self._openssl(
            *("req", "-x509", *_KEY, "-days", "30", "-subj", "/CN=chaos"),
            *("-keyout", str(self._key), "-out", str(self.chain)),
            ago=10 * _DAY,
        )

    def certificate(self, name: str) -> Certificate:
        return Certificate(self, name)

    def issue(self, certificate: Certificate, *, age: float) -> None:
        """A new certificate and key, issued `age` seconds ago for one day, in the place of those that there are."""
        request, extensions = self.directory / "request.csr", self.directory / "request.ext"
        chain, key = (path.with_suffix(path.suffix + ".new") for path in certificate.pair)
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self._openssl("req", *_KEY, "-subj", f"/CN={certificate.name}", "-keyout", str(key), "-out", str(request))
        self._openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.chain), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", "1", "-extfile", str(extensions), "-out", str(chain)),
            ago=age,
        )
        for new, old in zip((chain, key), certificate.pair, strict=True):
            new.chmod(0o644)
            new.rename(old)

    def _openssl(self, *arguments: str, ago: float = 0.0) -> None:
        environment: Mapping[str, str] = {**os.environ, **self._clock.environment}
        self._clock.step(-ago)
        try:
            subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60, env=environment)
        finally:
            self._clock.step(ago)
