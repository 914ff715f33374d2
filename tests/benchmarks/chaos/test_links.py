"""What is done to a link happens to connections that are open and to new ones, and ends when it is healed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.chaos.links import Link, damaged


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says everything again."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client:
            while data := client.recv(65536):
                client.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def link(echo: int) -> Iterator[Link]:
    with Link("test", echo) as made:
        yield made


def connect(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=5)


def say(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    answer = b""
    while len(answer) < len(text):
        got = client.recv(65536)
        if not got:
            break
        answer += got
    return answer


def test_what_is_said_comes_through(link: Link) -> None:
    with connect(link) as client:
        assert say(client, b"x" * 100_000) == b"x" * 100_000


def test_a_cut_link_ends_what_is_open_and_refuses_what_is_new_until_it_is_healed(link: Link) -> None:
    with connect(link) as client:
        assert say(client, b"before") == b"before"
        link.cut()
        with suppress(ConnectionError):
            assert client.recv(10) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(link)
    link.heal()
    with connect(link) as client:
        assert say(client, b"after") == b"after"


def test_a_silent_link_accepts_and_says_nothing_and_goes_on_when_it_is_healed(link: Link) -> None:
    link.silence()
    with connect(link) as client:
        client.sendall(b"hello")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(10)
        client.settimeout(5)
        link.heal()
        assert client.recv(10) == b"hello"


def test_a_slow_link_takes_its_time_each_way(link: Link) -> None:
    with connect(link) as client:
        assert say(client, b"quick") == b"quick"
        link.delay(0.2)
        began = time.monotonic()
        assert say(client, b"slow") == b"slow"
        assert time.monotonic() - began >= 0.4


def test_a_narrow_link_carries_so_many_bytes_a_second(link: Link) -> None:
    link.throttle(5000)
    with connect(link) as client:
        began = time.monotonic()
        assert say(client, b"x" * 2000) == b"x" * 2000
        assert time.monotonic() - began >= 0.3


def test_a_garbled_link_damages_what_it_carries_and_a_healed_one_does_not(link: Link) -> None:
    link.garble()
    with connect(link) as client:
        assert say(client, b"x" * 10_000) != b"x" * 10_000
    link.heal()
    with connect(link) as client:
        assert say(client, b"x" * 10_000) == b"x" * 10_000


def test_damage_begins_somewhere_and_does_not_end() -> None:
    assert damaged(b"abcd", 2) == bytes([0x61, 0x62, 0xE3, 0xE4])
    assert damaged(b"abcd", 0) == bytes([0xE1, 0xE2, 0xE3, 0xE4])


def test_a_link_may_stand_between_unix_sockets(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "server"))
    listener.listen()
    with Link("unix", tmp_path / "server", at=tmp_path / "link") as made, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "link"))
        client.sendall(b"hello")
        served, _ = listener.accept()
        with served:
            assert served.recv(10) == b"hello"
        made.cut()
        with socket.socket(socket.AF_UNIX) as late, pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            late.connect(str(tmp_path / "link"))
    listener.close()


def test_it_knows_whether_anything_came_to_be_carried_since_it_changed(link: Link) -> None:
    with connect(link) as client:
        assert say(client, b"well") == b"well"
        link.delay(0.01)
        assert link.met == 0
        assert say(client, b"slow") == b"slow"
        assert link.met == 2
