"""What jobs say of themselves, in Slurm comments and in Kubernetes annotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.declarations import NONE, Declarations, from_annotations, from_comment
from dutycycle_alerter.model import JobKind


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("", NONE),
        ("an ordinary comment", NONE),
        ("notdutycycle:expect-uneven", NONE),
        ("dutycycle:", NONE),
        ("dutycycle:expect-uneven", Declarations(expect_uneven=True)),
        ("DutyCycle:Expect-Uneven", Declarations(expect_uneven=True)),
        ("dutycycle:ignore=idle", Declarations(ignore=frozenset({"idle"}))),
        ("dutycycle:ignore=idle,stalled", Declarations(ignore=frozenset({"idle", "stalled"}))),
        ("dutycycle:ignore=low-sm-activity", Declarations(ignore=frozenset({"low_sm_activity"}))),
        (
            "dutycycle:ignore=idle,expect-uneven,ignore=stalled,serving",
            Declarations(True, frozenset({"idle", "stalled"}), JobKind.SERVING),
        ),
        ("dutycycle:interactive", Declarations(kind=JobKind.INTERACTIVE)),
        ("dutycycle:interactive,serving", NONE),
        ("ticket 7; dutycycle:expect-uneven;dutycycle:serving see wiki", Declarations(True, kind=JobKind.SERVING)),
        ("dutycycle:expect-unevne,serving", Declarations(kind=JobKind.SERVING, unknown=("expect-unevne",))),
        ("dutycycle:ignore=,x=1", Declarations(unknown=("x=1",))),
        ("dutycycle:ignore=IDLE!", Declarations(unknown=("ignore=IDLE!",))),
        ("dutycycle:\x1b[31m,serving", Declarations(kind=JobKind.SERVING, unknown=("␛[31m",))),
    ],
)
def test_a_comment(comment: str, found: Declarations) -> None:
    assert from_comment(comment) == found


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        ({}, NONE),
        ({"example.org/expect-uneven": "true"}, NONE),
        ({"dutycycle.io/expect-uneven": "true"}, Declarations(expect_uneven=True)),
        ({"dutycycle.io/expect-uneven": ""}, Declarations(expect_uneven=True)),
        ({"dutycycle.io/expect-uneven": "false"}, NONE),
        ({"dutycycle.io/expect-uneven": "maybe"}, Declarations(unknown=("expect-uneven=maybe",))),
        ({"dutycycle.io/ignore": "idle, stalled"}, Declarations(ignore=frozenset({"idle", "stalled"}))),
        ({"dutycycle.io/ignore": "serving"}, Declarations(ignore=frozenset({"serving"}))),
        ({"dutycycle.io/kind": "serving"}, Declarations(kind=JobKind.SERVING)),
        ({"dutycycle.io/kind": "fast"}, Declarations(unknown=("fast",))),
        ({"dutycycle.io/knid": "serving"}, Declarations(unknown=("knid=serving",))),
        (
            {"dutycycle.io/kind": "interactive", "dutycycle.io/ignore": "idle", "dutycycle.io/expect-uneven": "yes"},
            Declarations(True, frozenset({"idle"}), JobKind.INTERACTIVE),
        ),
    ],
)
def test_annotations(annotations: dict[str, str], found: Declarations) -> None:
    assert from_annotations(annotations) == found


@given(st.text(max_size=200))
def test_any_text_is_harmless_and_bounded(text: str) -> None:
    for found in (
        from_comment(text),
        from_comment(f"dutycycle:{text}"),
        from_annotations({f"dutycycle.io/{text}": text, "dutycycle.io/ignore": text}),
    ):
        assert all(rule.replace("_", "").isascii() and len(rule) <= 40 for rule in found.ignore)
        assert all(word.isprintable() and len(word) <= 60 for word in found.unknown)


def test_a_flood_is_bounded() -> None:
    rules = ",".join(f"ignore={'a' * (1 + i % 30)}{chr(97 + i // 30)}" for i in range(500))
    found = from_comment("dutycycle:" + rules + ",?" * 1000)
    assert len(found.ignore) <= 32
    assert len(found.unknown) <= 8
    assert from_comment("x" * 10**6 + " dutycycle:expect-uneven") == NONE
