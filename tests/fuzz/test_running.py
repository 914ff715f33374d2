"""The fuzz tests' own machinery: what it would find, and that it says how to see it again."""

from __future__ import annotations

import gc
import gzip
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from tests.fuzz import running
from tests.fuzz.hostile import SCRIPTS, documents, jsons, mutated, packed, values
from tests.fuzz.running import HANG, _run, watched

SOUND = b'{"a": [1, 2], "b": "x"}'
STRANGE: list[object] = [[], {"b": [[]]}]


def found(check: Callable[[bytes], None]) -> BaseException:
    with pytest.raises(Exception) as failed:  # noqa: PT011 - whatever the check raises
        _run(check, {"content": documents([SOUND])}, {}, 300, None, first=True)
    return failed.value


def test_a_crash_is_found_and_told_with_the_input_that_made_it() -> None:
    def check(content: bytes) -> None:
        if b"\0" in content:
            raise KeyError(content)

    error = found(check)
    assert isinstance(error, KeyError)
    assert any("content=b'" in note for note in error.__notes__)


def test_a_hang_is_cut_off_whatever_the_parser_catches() -> None:
    def check(content: bytes) -> None:
        while True:
            try:
                while True:
                    pass
            except Exception:  # noqa: BLE001
                continue

    with pytest.raises(AssertionError, match=r"no answer within 0\.05 s"):
        watched(check, seconds_at_once=0.05 / HANG)(b"")


def test_time_out_of_proportion_to_the_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # What cuts off a hang counts by ticks, and on a busy machine finds more than was used.
    monkeypatch.setattr(running, "HANG", 100)

    def check(content: bytes) -> None:
        began = time.process_time()
        while time.process_time() - began < 0.02 * len(content) ** 2:
            pass

    run = watched(check, seconds_per_byte=0.03, seconds_at_once=0.03)
    run(b"a")
    with pytest.raises(AssertionError, match="of processor time, where the input explains 0"):
        run(b"abcd")


def test_time_and_memory_that_are_spent_once_are_not_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "HANG", 100)
    once = [bytearray]

    def check(content: bytes) -> None:
        began = time.process_time()
        while once and time.process_time() - began < 0.1:
            pass
        for spend in once:
            spend(2 << 20)
        once.clear()

    watched(check, at_once=1 << 20, seconds_at_once=0.05)(b"")
    assert not once


def test_waiting_is_no_processor_time() -> None:
    watched(lambda content: time.sleep(0.2), seconds_at_once=0.1)(b"")


def test_memory_out_of_proportion_to_the_input_is_found() -> None:
    def check(content: bytes) -> None:
        bytearray(len(content) << 20)

    watched(check, per_byte=10, at_once=1 << 20)(b"")
    with pytest.raises(AssertionError, match="bytes of memory at once"):
        watched(check, per_byte=10, at_once=1 << 20)(b"abc")


def test_memory_without_bounds_is_not_to_be_had() -> None:
    def check(content: bytes) -> None:
        bytearray(1 << 34)

    with pytest.raises(MemoryError):
        watched(check)(b"")


def test_nothing_of_others_runs_where_a_parser_is_at_its_limits() -> None:
    """A collection of garbage may come at the depth of a recursion: what fails in it is told of the test, too late."""
    called = []

    def callback(phase: str, _: dict[str, int]) -> None:
        called.append(phase)

    def check(content: bytes) -> None:
        kept = [[] for _ in range(100_000)]
        with pytest.raises(RecursionError):
            check_deeper(kept)

    def check_deeper(kept: list[list[object]]) -> None:
        kept.append([])
        check_deeper(kept)

    gc.callbacks.append(callback)
    try:
        check(b"")
        assert called
        called.clear()
        watched(check)(b"")
        assert "start" not in called
    finally:
        gc.callbacks.remove(callback)
    assert gc.isenabled()


def test_a_script_of_zeros_changes_nothing() -> None:
    assert find(mutated([SOUND]), lambda _: True) == SOUND
    assert find(values([{"a": 1}], strange=[None]), lambda _: True) == {"a": 1}
    assert not any(find(SCRIPTS, lambda _: True))


@given(value=values([{"a": [1]}], strange=STRANGE))
def test_a_strange_value_is_put_in_as_a_copy_and_stays_as_it_was(value: object) -> None:
    """Else later examples, and a value within itself, come of steps that change what is in it."""
    assert STRANGE == [[], {"b": [[]]}]
    json.dumps(value)


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of what is long to print
@pytest.mark.parametrize(
    "wanted",
    [
        lambda content: content == SOUND[: len(SOUND) // 2],
        lambda content: b"\0" in content,
        lambda content: content.count(b'"a"') > 1,
        lambda content: len(content) > 50_000,
        lambda content: content.startswith(SOUND[:5]) and content.endswith(SOUND[-5:]) and content != SOUND,
    ],
    ids=["cut short", "NUL", "a key twice", "long", "nearly right"],
)
def test_documents_come_in_every_bad_shape(wanted: Callable[[bytes], bool]) -> None:
    find(documents([SOUND]), wanted)


@pytest.mark.parametrize("text", [b"NaN", b"1e400", b"[[[[[[[[", b"\\ud800", b"null", b'"a":1,"a":2'])
def test_json_comes_with_what_no_writer_of_pythons_makes(text: bytes) -> None:
    find(jsons([json.loads(SOUND)]), lambda content: text in content and b'"b"' in content)


def test_files_come_plain_packed_and_damaged() -> None:
    def damaged(content: bytes) -> bool:
        try:
            gzip.decompress(content)
        except Exception:  # noqa: BLE001
            return content.startswith(b"\x1f\x8b")
        return False

    files = packed(st.just(SOUND))
    for wanted in (SOUND.__eq__, lambda content: gzip.decompress(content) == SOUND, damaged):
        find(files.filter(lambda content: content == SOUND or content[:2] == b"\x1f\x8b"), _quietly(wanted))


def _quietly(wanted: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    def asked(content: bytes) -> bool:
        try:
            return wanted(content)
        except Exception:  # noqa: BLE001
            return False

    return asked
