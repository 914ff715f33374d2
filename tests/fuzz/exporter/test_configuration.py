"""What people tell the exporter: its two files, and its options."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import example
from hypothesis import strategies as st

from dutycycle_exporter import durations, yaml_file
from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.errors import ConfigError, ExporterError
from dutycycle_exporter.web import parse_address
from dutycycle_exporter.web.config import load
from tests.exporter.test_config_file import EVERYTHING
from tests.fuzz.hostile import documents, texts
from tests.fuzz.running import fuzz

YAML = (
    *(b"&a [*a]", b"&a [a, a]\nb: *a", b"<<: {a: 1}", b"!!python/object:os.system []", b"!!binary aGk=", b"!!set {a}"),
    *(b"2020-13-45", b"0b1", b"1:30", b".nan", b".inf", b"? [a]\n: b", b"? {a: b}\n", b"---\n", b"...\n", b"%YAML 9\n"),
    *(b"|\n  a\n", b">\n", b"'", b"!!int x", b"!!float x", b"!!timestamp x", b"!!null x", b"!!omap [a]", b"- " * 2000),
    *(b"a: " * 30, b"  ", b"\n- a\n", b"\xc2\x85", b"\xe2\x80\xa8", b"0o7_", b"1_0", b"-.inf", b"[a, b]", b"{a: b}"),
)
SOURCES = (EVERYTHING.encode(), b"node-name: n7\nsample-interval: 2s\ncompat: [dcgm]\n")


@fuzz(content=documents(SOURCES, tokens=YAML))
def test_a_file_of_yaml_is_a_mapping_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "exporter.yaml"
    path.write_bytes(content)
    try:
        assert all(isinstance(key, str) for key in yaml_file.read(path))
    except ConfigError as error:
        assert str(path) in str(error), "names the file"
        assert len(str(error)) < 2000


@fuzz(content=documents(SOURCES, tokens=YAML))
def test_a_configuration_is_settings_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "exporter.yaml"
    path.write_bytes(content)
    try:
        settings = read_settings([f"--config.file={path}"])
    except ConfigError as error:
        assert str(path) in str(error), "names the file"
        return
    for seconds in (settings.sample_interval, settings.series_hold, settings.time_scale):
        assert math.isfinite(seconds)
        assert seconds >= 0


HASH = "$2y$04$abcdefghijklmnopqrstuuFRNAhHm5YV2.Bkw8mPgDXuW2hqnZ1De"
WEB = (
    f"""tls_server_config:
  cert_file: server.crt
  key_file: /etc/keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.example, 10.0.0.1]
  min_version: TLS12
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny}}
basic_auth_users: {{alice: {HASH}}}
rate_limit: {{interval: 500ms, burst: 20}}
""".encode(),
)


@fuzz(content=documents(WEB, tokens=(*YAML, HASH.encode(), b"$2y$31$", b"TLS13", b"NoClientCert", b"burst: -1")))
def test_a_web_configuration_is_understood_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "web.yml"
    path.write_bytes(content)
    try:
        config = load(path)
    except ConfigError as error:
        assert str(path) in str(error) or "libcrypt" in str(error)
        if content.count(HASH.encode()) == content.count(b": " + HASH.encode()):
            assert HASH not in str(error), "shows no secret, unless it stands where a name does"
        return
    assert config.rate_limit is None or (config.rate_limit.interval > 0 and config.rate_limit.burst >= 1)


@fuzz(text=texts(["5s", "1m30s", "250ms", "1d2h", "0.5h"], tokens=["ms", "9" * 400 + "d", "1e5s", ".5s"]))
@example(text="9" * 200_000)
def test_a_duration_is_more_than_zero_or_none(text: str) -> None:
    seconds = durations.parse(text)
    assert seconds is None or 0 < seconds < math.inf


@fuzz(days=st.integers(0, 9), hours=st.integers(0, 99), milliseconds=st.integers(1, 999))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, milliseconds: int) -> None:
    assert durations.parse(f"{days}d{hours}h{milliseconds}ms") == days * 86400.0 + hours * 3600.0 + milliseconds * 0.001


@fuzz(text=texts(["127.0.0.1:9836", ":9836", "[::1]:9836", "[fe80::1%eth0]:1", "n1.example:65535"]))
def test_an_address_is_a_host_and_a_port_or_refused(text: str) -> None:
    try:
        _, port = parse_address(text)
    except ExporterError as error:
        assert "--web.listen-address" in str(error)
    else:
        assert 0 <= port <= 65535
