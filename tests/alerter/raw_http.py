"""HTTP servers that behave as a test says, down to the byte, over real sockets."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behaviour = Callable[[socket.socket, threading.Event], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@contextmanager
def server(behave: Behaviour, path: str = "/metrics") -> Iterator[str]:
    """Its URL. Answers every connection, once its request has come, by `behave`; the event is set when all is over."""
    over, connections, threads = threading.Event(), [], []
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if _requested(connection):
                behave(connection, over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                threads.append(threading.Thread(target=handle, args=(connection,)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _requested(connection: socket.socket) -> bool:
    """Whether a whole request came, or the beginning of TLS: what is left unread would reset the connection."""
    request = connection.recv(65536)
    while request[:1] not in {b"", b"\x16"}:
        head, ended, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if ended and len(body) >= int(length[1] if length else 0):
            break
        more = connection.recv(65536)
        if not more:
            return False
        request += more
    return bool(request)


def answering(*parts: bytes) -> Behaviour:
    """Sends these bytes and closes."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        for part in parts:
            connection.sendall(part)

    return behave


def dripping(head: bytes, drop: bytes = b"x") -> Behaviour:
    """Sends a beginning, and then a little again and again, for ever."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.wait(0.02):
            connection.sendall(drop)

    return behave


def hanging(head: bytes) -> Behaviour:
    """Sends a beginning and then nothing."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        over.wait()

    return behave


def whole(body: bytes, status: str = "200 OK", extra: bytes = b"") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n".encode() + extra + b"\r\n" + body


def endless(block: bytes) -> Behaviour:
    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(OK + b"\r\n")
        while not over.is_set():
            connection.sendall(block)

    return behave
