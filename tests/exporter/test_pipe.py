"""A frame is a message of ours or it is refused; nothing in it is ever run, and none is waited for beyond its time."""

from __future__ import annotations

import os
import pickle
import struct
import threading
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.model import Asking, GpuReading, Ownership, Process, Returned, Snapshot, Span, Unavailable, Xid
from dutycycle_exporter.pipe import (
    MAX_BYTES,
    PipeBrokenError,
    PipeClosedError,
    PipeSilentError,
    Sender,
    receive,
    send,
)

PATIENCE = 60.0


class Ends:
    """Both ends of a pipe; either can be closed."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self._open = {self.reader, self.writer}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in list(self._open):
            self.close(end)

    def close(self, end):
        self._open.remove(end)
        os.close(end)

    def write(self, data):
        os.write(self.writer, data)

    def frame(self, data):
        self.write(struct.pack("!II", len(data), zlib.crc32(data)) + data)


@pytest.fixture
def ends():
    with Ends() as ends:
        yield ends


def test_messages_arrive_as_they_were_sent(ends):
    gpu = GpuReading("GPU-1", 0, "H100", spans=(Span(1.0, 2.0, 0.5),), processes=(Process(7, None, 0.25),))
    messages = [
        Snapshot(5.0, (gpu,), failures={("nvmlDeviceGetName", "unknown"): 2}, ownership=Ownership(pids={7: "slurm/1"})),
        Xid("GPU-1", 79, 5.5),
        Asking((1, 8), 7),
        Returned(),
        Unavailable(6.0, "driver_not_loaded", "no driver"),
    ]
    for message in messages:
        send(ends.writer, message)
    assert [receive(ends.reader, within=PATIENCE) for _ in messages] == messages


def test_a_snapshot_far_beyond_what_the_pipe_holds_arrives(ends):
    """16 GPUs with 10,000 processes each."""
    processes = tuple(Process(pid, 1e9 + pid, pid / 1e5) for pid in range(10_000))
    message = Snapshot(5.0, tuple(GpuReading(f"GPU-{n}", n, "H100", processes=processes) for n in range(16)))
    # Processes of different GPUs are different objects in a real snapshot: nothing is told by reference.
    message = pickle.loads(pickle.dumps(message))
    sender = threading.Thread(target=send, args=(ends.writer, message))
    sender.start()
    assert receive(ends.reader, within=PATIENCE) == message
    sender.join()
    assert len(pickle.dumps(message, protocol=5)) < MAX_BYTES / 4


def test_what_several_threads_send_at_once_does_not_mix(ends):
    """A snapshot that is larger than the pipe, and XIDs meanwhile."""
    sender = Sender(ends.writer)
    large = Snapshot(5.0, (GpuReading("GPU-1", 0, "H" * 10**6),))
    threads = [threading.Thread(target=sender.send, args=(large,))]
    threads += [threading.Thread(target=sender.send, args=(Xid("GPU-1", code, 1.0),)) for code in range(8)]
    for thread in threads:
        thread.start()
    found = [receive(ends.reader, within=PATIENCE) for _ in threads]
    assert large in found
    assert {message.code for message in found if isinstance(message, Xid)} == set(range(8))
    for thread in threads:
        thread.join()


class Evil:
    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return Path.touch, (self._path,)


def hostile_frames(path):
    """Frames by what is wrong with them; one of them would make a file at `path`."""
    return {
        "empty": b"",
        "zeros": b"\x00" * 100,
        "not a pickle": b'{"t": 1}',
        "a call": pickle.dumps(Evil(path)),
        "a builtin": b"cbuiltins\neval\n(S'1'\ntR.",
        "what the model imports": b"cdutycycle_exporter.model\ndataclass\n(tR.",
        "a module's attribute": b"cdutycycle_exporter.model\n__builtins__\n.",
        "a number": pickle.dumps(42),
        "a list of messages": pickle.dumps([Snapshot(1.0, ())]),
        "a part of a message": pickle.dumps(GpuReading("GPU-1", 0, "H100")),
        "cut short": pickle.dumps(Snapshot(1.0, ()))[:-4],
    }


@pytest.mark.parametrize("what", hostile_frames(Path("unused")))
def test_what_is_not_a_message_is_refused(ends, tmp_path, what):
    ends.frame(hostile_frames(tmp_path / "owned")[what])
    with pytest.raises(PipeBrokenError, match="NVML child sent"):
        receive(ends.reader, within=PATIENCE)
    assert not (tmp_path / "owned").exists()


@given(st.binary(max_size=200))
def test_any_bytes_in_a_frame_are_refused(content):
    with Ends() as ends:
        ends.frame(content)
        with pytest.raises(PipeBrokenError):
            receive(ends.reader, within=PATIENCE)


@given(st.binary(max_size=200))
def test_any_bytes_instead_of_frames_are_refused(content):
    with Ends() as ends:
        ends.write(content)
        ends.close(ends.writer)
        with pytest.raises(PipeBrokenError):
            receive(ends.reader, within=PATIENCE)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_snapshot_is_refused(place, difference):
    gpu = GpuReading("GPU-1", 0, "H100", spans=(Span(1.0, 2.0, 0.5),), processes=(Process(7, None, 0.25),))
    frame = pickle.dumps(Snapshot(5.0, (gpu,)), protocol=5)
    damaged = bytearray(frame)
    damaged[place % len(frame)] ^= difference
    with Ends() as ends:
        ends.write(struct.pack("!II", len(frame), zlib.crc32(frame)) + damaged)
        with pytest.raises(PipeBrokenError, match="damaged"):
            receive(ends.reader, within=PATIENCE)


def test_damage_that_would_take_gigabytes_to_unpickle_takes_none(ends):
    """A place in the unpickler's table (LONG_BINPUT): the table is made that long."""
    ends.write(struct.pack("!II", 7, 1) + b"Nr\xff\xff\xff\x04.")
    tracemalloc.start()
    try:
        with pytest.raises(PipeBrokenError, match="damaged"):
            receive(ends.reader, within=PATIENCE)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_frame_beyond_the_limit_is_not_read(ends):
    ends.write(struct.pack("!I", MAX_BYTES + 1))
    with pytest.raises(PipeBrokenError, match="bytes"):
        receive(ends.reader, within=PATIENCE)


@pytest.mark.parametrize("written", [b"", b"\x00\x00", struct.pack("!I", 100), struct.pack("!I", 100) + b"abc"])
def test_a_child_that_is_silent_before_or_within_a_frame_is_not_waited_for(ends, written):
    ends.write(written)
    with pytest.raises(PipeSilentError):
        receive(ends.reader, within=0.01)


@pytest.mark.parametrize("written", [b"", b"\x00\x00", struct.pack("!I", 100) + b"abc"])
def test_the_end_of_the_other_side_is_told(ends, written):
    ends.write(written)
    ends.close(ends.writer)
    with pytest.raises(PipeClosedError, match="closed"):
        receive(ends.reader, within=PATIENCE)


def test_a_child_without_an_exporter_notices_when_it_sends(ends):
    ends.close(ends.reader)
    with pytest.raises(PipeClosedError, match="gone"):
        send(ends.writer, Unavailable(1.0, "x", "y"))
