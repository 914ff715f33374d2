"""GRES and TRES texts of all releases, round trips, and nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.slurm.gres import Gres, gpu_types_in, gpus_in, memory, parse_gres, parse_tres


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("(null)", []),
        ("N/A", []),
        ("gpu", [Gres("", 1)]),
        ("gpu:8", [Gres("", 8)]),
        ("gpu:h200:8", [Gres("h200", 8)]),
        ("gpu:h200", [Gres("h200", 1)]),
        ("gres:gpu:2", [Gres("", 2)]),
        ("gres/gpu:h100:4", [Gres("h100", 4)]),
        ("gpu:h200:8(S:0-1)", [Gres("h200", 8)]),
        ("gpu:h200:4(IDX:2-5)", [Gres("h200", 4, (2, 3, 4, 5))]),
        ("gpu:h200:5(IDX:2-5,7)", [Gres("h200", 5, (2, 3, 4, 5, 7))]),
        ("gpu(IDX:0)", [Gres("", 1, (0,))]),
        ("gpu:8(IDX:0-7)", [Gres("", 8, tuple(range(8)))]),
        ("gpu:h200:0(IDX:N/A)", [Gres("h200", 0, ())]),
        ("gpu:(null):0(IDX:N/A)", [Gres("", 0, ())]),
        ("gpu:(null):2(IDX:0-1)", [Gres("", 2, (0, 1))]),
        ("gpu:h200:4(S:0-1)(IDX:0-3)", [Gres("h200", 4, (0, 1, 2, 3))]),
        ("gpu:nvidia_a100_2g.20gb:2(IDX:1,3)", [Gres("nvidia_a100_2g.20gb", 2, (1, 3))]),
        ("gpu:2g.20gb:1", [Gres("2g.20gb", 1)]),
        ("gpu:1080:2", [Gres("1080", 2)]),
        ("gpu:tesla_v100-sxm3-32gb:16", [Gres("tesla_v100-sxm3-32gb", 16)]),
        (
            "gpu:h200:2(IDX:0-1),gpu:a100:1(IDX:4),shard:h200:3(IDX:0)",
            [Gres("h200", 2, (0, 1)), Gres("a100", 1, (4,))],
        ),
        ("shard:h100:2(0/2,2/2),mps:100(IDX:0)", []),
        ("bandwidth:lustre:no_consume:4G,gpu:2,,<b>:-1", [Gres("", 2)]),
        ("gpu-fan:3,gpus:2", []),
    ],
)
def test_what_a_gres_text_lists(text: str, found: list[Gres]) -> None:
    assert list(parse_gres(text)) == found


@pytest.mark.parametrize(
    "text",
    [
        "gpu:h200:4(IDX:0-3",
        "gpu:h200:4)",
        "gpu:a:b:c:1",
        "gpu:h200:3(IDX:0-3)",
        "gpu:h200:-1",
        "gpu:h200:4(IDX:3-0)",
        "gpu:h200:1(IDX:x)",
        "gpu:h200:999999999",
        "gpu:4000000000(IDX:0-3999999999)",
        "gpu:h\x1b[31m:1",
        "gpu:" + "9" * 40,
        "gpu:1:,shard:1",
        "x" * 70000,
    ],
)
def test_what_is_no_gres_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"GRES|ranges?|GPUs|amount"):
        parse_gres(text)


@given(
    st.sampled_from(["gpu", "gres:gpu", "gres/gpu"]),
    st.from_regex(r"([a-z][a-z0-9_.-]{0,12})?", fullmatch=True),
    st.sets(st.integers(0, 63), min_size=1),
)
def test_writing_and_reading_indexes_gives_the_same(name: str, type_: str, indexes: set[int]) -> None:
    listed = ",".join(map(str, sorted(indexes)))
    text = ":".join(filter(None, (name, type_, str(len(indexes))))) + f"(IDX:{listed})"
    assert parse_gres(text) == (Gres(type_, len(indexes), tuple(sorted(indexes))),)


@given(st.text(alphabet="gpu:h20(IDX-),/SN", max_size=30))
def test_any_text_is_resources_or_an_error(text: str) -> None:
    try:
        found = parse_gres(text)
    except ValueError:
        return
    assert all(gres.count >= 0 for gres in found)


@pytest.mark.parametrize(
    ("text", "gpus", "types", "mem"),
    [
        ("", None, {}, None),
        ("cpu=1,mem=100M,node=1,billing=1", None, {}, 100 * 2**20),
        ("cpu=1,mem=100M,node=1,billing=1,gres/gpu=2", 2, {}, 100 * 2**20),
        ("billing=19,cpu=1,gres/gpu:a100=1,gres/gpu=1,mem=32G,node=1", 1, {"a100": 1}, 32 * 2**30),
        ("gres/gpu:a100=1,gres/gpu:h100=2", 3, {"a100": 1, "h100": 2}, None),
        ("gres/gpu=4,gres/gpu:a100=3,mem=1.50T", 4, {"a100": 3}, 3 * 2**39),
        ("mem=500000", None, {}, 500000 * 2**20),
        ("gres/gpu=0", 0, {}, None),
        ("gres/shard=3", None, {}, None),
        ("bandwidth:lustre:no_consume:4G,bb/x=1.5Z,=1,gres/gpu=2,energy=1e9", 2, {}, None),
    ],
)
def test_gpus_and_memory_in_a_tres_text(text: str, gpus: int | None, types: dict[str, int], mem: int | None) -> None:
    tres = parse_tres(text)
    assert (gpus_in(tres), gpu_types_in(tres), tres.get("mem")) == (gpus, types, mem)


@pytest.mark.parametrize("text", ["cpu", "cpu=", "cpu=-1", "cpu=x", "mem=1Q", "cpu=1e3", "gres/gpu=1.5", "x" * 70000])
def test_what_is_no_tres_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"TRES|amount"):
        parse_tres(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", 0), ("1999M", 1999 * 2**20), ("4000Mn", 4000 * 2**20), ("2Gc", 2**31), ("196.50G", 393 * 2**29)],
)
def test_amounts_of_memory_in_bytes(text: str, found: int) -> None:
    assert memory(text) == found
