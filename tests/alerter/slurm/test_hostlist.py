"""Host lists: Slurm's notation for many names, round trips, and texts that would never end."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutycycle_alerter.slurm.hostlist import MOST, expand, numbers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("gpu01", ("gpu01",)),
        ("gpu[01-04,07]", ("gpu01", "gpu02", "gpu03", "gpu04", "gpu07")),
        ("gpu[08-11]", ("gpu08", "gpu09", "gpu10", "gpu11")),
        ("gpu[8-11]", ("gpu8", "gpu9", "gpu10", "gpu11")),
        ("gpu[099-101]", ("gpu099", "gpu100", "gpu101")),
        ("gpu[0]", ("gpu0",)),
        ("rack[1-2]-n[01-02]", ("rack1-n01", "rack1-n02", "rack2-n01", "rack2-n02")),
        ("gpu[1-2]-ib", ("gpu1-ib", "gpu2-ib")),
        ("login,gpu[1,3],c1-28", ("login", "gpu1", "gpu3", "c1-28")),
        ("cn[001-002,052-053]", ("cn001", "cn002", "cn052", "cn053")),
        ("node-a.example.org", ("node-a.example.org",)),
    ],
)
def test_the_names_in_their_order(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "gpu[1-2",
        "gpu1-2]",
        "gpu[[1-2]]",
        "gpu[]",
        "gpu[a-b]",
        "gpu[2-1]",
        "gpu[1-2-3]",
        "gpu[-1]",
        "gpu[1,]",
        "a,,b",
        ",a",
        "a,",
        "a b",
        "gpu[٣]",
        "gpu[1-9999999999999999999]",
        "(null)\n",
    ],
)
def test_what_is_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"host list|ranges|backwards"):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        "[0-999999999]",
        f"gpu[0-{MOST}]",
        "a[0-999]b[0-999]",
        "a[0-99]b[0-99]c[0-99]d[0-99]e[0-99]",
        ",".join(["gpu[0-65535]"] * 3),
        "[0-1]" * 4000,
        "x" * 2**21,
    ],
)
def test_a_list_longer_than_any_cluster_is_refused_before_it_is_made(text: str) -> None:
    with pytest.raises(ValueError, match=r"more than|too long|backwards"):
        expand(text)


def test_a_list_as_long_as_allowed() -> None:
    assert len(expand(f"gpu[0-{MOST - 1}]")) == MOST


_prefixes = st.from_regex(r"[a-z][a-z0-9.-]{0,8}[a-z-]", fullmatch=True)


@given(_prefixes, st.lists(st.integers(0, 99999), min_size=1, max_size=30, unique=True), st.integers(1, 6))
@example("gpu-", [9, 10], 2)
def test_writing_and_reading_gives_the_same_names(prefix: str, found: list[int], width: int) -> None:
    found.sort()
    ranges: list[list[int]] = []
    for value in found:
        # Slurm writes one range only for numbers that are written equally wide.
        if ranges and value == ranges[-1][1] + 1 and len(f"{value:0{width}d}") == len(f"{ranges[-1][0]:0{width}d}"):
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    written = ",".join(
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}" for first, last in ranges
    )
    assert expand(f"{prefix}[{written}]") == tuple(f"{prefix}{value:0{width}d}" for value in found)


@given(st.text(alphabet="ab01-,[] ", max_size=40))
def test_any_text_is_names_or_an_error(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert all(names)
    assert not any(set(name) & set("[], ") for name in names)


@pytest.mark.parametrize(
    ("text", "found"), [("0", (0,)), ("0-3,7", (0, 1, 2, 3, 7)), ("5,4", (5, 4)), ("0-8:4", (0, 4, 8)), ("007", (7,))]
)
def test_numbers_in_ranges(text: str, found: tuple[int, ...]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-2", "0-999999999", "0-9:0", "0-9:x", "0-9:-1", "1,,2", "²"])
def test_what_is_no_list_of_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        numbers(text)
