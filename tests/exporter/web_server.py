"""A web server under a web configuration, and who asks it."""

from __future__ import annotations

import base64
import http.client
import ssl

import pytest

from dutycycle_exporter.web import Access, Scrapes, Server, make_app, passwords
from tests.exporter.certificates import Authority

PAGE = "# TYPE up_ gauge\nup_ 1.0\n"


class Well:
    """Nothing is wrong with it."""

    def unready(self):
        return ""

    def unhealthy(self):
        return ""


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def web_file(tmp_path):
    return tmp_path / "web.yml"


@pytest.fixture
def serve(web_file):
    """Starts a server with this web configuration."""
    servers = []

    def start(text):
        replace(web_file, text)
        access = Access(web_file)
        server = Server("127.0.0.1:0", make_app(Scrapes(lambda: [PAGE]), Well(), access), access)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def replace(path, text):
    """As a mounted secret is: by renaming."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def bcrypt(password, cost="04"):
    return passwords._crypt(password.encode(), f"$2y${cost}$abcdefghijklmnopqrstuu".encode()).decode()


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def get(server, path="/metrics", *, context=None, method="GET", **headers):
    kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    options = {} if context is None else {"context": context}
    connection = kind("127.0.0.1", server.server_port, timeout=60, **options)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def client_context(authority, pair=None):
    context = ssl.create_default_context(cafile=str(authority.pair.cert))
    context.check_hostname = False
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def tls_file(pair, *lines):
    return "\n".join(["tls_server_config:", f"  cert_file: {pair.cert}", f"  key_file: {pair.key}", *lines, ""])
