"""The web configuration is read as Prometheus reads it: `promtool check web-config` and ours agree on files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web import Access
from tests.exporter.certificates import Authority

HASH = "$2y$04$abcdefghijklmnopqrstuuFRNAhHm5YV2.Bkw8mPgDXuW2hqnZ1De"
TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
CLIENTS = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"

GOOD = {
    "nothing": "",
    "tls": TLS,
    "clients": TLS + CLIENTS,
    "clients if they like": TLS + CLIENTS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"),
    "versions": TLS + "  min_version: TLS12\n  max_version: TLS13\n",
    "ciphers": TLS + "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n",
    "ciphers of TLS 1.3": TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n",
    "every cipher": TLS
    + "  cipher_suites:\n"
    + "".join(
        f"  - TLS_ECDHE_{key}_WITH_{name}\n"
        for key in ("ECDSA", "RSA")
        for name in ("AES_128_CBC_SHA", "AES_256_CBC_SHA", "AES_128_GCM_SHA256", "AES_256_GCM_SHA384")
    ),
    "a curve": TLS + "  curve_preferences: [CurveP256]\n",
    "preference": TLS + "  prefer_server_cipher_suites: false\n",
    "users": f"basic_auth_users:\n  alice: {HASH}\n  bob: {HASH.replace('$2y$', '$2a$')}\n",
    "headers": TLS + "http_server_config:\n  http2: true\n  headers:\n    X-Frame-Options: sameorigin\n",
}
BAD = {
    "an unknown section": "tls_config: {}",
    "an unknown key": TLS + "  cert_fiel: a\n",
    "no key": "tls_server_config:\n  cert_file: server.crt\n",
    "a file that is not there": TLS.replace("server.crt", "none.crt"),
    "another's key": TLS.replace("server.key", "ca.key"),
    "an authority without a policy": TLS + "  client_ca_file: ca.crt\n",
    "an unknown policy": TLS + "  client_auth_type: Always\n",
    "an unknown version": TLS + "  min_version: TLS99\n",
    "an unknown cipher": TLS + "  cipher_suites: [TLS_INVENTED]\n",
    "an unknown curve": TLS + "  curve_preferences: [CurveP1]\n",
    "no hash": "basic_auth_users:\n  alice: password\n",
    "another header": "http_server_config:\n  headers:\n    X-Other: a\n",
    "another value of a header": "http_server_config:\n  headers:\n    X-Frame-Options: allow\n",
    "a key twice": TLS + "  cert_file: server.crt\n",
    "no YAML": "tls_server_config: [",
    "a list": "- a\n",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("web")
    authority = Authority(directory)
    pair = authority.issue("server")
    for source, name in (
        (pair.cert, "server.crt"),
        (pair.key, "server.key"),
        (authority.pair.cert, "ca.crt"),
        (authority.pair.key, "ca.key"),
    ):
        shutil.copy(source, directory / name)
    return directory


@pytest.fixture
def witness():
    promtool = shutil.which("promtool", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if promtool is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is missing; CI must compare with it")
        pytest.skip("promtool is not installed")

    def accepts(path):
        command = [promtool, "check", "web-config", str(path)]
        return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == 0

    return accepts


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_what_prometheus_takes_is_taken_and_what_it_refuses_is_refused(directory, witness, name):
    path = directory / "web.yml"
    path.write_text((GOOD | BAD)[name])
    assert witness(path) == (name in GOOD), "as this test believes"
    if name in GOOD:
        Access(path)
    else:
        with pytest.raises(ConfigError):
            Access(path)
