"""What the client sends, seen by an HTTPS server: a form by POST, credentials and headers; secrets nowhere else."""

import json
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings.prometheus import Prometheus
from tests.exporter.certificates import Authority

ANSWER = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()


@dataclass
class Seen:
    """Where the server is, whose certificate it shows, and the requests that it got."""

    url: str
    ca: Path
    requests: list[tuple[str, str, dict[str, str], dict[str, str]]] = field(default_factory=list)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("access")
    authority = Authority(directory)
    own = authority.issue("server", "IP:127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.requests.append((self.command, self.path, headers, dict(parse_qsl(form, keep_blank_values=True))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        seen = Seen(f"https://127.0.0.1:{listening.server_port}/select/0/prometheus/", authority.pair.cert)
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield seen
        finally:
            listening.shutdown()
            thread.join()


@pytest.fixture
def ask(served: Seen) -> Iterator[Callable[..., tuple[str, str, dict[str, str], dict[str, str]]]]:
    """Asks once under these settings, and gives what the server saw."""
    clients = []

    def once(query: str = "up", at: float = 0, **settings: Any) -> tuple[str, str, dict[str, str], dict[str, str]]:
        clients.append(Client(Prometheus(url=served.url, ca_file=served.ca, **settings)))
        clients[-1].instant(query, at=at, labels=())
        return served.requests[-1]

    yield once
    for client in clients:
        client.close()


def test_a_query_is_a_form_by_post(ask: Callable[..., Any]) -> None:
    method, path, headers, form = ask('x{a="é&=+ %"}', 1700000000.1236, timeout="10s")
    assert (method, path) == ("POST", "/select/0/prometheus/api/v1/query")
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert headers["accept-encoding"] == "gzip"
    assert "authorization" not in headers
    assert form == {
        "query": 'x{a="é&=+ %"}',
        "time": "1700000000.124",
        "timeout": "9000ms",
        "partial_response": "false",
        "deny_partial_response": "1",
        "nocache": "1",
    }


def test_parameters_are_added_or_replaced(ask: Callable[..., Any]) -> None:
    form = ask(params={"partial_response": "true", "dedup": "true", "max_source_resolution": "0s"})[3]
    assert (form["partial_response"], form["dedup"], form["nocache"]) == ("true", "true", "1")


def test_credentials_and_headers_are_sent(ask: Callable[..., Any], tmp_path: Path) -> None:
    assert ask(bearer_token="abc.def")[2]["authorization"] == "Bearer abc.def"
    assert ask(username="dutycycle", password="open sesame")[2]["authorization"] == "Basic ZHV0eWN5Y2xlOm9wZW4gc2VzYW1l"
    headers = ask(bearer_token="abc", headers={"X-Scope-OrgID": "team-a|team-b", "X-Name": "ü"})[2]
    assert (headers["x-scope-orgid"], headers["authorization"]) == ("team-a|team-b", "Bearer abc")
    assert headers["x-name"].encode("latin-1").decode() == "ü"
    token = tmp_path / "token"
    token.write_text("from-a-file\r\n")
    assert ask(bearer_token_file=token)[2]["authorization"] == "Bearer from-a-file"


def test_a_token_file_that_is_replaced_is_read_again(served: Seen, tmp_path: Path) -> None:
    """As Kubernetes does it: the file is a link, and the link is exchanged."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    token = tmp_path / "token"
    token.symlink_to(tmp_path / "one")
    client = Client(Prometheus(url=served.url, ca_file=served.ca, bearer_token_file=token))
    try:
        for name in ("one", "two"):
            (tmp_path / "new").symlink_to(tmp_path / name)
            (tmp_path / "new").replace(token)
            client.instant("up", at=0, labels=())
            assert served.requests[-1][2]["authorization"] == f"Bearer {name}"
    finally:
        client.close()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read"),
        (b"", "on one line"),
        (b"\n\n", "on one line"),
        (b"s3cret\nmore", "on one line"),
        (b"s3cret\r\nX-Admin: yes", "on one line"),
        (b"s3cret\0", "on one line"),
        (b"s3cret\xff", "not text"),
        (b"s3cret" * 100_000, "on one line"),
        ("directory", "not a file|cannot be read"),
        ("pipe", "not a file"),
    ],
    ids=["missing", "empty", "blank", "two lines", "header", "NUL", "no text", "long", "directory", "pipe"],
)
def test_a_secret_that_cannot_be_used_is_named_and_not_shown(
    ask: Callable[..., Any], tmp_path: Path, content: bytes | str | None, why: str
) -> None:
    path = tmp_path / "token"
    if content == "directory":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    for key, more in (("bearer_token_file", {}), ("password_file", {"username": "u"})):
        with pytest.raises(SourceError, match=why) as error:
            ask(**{key: path}, **more)
        assert f"{key} {path}" in str(error.value)
        assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "content"),
    [("ca_file", None), ("ca_file", b"nonsense"), ("ca_file", b""), ("cert_file", None), ("cert_file", b"nonsense")],
)
def test_a_tls_file_that_cannot_be_used_is_named(served: Seen, tmp_path: Path, key: str, content: bytes | None) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_bytes(content)
    settings: dict[str, Any] = {"url": served.url, "ca_file": served.ca, key: path}
    client = Client(Prometheus(**settings))
    with pytest.raises(SourceError, match=rf"{key} {path}: not usable"):
        client.instant("up", at=0, labels=())


def test_an_encrypted_key_is_an_error_and_asks_nobody(served: Seen, tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("client")
    key = tmp_path / "encrypted.pem"
    command = ["openssl", "ec", "-in", str(pair.key), "-out", str(key), "-aes256", "-passout", "pass:x"]
    assert os.spawnvp(os.P_WAIT, command[0], command) == 0
    client = Client(Prometheus(url=served.url, ca_file=served.ca, cert_file=pair.cert, key_file=key))
    with pytest.raises(SourceError, match=r"cert_file .*encrypted"):
        client.instant("up", at=0, labels=())


def test_many_threads_may_ask_at_once(served: Seen) -> None:
    client = Client(Prometheus(url=served.url, ca_file=served.ca))
    try:
        threads = [threading.Thread(target=lambda: client.instant("up", at=0, labels=())) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.queries == 16
        assert client.bytes == 16 * len(ANSWER)
    finally:
        client.close()
