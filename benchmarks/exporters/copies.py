"""One exporter's page as the pages of many nodes: what the Prometheus of a large fleet scrapes."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NODES = "node-{}:1"
"""Targets, which `relabelled` turns into a parameter of the one address."""

_NAMED = re.compile(r'(node="[^"]*|uuid="GPU-[^"]*|workload="(?:slurm/\d+|k8s/[^"]*)|job_id="\d+)(?=")')
_FRESH = 0.5
"""Seconds for which a page that was read is still now's: all copies are of one."""


def renamed(page: str, copy: int) -> str:
    """The page of another node: the node, its GPUs and its jobs have other names."""
    return _NAMED.sub(rf"\g<1>{copy:03d}", page)


def relabelled(address: str) -> str:
    """Lines of a scrape job whose targets are NODES."""
    return (
        "honor_labels: true\nrelabel_configs:\n"
        "  - {source_labels: [__address__], regex: 'node-(.*):1', target_label: __param_node}\n"
        f"  - {{target_label: __address__, replacement: '{address}'}}\n"
        "  - {source_labels: [__param_node], target_label: instance}"
    )


@contextmanager
def served(source: str) -> Iterator[str]:
    """The address at which `/metrics?node=N` is the page of node N, made from the one at the URL `source`."""
    page, read, lock = "", 0.0, threading.Lock()

    def latest() -> str:
        nonlocal page, read
        with lock:
            if time.monotonic() - read > _FRESH:
                with urllib.request.urlopen(source, timeout=30) as answer:
                    page, read = answer.read().decode(), time.monotonic()
            return page

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = renamed(latest(), int(self.path.rpartition("=")[2])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A benchmark prints figures alone."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
