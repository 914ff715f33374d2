"""The pipe from the NVML child: bytes of a process that a driver may have damaged."""

from __future__ import annotations

import os
import pickle
import struct
import threading
import zlib

from hypothesis import assume, example
from hypothesis import strategies as st

from dutycycle_exporter.model import Asking, GpuReading, Process, Snapshot, Span, Unavailable, Xid
from dutycycle_exporter.pipe import Message, PipeBrokenError, receive, send
from tests.fuzz.hostile import documents
from tests.fuzz.running import fuzz

MESSAGES = (
    Snapshot(
        5.0,
        (
            GpuReading("GPU-1", 0, "H100", spans=(Span(1.0, 2.0, 0.5),), processes=(Process(7, None, 0.25),)),
            GpuReading("GPU-2", 1, "H100", throttle=(("thermal", 1.5),), mig="MIG-1", gpu_instance=7),
        ),
    ),
    Unavailable(5.0, "no_driver", "NVML: driver not loaded"),
    Xid("GPU-1", 79, 5.0),
)
PICKLES = tuple(pickle.dumps(message, protocol=protocol) for message in MESSAGES for protocol in (2, 5))
OPCODES = (
    *(b"r\xff\xff\xff\x00", b"r\xff\xff\xff\xff", b"p9999999\n", b"B\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 7 + b"\0"),
    *(
        b"\x8b\xff\xff\xff\x7f",
        b"\x96" + b"\xff" * 5 + b"\0\0\0",
        b"X\xff\xff\xff\x7f",
        b"cos\nsystem\n",
        b"R",
        b"b",
        b"0",
    ),
    *(
        b"2" * 2000,
        b"(" * 3000,
        b"]" * 3000,
        b"\x85" * 3000,
        b"\x94",
        b"s",
        b"u",
        b"e",
        b"a",
        b"I" + b"9" * 5000 + b"\n",
    ),
    *(b"P1\n", b"Q", b"\x82\x01", b"\x95" + b"\xff" * 8, b"cdutycycle_exporter.model\nSnapshot\n", b"\x81", b"."),
)
FRAMES = documents(PICKLES, tokens=OPCODES)


def received(data: bytes) -> Message:
    reader, writer = os.pipe()

    def write() -> None:
        try:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(data)
        except BrokenPipeError:
            return

    if len(data) <= 4096:
        write()
        thread = None
    else:
        thread = threading.Thread(target=write)
        thread.start()
    try:
        return receive(reader, within=60.0)
    finally:
        os.close(reader)
        if thread is not None:
            thread.join()


@fuzz(sent=FRAMES, came=FRAMES, claimed=st.none() | st.integers(0, 2**32 - 1))
@example(sent=b"", came=b"Nr\xff\xff\xff\x04.", claimed=7)
def test_bytes_that_are_not_what_was_sent_are_refused(sent: bytes, came: bytes, claimed: int | None) -> None:
    length = len(came) if claimed is None else claimed
    # What comes as it was sent is a message, of which ours asks for no more room than it fills.
    assume(came[:length] != sent or sent in PICKLES)
    try:
        message = received(struct.pack("!II", length, zlib.crc32(sent)) + came)
    except PipeBrokenError:
        return
    assert came[:length] == sent
    assert isinstance(message, Message)


PROCESSES = st.lists(st.builds(Process, st.integers(0, 2**31), st.none() | st.floats(0, 1e12)), max_size=3).map(tuple)
GPUS = st.builds(
    GpuReading,
    uuid=st.text(max_size=20),
    index=st.integers(0, 20),
    model=st.text(max_size=20),
    processes=st.none() | PROCESSES,
    memory_used=st.none() | st.floats(0, 1e12),
    throttle=st.lists(st.tuples(st.text(max_size=5), st.floats(0, 1e9)), max_size=2).map(tuple),
)
SNAPSHOTS = st.builds(Snapshot, st.floats(0, 4e9), st.lists(GPUS, max_size=3).map(tuple))


OTHERS = st.one_of(
    st.builds(Unavailable, st.floats(0, 4e9), st.text(max_size=20), st.text(max_size=40)),
    st.builds(Xid, st.text(max_size=20), st.integers(0, 2**64 - 1), st.floats(0, 4e9)),
    st.builds(Asking, st.tuples(st.integers(0, 16), st.integers(1, 16)), st.integers(0, 15)),
)


@fuzz(message=SNAPSHOTS | OTHERS)
def test_what_is_sent_comes_as_it_was(message: Message) -> None:
    reader, writer = os.pipe()
    try:
        send(writer, message)
        assert receive(reader, within=60.0) == message
    finally:
        os.close(reader)
        os.close(writer)
