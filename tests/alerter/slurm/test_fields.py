"""Fields in the shapes of all releases; what is of a wrong type is not known, and counted."""

from typing import Any

import pytest

from dutycycle_alerter.slurm.fields import Fields, Nonsense


def fields(value: object) -> tuple[Fields, Nonsense]:
    nonsense = Nonsense()
    return Fields(value, nonsense, "job"), nonsense


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0, 0),
        (5, 5),
        (5.0, 5),
        (None, None),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": True, "number": 0}, 0),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": False, "infinite": True, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        ({"set": False}, None),
        ("Infinity", None),
        ("UNLIMITED", None),
        (2**32 - 2, None),
        (2**32 - 1, None),
        (2**64 - 2, None),
        (-2, None),
    ],
)
def test_a_number_and_where_there_is_none(value: object, found: int | None) -> None:
    read, nonsense = fields({"x": value})
    assert read.number("x") == found
    assert not nonsense


@pytest.mark.parametrize(
    "value",
    [
        *(True, "5", -7, 1.5, float("nan"), float("inf"), [], [5], {}, {"value": 5}, {"set": True, "number": "5"}),
        *({"set": True, "number": True}, {"set": True, "number": {"number": 5}}, 2**70, "x" * 10**6),
    ],
)
def test_what_is_no_number_is_not_known_and_counted(value: object) -> None:
    read, nonsense = fields({"x": value})
    assert read.number("x") is None
    assert nonsense == {"job.x": 1}


def test_the_first_name_that_is_there_counts() -> None:
    read, nonsense = fields({"old": 1, "new": None})
    assert read.number("new", "old") == 1
    assert not nonsense


def test_numbers_of_sixteen_bits_end_earlier() -> None:
    read, _ = fields({"x": 65534})
    assert (read.number("x"), read.number("x", wide=False)) == (65534, None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("RUNNING", ("RUNNING",)),
        ("running", ("RUNNING",)),
        (["RUNNING", "COMPLETING"], ("RUNNING", "COMPLETING")),
        ("IDLE+DRAIN", ("IDLE", "DRAIN")),
        ("", ()),
        ([], ()),
        (None, ()),
    ],
)
def test_words_from_a_text_or_a_list(value: object, found: tuple[str, ...]) -> None:
    read, nonsense = fields({"x": value})
    assert read.words("x") == found
    assert not nonsense


@pytest.mark.parametrize(
    ("method", "value", "nothing"),
    [
        ("words", 5, ()),
        ("words", [5], ()),
        ("words", {"RUNNING": True}, ()),
        ("text", 5, ""),
        ("text", ["a"], ""),
        ("texts", "a", ()),
        ("texts", [None], ()),
        ("flag", "yes", None),
        ("flag", 2, None),
        ("time", "yesterday", None),
    ],
)
def test_what_is_of_a_wrong_type_is_not_known_and_counted(method: str, value: object, nothing: Any) -> None:
    read, nonsense = fields({"x": value})
    assert getattr(read, method)("x") == nothing
    assert nonsense == {"job.x": 1}


def test_parts_within_parts_are_counted_by_their_path() -> None:
    read, nonsense = fields({"a": {"b": "x"}, "c": [{"d": "x"}, 5], "e": 5})
    assert read.part("a").number("b") is None
    assert [part.number("d") for part in read.parts("c")] == [None]
    assert read.part("e").number("b") is None
    assert list(read.parts("e")) == []
    assert nonsense == {"job.a.b": 1, "job.c.d": 1, "job.c": 1, "job.e": 2}


def test_a_long_text_is_cut() -> None:
    read, _ = fields({"x": "a" * 10**6})
    assert len(read.text("x")) == 65536


@pytest.mark.parametrize("value", [0, 1, False, True])
def test_a_flag_may_be_a_number(value: int) -> None:
    read, _ = fields({"x": value})
    assert read.flag("x") is bool(value)
