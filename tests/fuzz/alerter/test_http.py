"""The bytes of any server that the alerter asks, exporters' pages in them, and what an environment names a proxy."""

from __future__ import annotations

import gzip
import os
import socket
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import example
from hypothesis import strategies as st
from urllib3.connectionpool import HTTPConnectionPool

from dutycycle_alerter.bounded_http import Connections, _HTTPConnection, proxy_of
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.sources.fetch import Fetcher
from tests.fuzz.hostile import documents, texts
from tests.fuzz.running import fuzz

LIMIT = 1 << 16
URL = "http://server.example:9090/api/v1/query"
PACKED = gzip.compress(b'{"status":"success"}', mtime=0)
BOMB = gzip.compress(bytes(1 << 22), mtime=0)
HTTP = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\ngpu_visible 1\n",
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy",
    b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(PACKED), PACKED),
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(BOMB), BOMB),
)
LINES = (
    *(b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Content-Length: 2, 3\r\n", b"HTTP/9.9"),
    *(b"ffffffffffffffff\r\n", b"-1\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: deflate, gzip\r\n"),
    *(b"Content-Encoding: br\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"204", b" 000 ", b"Set-Cookie: a=b\r\n" * 200),
)


class _Ready(_HTTPConnection):
    """A connection on which all that will ever come lies ready."""

    def __init__(self, *arguments: Any, said: bytes, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._said = said
        self._theirs: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        ours, self._theirs = socket.socketpair()
        ours.settimeout(self.timeout)
        self._theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._theirs.sendall(self._said[: 1 << 17])
        self._theirs.shutdown(socket.SHUT_WR)
        return ours

    def close(self) -> None:
        super().close()
        if self._theirs is not None:
            self._theirs.close()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Ready


def connections(said: bytes) -> Connections:
    made = Connections(5.0)
    made._pool.pool_classes_by_scheme = {"http": partial(_Pool, said=said)}  # type: ignore[dict-item]
    return made


@fuzz(said=documents(HTTP, tokens=LINES), only_status=st.booleans(), repeat=st.booleans())
@example(said=HTTP[-1], only_status=False, repeat=True)
def test_any_bytes_of_a_server_are_an_answer_or_refused(said: bytes, only_status: bool, repeat: bool) -> None:
    asked = connections(said)
    try:
        answer = asked.request(
            "POST", URL, headers={}, max_bytes=LIMIT, body=b"x", only_status=only_status, repeat=repeat
        )
    except SourceError as error:
        assert str(error).startswith(URL), "names the address"
        assert str(error).isprintable()
        assert len(str(error)) < 1000
        return
    finally:
        asked.close()
    assert 0 <= answer.status <= 999
    assert len(answer.body) <= LIMIT
    assert not (only_status and 200 <= answer.status < 300 and answer.body)
    assert all(name == name.lower() for name in answer.headers)


@fuzz(said=documents([HTTP[2], HTTP[3], HTTP[5]], tokens=(*LINES, b"\xff", b"gpu_visible 1\n")))
def test_any_bytes_of_an_exporter_are_a_page_or_refused(said: bytes) -> None:
    fetcher = Fetcher(5.0)
    fetcher._connections[""] = connections(said)
    try:
        assert isinstance(fetcher.get(URL), str)
    except SourceError as error:
        assert str(error).startswith(URL), "names the address"
        assert str(error).isprintable()
        assert len(str(error)) < 1000
    finally:
        fetcher.close()


PROXIES = ("http://proxy.example:3128", "proxy.example", "https://user:p%40ss@[::1]:8080/", "socks5h://proxy.example")


@fuzz(named=texts(PROXIES, tokens=["://", "[", "]", ":99999", "@", "%", " ", "//"]))
@example(named="http://[::1")
@example(named="http://proxy.example:port")
def test_what_the_environment_names_is_a_proxy_or_refused(named: str) -> None:
    # Whatever a variable can be: any bytes but NUL.
    said = os.fsdecode(named.encode("utf-8", "surrogatepass")).replace("\0", "")
    with mock.patch.dict(os.environ, {"https_proxy": said}, clear=True):
        try:
            found = proxy_of("https://hooks.example/x")
        except SourceError as error:
            assert str(error).startswith("HTTPS_PROXY: expected a URL")
            return
    if found is not None:
        Connections(1.0, proxy=found).close()
