"""A web server whose page is made when the test lets it, and who asks for it."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

import pytest

from dutycycle_exporter.web import Scrapes, Server, make_app


class Collector:
    """Counts collections, and how many run at once."""

    def __init__(self):
        self.running = self.most = self.collections = 0
        self.help = "Help."
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def text(self):
        with self._lock:
            self.running += 1
            self.collections += 1
            self.most = max(self.most, self.running)
        self.gate.wait(60)
        with self._lock:
            self.running -= 1
        return f"# HELP up_ {self.help}\n# TYPE up_ gauge\nup_ 1.0\n"


class Verdicts:
    """Stands for the service: what the probes say."""

    def __init__(self):
        self.why_unready = self.why_unhealthy = ""

    def unready(self):
        return self.why_unready

    def unhealthy(self):
        return self.why_unhealthy


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def verdicts():
    return Verdicts()


@pytest.fixture
def scrapes(collector):
    return Scrapes(lambda: [collector.text()])


@pytest.fixture
def server(collector, scrapes, verdicts):
    server = Server("127.0.0.1:0", make_app(scrapes, verdicts))
    server.start()
    yield server
    collector.gate.set()
    server.stop()


def get(server, path, method="GET", **headers):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.server_port}{path}",
        method=method,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
