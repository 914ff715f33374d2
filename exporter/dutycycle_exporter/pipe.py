"""Messages from the NVML child to the exporter: frames over a pipe, of the classes in `model` alone.

A frame is its length, its checksum, and a pickle. The checksum is looked at before the pickle: in one that is damaged a
few bytes can name a place in a table of gigabytes, which the unpickler then makes.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import struct
import threading
import time
import zlib
from typing import Any

from dutycycle_exporter import model
from dutycycle_exporter.errors import ExporterError

Message = model.Snapshot | model.Xid | model.Asking | model.Returned | model.Unavailable

MAX_BYTES = 64 * 2**20
"""Longest frame that is taken: a snapshot of 16 GPUs with 10,000 processes each is a fifth of it."""

_LENGTH = _CHECKSUM = struct.Struct("!I")
_PIECE = 2**20


class PipeBrokenError(ExporterError):
    """There is no message, and there will be none on this pipe: what came is not one."""


class PipeClosedError(PipeBrokenError):
    """The other side is gone."""


class PipeSilentError(PipeBrokenError):
    """No message came in time, or only a part of one."""


class _Unpickler(pickle.Unpickler):
    """Makes nothing but the classes of `model`: a frame is data, whoever wrote it."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        found = getattr(model, global_name, None) if module_name == model.__name__ else None
        if not isinstance(found, type) or found.__module__ != model.__name__:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not part of a message")
        return found


def send(descriptor: int, message: Message) -> None:
    """Write one message, however long the other side takes. Raises PipeClosedError."""
    frame = pickle.dumps(message, protocol=5)
    rest = memoryview(_LENGTH.pack(len(frame)) + _CHECKSUM.pack(zlib.crc32(frame)) + frame)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        raise PipeClosedError(f"the exporter is gone: {error}") from error


class Sender:
    """The child's end of the pipe, for all of its threads: a frame is written whole before the next one begins."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """As `send` does, after whoever is writing. Raises PipeClosedError."""
        with self._lock:
            send(self._descriptor, message)


def wait(descriptor: int, within: float) -> bool:
    """Whether a message begins to come, or the other side goes, within so many seconds."""
    readable = select.poll()
    readable.register(descriptor, select.POLLIN)
    return bool(readable.poll(max(0.0, within) * 1000))


def receive(descriptor: int, *, within: float) -> Message:
    """Wait for one whole message, at most `within` seconds. Raises PipeBrokenError and its kinds."""
    deadline = time.monotonic() + within
    (length,) = _LENGTH.unpack(_read(descriptor, _LENGTH.size, deadline))
    if length > MAX_BYTES:
        raise PipeBrokenError(f"the NVML child sent a frame of {length} bytes")
    (checksum,) = _CHECKSUM.unpack(_read(descriptor, _CHECKSUM.size, deadline))
    frame = _read(descriptor, length, deadline)
    if zlib.crc32(frame) != checksum:
        raise PipeBrokenError(f"the NVML child sent a frame of {length} bytes that is damaged")
    try:
        message = _Unpickler(io.BytesIO(frame)).load()
    except Exception as error:
        # What is no pickle of ours can fail in any way that unpickling knows.
        raise PipeBrokenError(f"the NVML child sent what is not a message: {type(error).__name__}") from error
    if not isinstance(message, Message):
        raise PipeBrokenError(f"the NVML child sent {type(message).__name__}")
    return message


def _read(descriptor: int, size: int, deadline: float) -> bytes:
    """Exactly `size` bytes. A child that is stopped in the middle of a frame is as silent as one before it."""
    found = bytearray()
    while len(found) < size:
        if not wait(descriptor, deadline - time.monotonic()):
            raise PipeSilentError("the NVML child is silent")
        try:
            piece = os.read(descriptor, min(size - len(found), _PIECE))
        except OSError as error:
            raise PipeClosedError(f"the pipe from the NVML child cannot be read: {error}") from error
        if not piece:
            raise PipeClosedError("the NVML child closed its pipe")
        found += piece
    return bytes(found)
