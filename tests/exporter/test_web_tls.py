"""TLS: certificates of the server and of clients, and what happens when their files change."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass

import pytest

from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web import Access, access
from dutycycle_exporter.web.config import WebConfig
from dutycycle_exporter.web.server import _MOST_REQUESTS, _Handler
from tests.exporter.certificates import Authority
from tests.exporter.daemon import Daemon, eventually
from tests.exporter.full_log import full_log
from tests.exporter.web_server import PAGE, basic, bcrypt, client_context, get, replace, tls_file


def test_metrics_come_over_tls_and_not_without(serve, authority):
    server = serve(tls_file(authority.issue("server", "IP:127.0.0.1")))
    context = ssl.create_default_context(cafile=str(authority.pair.cert))
    assert get(server, context=context) == (200, PAGE)
    with pytest.raises((http.client.HTTPException, ssl.SSLError, ConnectionError)):
        get(server)
    assert get(server, context=context)[0] == 200


def test_a_certificate_in_the_file_itself_needs_no_disk(serve, authority):
    pair = authority.issue("server", "IP:127.0.0.1")

    def block(path):
        return "|\n" + "".join(f"    {line}\n" for line in path.read_text().splitlines())

    server = serve(f"tls_server_config:\n  cert: {block(pair.cert)}\n  key: {block(pair.key)}\n")
    assert get(server, context=client_context(authority)) == (200, PAGE)


@pytest.mark.parametrize(
    ("preference", "chosen"),
    [
        ([], "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["  prefer_server_cipher_suites: true"], "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["  prefer_server_cipher_suites: false"], "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ],
)
def test_the_server_chooses_the_cipher_unless_it_is_left_to_the_client(serve, authority, preference, chosen):
    ours = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    lines = ["  max_version: TLS12", f"  cipher_suites: [{ours}]", *preference]
    server = serve(tls_file(authority.issue("server", "IP:127.0.0.1"), *lines))
    context = client_context(authority)
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256")
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=60)
    with context.wrap_socket(connection) as secured:
        assert secured.cipher()[0] == chosen


def served_name(server, authority):
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=60)
    with client_context(authority).wrap_socket(connection) as secured:
        return secured.getpeercert()["subject"][0][0][1]


def test_a_renewed_certificate_is_used_at_the_next_connection(serve, authority, caplog):
    one, two = authority.issue("one"), authority.issue("two")
    server = serve(tls_file(one))
    assert served_name(server, authority) == "one"
    replace(one.cert, "half-written")
    assert served_name(server, authority) == "one", "what cannot be used changes nothing"
    assert "not a certificate and its key" in caplog.text
    two.key.replace(one.key)
    two.cert.replace(one.cert)
    assert served_name(server, authority) == "two"


def test_a_certificate_that_comes_after_the_file_that_names_it_is_used(serve, authority, web_file, monkeypatch, caplog):
    monkeypatch.setattr(access, "_RETRY", 0.0)
    one, two = authority.issue("one"), authority.issue("two")
    server = serve(tls_file(one))
    hidden = two.cert.rename(two.cert.with_suffix(".later"))
    replace(web_file, tls_file(two))
    for _ in range(3):
        assert served_name(server, authority) == "one"
    hidden.rename(two.cert)
    assert served_name(server, authority) == "two"
    assert caplog.text.count("cannot be read") == 1, "said once"


CLIENTS = ("  client_auth_type: RequireAndVerifyClientCert", "  client_ca_file: {ca}")


def test_only_clients_with_a_certificate_of_the_authority_are_served(serve, authority, tmp_path):
    other = Authority(tmp_path, "other")
    lines = [line.format(ca=authority.pair.cert) for line in CLIENTS]
    server = serve(tls_file(authority.issue("server"), *lines))
    assert get(server, context=client_context(authority, authority.issue("client")))[0] == 200
    for pair in (None, other.issue("stranger")):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, context=client_context(authority, pair))
    assert get(server, context=client_context(authority, authority.issue("client2")))[0] == 200


@pytest.mark.parametrize("inline", [False, True], ids=["a file", "a text"])
def test_an_authority_may_have_comments_in_any_language(serve, authority, tmp_path, inline):
    text = "# TÜRKTRUST Elektronik Sertifika Hizmet Sağlayıcısı\n" + authority.pair.cert.read_text()
    (tmp_path / "bundle").write_text(text)
    lines = [line.format(ca=tmp_path / "bundle") for line in CLIENTS]
    if inline:
        lines[1] = "  client_ca: |\n" + "".join(f"    {line}\n" for line in text.splitlines())
    server = serve(tls_file(authority.issue("server"), *lines))
    assert get(server, context=client_context(authority, authority.issue("client")))[0] == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(server, context=client_context(authority))


@pytest.mark.parametrize("content", [b"", b"\n", "# Sağlayıcı\n".encode(), b"\x30\x82\x00\xff" * 99])
def test_an_authority_that_became_useless_changes_nothing(
    serve, authority, tmp_path, monkeypatch, caplog, capfd, content
):
    monkeypatch.setattr(access, "_RETRY", 0.0)
    bundle = tmp_path / "bundle"
    bundle.write_bytes(authority.pair.cert.read_bytes())
    server = serve(tls_file(authority.issue("server"), *(line.format(ca=bundle) for line in CLIENTS)))
    client = client_context(authority, authority.issue("client"))
    assert get(server, context=client)[0] == 200
    bundle.write_bytes(content)
    for _ in range(3):
        assert get(server, context=client)[0] == 200
    assert caplog.text.count(f"client_ca_file {bundle}: no certificate in PEM; what held before goes on") == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("sans", "served"),
    [
        (("DNS:prometheus.example",), True),
        (("DNS:other.example", "IP:10.0.0.1"), True),
        (("IP:2001:db8:0:0:0:0:0:1",), True),
        (("URI:spiffe://site/prometheus",), True),
        (("email:ops@example.org",), True),
        (("DNS:other.example",), False),
        (("DNS:sub.prometheus.example",), False),
        ((), False),
    ],
)
def test_a_client_needs_one_of_the_allowed_names(serve, authority, sans, served):
    lines = [line.format(ca=authority.pair.cert) for line in CLIENTS]
    names = "prometheus.example, 10.0.0.1, '2001:db8::1', 'spiffe://site/prometheus', ops@example.org"
    server = serve(tls_file(authority.issue("server"), *lines, f"  client_allowed_sans: [{names}]"))
    context = client_context(authority, authority.issue("client", *sans))
    if served:
        assert get(server, context=context)[0] == 200
    else:
        with pytest.raises((http.client.HTTPException, ssl.SSLError, ConnectionError)):
            get(server, context=context)


@pytest.mark.parametrize(
    ("lines", "highest", "fits"),
    [
        ((), ssl.TLSVersion.TLSv1_2, True),
        (("  min_version: TLS13",), ssl.TLSVersion.TLSv1_2, False),
        (("  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",), ssl.TLSVersion.TLSv1_2, True),
        (("  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]",), ssl.TLSVersion.TLSv1_2, False),
        (("  max_version: TLS12", "  curve_preferences: [CurveP384]"), ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_versions_ciphers_and_curves_are_as_the_file_says(serve, authority, lines, highest, fits):
    server = serve(tls_file(authority.issue("server"), *lines))
    context = client_context(authority)
    context.maximum_version = highest
    if fits:
        assert get(server, context=context)[0] == 200
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server, context=context)


@pytest.mark.skipif(hasattr(ssl.SSLContext, "set_groups"), reason="this Python can be held to several curves")
def test_several_curves_are_refused_where_this_python_can_be_held_to_one(authority, web_file):
    """Rather than one of them taken, or none."""
    replace(web_file, tls_file(authority.issue("server"), "  curve_preferences: [X25519, CurveP256]"))
    with pytest.raises(ConfigError, match="held to one curve only; name one, or leave it out"):
        Access(web_file)


@pytest.mark.parametrize(
    "what",
    [
        *("no file", "not PEM", "another's key", "key with a password", "no authority", "empty authority"),
        *("authority of comments", "no file of an authority"),
    ],
)
def test_files_that_are_no_certificates_are_an_error_that_names_them(authority, web_file, tmp_path, what):
    pair = authority.issue("server")
    lines, named = (), str(pair.cert)
    if what == "no file":
        pair.cert.unlink()
    elif what == "not PEM":
        pair.key.write_text("secret-text")
    elif what == "another's key":
        authority.issue("other").key.replace(pair.key)
    elif what == "key with a password":
        locked = tmp_path / "locked.key"
        command = ["openssl", "ec", "-aes256", "-passout", "pass:abcd", "-in", str(pair.key), "-out", str(locked)]
        subprocess.run(command, check=True, capture_output=True)
        locked.replace(pair.key)
    else:
        named = str(tmp_path / "ca")
        texts = {"no authority": "nothing", "empty authority": "", "authority of comments": "# Sağlayıcı\n"}
        if what in texts:
            (tmp_path / "ca").write_text(texts[what])
        lines = [line.format(ca=named) for line in CLIENTS]
    replace(web_file, tls_file(pair, *lines))
    with pytest.raises(ConfigError) as caught:
        Access(web_file)
    assert named in str(caught.value)
    assert f"--web.config.file={web_file}" in str(caught.value)
    assert "secret-text" not in str(caught.value)


def test_clients_that_do_not_finish_their_handshake_keep_nobody_waiting(serve, authority, monkeypatch, capfd):
    monkeypatch.setattr(_Handler, "timeout", 3600.0)
    server = serve(tls_file(authority.issue("server")))
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(3 * _MOST_REQUESTS)]
    for connection, data in zip(silent, [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00"] * 16, strict=False):
        connection.sendall(data)
    assert get(server, context=client_context(authority))[0] == 200
    # Those that had to make room are gone with their threads, though they have an hour.
    eventually(lambda: threading.active_count() <= before + _MOST_REQUESTS)
    for connection in silent:
        connection.close()
    eventually(lambda: not server._requests)
    assert capfd.readouterr().err == ""


def test_a_log_that_nobody_reads_keeps_only_the_request_waiting_that_found_a_change(serve, web_file, caplog):
    caplog.set_level("INFO")
    server = serve("")
    replace(web_file, "# changed\n")
    with full_log():
        first = threading.Thread(target=get, args=(server,), daemon=True)
        first.start()
        eventually(lambda: server._access._signature == access._signature(web_file, WebConfig()))
        assert get(server)[0] == 200
        assert first.is_alive(), "the log is full"
    first.join()


def test_the_process_serves_by_its_web_configuration_and_tells_no_secret(authority, web_file, tmp_path):
    pair, hashed = authority.issue("server"), bcrypt("hunter2")
    replace(web_file, tls_file(pair) + f"basic_auth_users:\n  alice: {hashed}\n")
    with Daemon(tmp_path, {}, f"--web.config.file={web_file}", "--log-level=debug") as daemon:
        server, context = Listening(daemon.port), client_context(authority)
        status, body = get(server, context=context, Authorization=basic("alice", "hunter2"))
        assert status == 200
        assert "dutycycle_exporter_build_info" in body
        assert get(server, context=context, Authorization=basic("alice", "hunter3"))[0] == 401
        replace(web_file, tls_file(authority.issue("two")) + f"basic_auth_users:\n  alice: {hashed} \n  bob: x\n")
        daemon.signal(signal.SIGHUP)
        eventually(lambda: "bob: not a bcrypt hash" in daemon.log)
        assert get(server, context=context, Authorization=basic("alice", "hunter2"))[0] == 200
        assert served_name(server, authority) == "server"
        for secret in ("hunter", hashed, pair.key.read_text().splitlines()[1]):
            assert secret not in daemon.log


@dataclass
class Listening:
    """Where a server listens that runs elsewhere."""

    server_port: int
