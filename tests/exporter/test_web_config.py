"""The file of --web.config.file: what is understood, and what is said of the rest."""

from __future__ import annotations

import pytest

from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web.config import RateLimit, load

HASH = "$2y$04$abcdefghijklmnopqrstuuFRNAhHm5YV2.Bkw8mPgDXuW2hqnZ1De"
SECRET = "hunter2-do-not-show"


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "web.yml"
        path.write_text(text)
        return path

    return write


def test_everything_that_prometheus_exporters_know_is_understood(written, tmp_path):
    config = load(
        written(f"""
tls_server_config:
  cert_file: server.crt
  key_file: /etc/keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.example, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
rate_limit:
  interval: 500ms
  burst: 20
""")
    )
    assert config.tls.cert_file == tmp_path / "server.crt", "relative to the file"
    assert str(config.tls.key_file) == "/etc/keys/server.key"
    assert (config.tls.clients, config.tls.min_version, config.tls.max_version) == ("required", "TLS12", "TLS13")
    assert config.tls.client_allowed_sans == {"prometheus.example", "10.0.0.1"}
    assert config.tls.ciphers == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert config.tls.curves == ("X25519",)
    assert not config.tls.prefer_server_ciphers
    assert dict(config.headers) == {"X-Frame-Options": "deny", "Strict-Transport-Security": "max-age=31536000"}
    assert config.users == {"alice": HASH}
    assert config.rate_limit == RateLimit(0.5, 20)


@pytest.mark.parametrize("text", ["", "{}", "# nothing\n", "tls_server_config: {}\nbasic_auth_users:\n"])
def test_a_file_that_says_nothing_is_plain_http_for_everybody(written, text):
    config = load(written(text))
    assert (config.tls, config.users, config.headers, config.rate_limit) == (None, {}, (), None)


TLS = "tls_server_config:\n  cert_file: a\n  key_file: b\n  "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls_config: {}", "tls_config: unknown key; did you mean tls_server_config?"),
        ("xyzzy: 1", "xyzzy: unknown key; there are basic_auth_users, http_server_config, rate_limit"),
        (f"{TLS}cert_fiel: c", "tls_server_config: cert_fiel: unknown key; did you mean cert_file?"),
        ("http_server_config: {headers: {X-Frame-Option: deny}}", "did you mean X-Frame-Options?"),
        ("http_server_config: {headers: {X-Frame-Options: allow}}", "expected one of deny, sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\r\\nSet-Cookie: b"}}', "a header cannot"),
        ("http_server_config: {http2: maybe}", "http2: expected true or false"),
        ("tls_server_config: [1]", "tls_server_config: expected keys and values"),
        ("tls_server_config: {cert_file: a}", "key_file: is missing"),
        ("tls_server_config: {key_file: a}", "cert_file: is missing"),
        (f"{TLS}cert: text", "cert: given beside cert_file"),
        (f"{TLS}cert_file: 5", "the key cert_file is given twice"),
        ("tls_server_config: {cert_file: 5, key_file: b}", "cert_file: expected a text"),
        (f"{TLS}min_version: TLS14", "min_version: expected one of TLS10, TLS11, TLS12, TLS13"),
        (f"{TLS}min_version: TLS13\n  max_version: TLS12", "min_version: is above max_version"),
        (f"{TLS}client_auth_type: Require", "client_auth_type: expected one of NoClientCert"),
        (f"{TLS}client_auth_type: RequireAnyClientCert", "use RequireAndVerifyClientCert"),
        (f"{TLS}client_auth_type: RequireAndVerifyClientCert", "client_ca_file: is missing"),
        (f"{TLS}client_ca_file: ca", "client_auth_type is RequireAndVerifyClientCert"),
        (f"{TLS}client_allowed_sans: [a]", "client_allowed_sans: needs client_auth_type"),
        (f"{TLS}cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265]", "did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM"),
        (f"{TLS}curve_preferences: [CurveP265]", "did you mean CurveP256?"),
        (f"{TLS}curve_preferences: X25519", "curve_preferences: expected a list of texts"),
        (f"basic_auth_users: {{alice: {SECRET}}}", "alice: not a bcrypt hash; make one with: htpasswd"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", "no name of a user"),
        (f"basic_auth_users: [{SECRET}]", "basic_auth_users: expected keys and values"),
        ("rate_limit: {interval: soon, burst: 1}", "interval: not a duration"),
        ("rate_limit: {interval: 1s}", "burst: expected a whole number of 1 or more"),
        ("rate_limit: {interval: 1s, burst: " + "9" * 400 + "}", "burst: expected 9223372036854775807 at most"),
        ('tls_server_config: {cert_file: "a\\0.crt", key_file: b}', "cert_file: not the name of a file"),
        ('tls_server_config: {cert_file: "\\uD800", key_file: b}', "cert_file: not valid UTF-8"),
        ('tls_server_config: {cert: "\\uD800", key: b}', "tls_server_config: cert: not valid UTF-8"),
        (f'{TLS}client_auth_type: VerifyClientCertIfGiven\n  client_ca: "\\uDFFF"', "client_ca: not valid UTF-8"),
        (
            "http_server_config: {headers: &a {}}\nbasic_auth_users: *a",
            "web.yml:1: an alias cannot stand for a list or",
        ),
        (f"basic_auth_users: {{alice: &a {SECRET}, bob: *a}}\nx: *{SECRET}", "not YAML"),
        (f"basic_auth_users: !{SECRET} {{}}", "not YAML"),
        (f"{SECRET}", "expected keys and values at the top level"),
        (f"tls_server_config: {{{SECRET}", "not YAML"),
        ("{[a]: 1}", "a key must be plain text"),
        ("a: " + "[" * 100 + "]" * 100, "nested too deep"),
        ("a: " + "[" * 20_000, "web.yml"),
        ("x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_a_mistake_is_named_with_its_remedy_and_no_secret_is_shown(written, text, said):
    with pytest.raises(ConfigError) as caught:
        load(written(text))
    message = str(caught.value)
    assert said in message
    assert "web.yml" in message
    assert SECRET not in message or text == SECRET
    assert message.isprintable(), "one line"


def test_what_cannot_be_read_is_named(tmp_path):
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=said):
            load(path)
    with pytest.raises(ConfigError, match="not the name of a file"):
        load(tmp_path / "nul\0")
    (tmp_path / "binary").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 3"):
        load(tmp_path / "binary")


def test_hashes_and_keys_are_in_no_repr(written):
    config = load(written(f"tls_server_config: {{cert: C, key: {SECRET}}}\nbasic_auth_users: {{alice: {HASH}}}"))
    assert config.tls.key == SECRET
    assert SECRET not in repr(config)
    assert HASH not in repr(config)
