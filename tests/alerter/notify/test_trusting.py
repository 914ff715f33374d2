"""Receivers judge a server by the site's own authority, also after its file was replaced."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.model import OPERATORS, Parcel, ParcelKind, Receiver
from dutycycle_alerter.notify.receivers.slack import SlackReceiver
from dutycycle_alerter.notify.receivers.slack_webhook import SlackWebhookReceiver
from dutycycle_alerter.notify.receivers.webhook import WebhookReceiver
from dutycycle_alerter.settings.notify import People, Slack, SlackWebhook, Webhook
from dutycycle_alerter.settings.notify.receivers import keeps_secrets
from tests.alerter.notify.listening import PlainComposer
from tests.alerter.notify.slack_site import Composer
from tests.exporter.certificates import Authority


@dataclass
class Encrypted:
    """A server that says yes to everything, in Slack's words. `trusted` is its authority's certificate."""

    url: str
    trusted: bytes
    requests: list[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    pair = authority.issue("hook", "IP:127.0.0.1")
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            requests.append(self.path)
            answer = b'{"ok": true, "channel": "C1", "ts": "1.0"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *arguments: object) -> None:
            """A handshake that the client refuses is what the tests are about."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with Server(("127.0.0.1", 0), Handler) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        try:
            url = f"https://127.0.0.1:{http.server_port}/"
            yield Encrypted(url, authority.pair.cert.read_bytes() + b"\n", requests)
        finally:
            http.shutdown()
            thread.join()


def slack(url: str, ca_file: Path) -> Receiver:
    settings = Slack.model_validate({"token": "xoxb-1", "channel": "C1", "url": url, "ca_file": ca_file})
    return SlackReceiver("ops", settings, Addresses(People()), Composer())


def slack_webhook(url: str, ca_file: Path) -> Receiver:
    settings = SlackWebhook.model_validate({"url": f"{url}services/T0KEN", "ca_file": ca_file})
    return SlackWebhookReceiver("hook", settings, Composer())


def webhook(url: str, ca_file: Path) -> Receiver:
    return WebhookReceiver("tickets", Webhook(url=url, ca_file=ca_file), PlainComposer())


@pytest.mark.parametrize("make", [slack, slack_webhook, webhook])
def test_a_server_is_judged_by_the_sites_authority_also_after_it_was_replaced(
    server: Encrypted, make: Callable[[str, Path], Receiver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    parcel = Parcel("k", ParcelKind.TEST, OPERATORS, (), 1_790_000_000.0)
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(Authority(tmp_path, "other").pair.cert.read_bytes())
    server.requests.clear()
    receiver = make(server.url, trusted)
    with pytest.raises(DeliveryError, match="certificate verify failed"):
        receiver.deliver(parcel)
    trusted.write_bytes(server.trusted)
    receiver.deliver(parcel)
    assert len(server.requests) == 1
    trusted.write_bytes(b"nonsense")
    with pytest.raises(DeliveryError, match=f"ca_file {trusted}: not usable"):
        receiver.deliver(parcel)
    receiver.close()


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://slack.example.org/api/", True),
        ("http://127.0.0.1:8080/api/", True),
        ("http://[::1]/", True),
        ("http://localhost/", True),
        ("http://slack.example.org/api/", False),
        ("http://127.0.0.1.example.org/", False),
        ("http://localhost.example.org/", False),
        ("http://10.0.0.1/", False),
        ("http://[fe80::1]/", False),
    ],
)
def test_a_secret_goes_encrypted_or_nowhere(url: str, kept: bool) -> None:
    assert keeps_secrets(url) is kept
    for section, given in ((Slack, {"token": "xoxb-1", "url": url}), (SlackWebhook, {"url": f"{url}T0KEN"})):
        if kept:
            section.model_validate(given)
            continue
        with pytest.raises(ValidationError, match="expected https://") as error:
            section.model_validate(given)
        assert "T0KEN" not in str(error.value.errors(include_url=False, include_input=False, include_context=False))
