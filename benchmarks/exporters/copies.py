"""One exporter's page as the pages of many nodes: what the Prometheus of a large fleet scrapes."""

from __future__ import annotations

import gzip
import multiprocessing
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NODES = "node-{}:1"
"""Targets, which `relabelled` turns into a parameter of the one address."""

_NAMED = re.compile(rb'(?:node="[^"]*|uuid="GPU-[^"]*|workload="(?:slurm/\d+|k8s/[^"]*)|job_id="\d+)(?=")')
_FRESH = 0.5
"""Seconds for which a page that was read is still now's: all copies are of one."""
_LEVEL = 1
"""Of compression: it is the server's cost, and not to be measured."""


class Copies:
    """The pages of other nodes, made of one: nodes, GPUs and jobs have other names there."""

    def __init__(self, page: bytes) -> None:
        ends = [found.end() for found in _NAMED.finditer(page)]
        self._pieces = [page[begin:end] for begin, end in zip([0, *ends], [*ends, len(page)], strict=True)]

    def of(self, copy: int) -> bytes:
        """The page of node `copy`."""
        return f"{copy:04d}".encode().join(self._pieces)


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
    """The address at which `/metrics?node=N` is the page of node N, made from the one at the URL `source`.

    By a process of its own: in this one the double's time passes, for which a page would have to wait.
    """
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    process = context.Process(target=_serve, args=(source, ready.put), daemon=True)
    process.start()
    try:
        yield f"127.0.0.1:{ready.get(timeout=60)}"
    finally:
        process.terminate()
        process.join()


def _serve(source: str, ready: Callable[[int], None]) -> None:
    """Until the process ends, gzipped as the exporter's pages are."""
    copies, read, lock = Copies(b""), float("-inf"), threading.Lock()

    def latest() -> Copies:
        nonlocal copies, read
        with lock:
            if time.monotonic() - read > _FRESH:
                with urllib.request.urlopen(source, timeout=30) as answer:
                    copies, read = Copies(answer.read()), time.monotonic()
            return copies

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = gzip.compress(latest().of(int(self.path.rpartition("=")[2])), _LEVEL)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A benchmark prints figures alone."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 1024

        def handle_error(self, *_: object) -> None:
            """A Prometheus that is stopped leaves its connections."""

    with Server(("127.0.0.1", 0), Handler) as server:
        ready(server.server_port)
        server.serve_forever()
