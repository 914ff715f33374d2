"""Selectors of the tests' API server: what they select, and what is none."""

from __future__ import annotations

import pytest

from tests.fakes.kubernetes import BUILTIN, pod
from tests.fakes.kubernetes.selectors import fields, labels
from tests.fakes.kubernetes.status import Refusal
from tests.fakes.kubernetes.store import Stored

PODS = next(kind for kind in BUILTIN if kind.name == "Pod")


def stored(name: str, **fields: object) -> Stored:
    content = pod(name, **fields)  # type: ignore[arg-type]
    content["metadata"]["resourceVersion"] = "1"
    return Stored(PODS, {key: value for key, value in content.items() if key not in ("kind", "apiVersion")})


FLEET = [
    stored("a", labels={"app": "x", "tier": "gpu"}),
    stored("b", labels={"app": "y"}, phase="Failed"),
    stored("c", node=None, phase="Pending"),
    stored("d", labels={"app": ""}, spec={"hostNetwork": True}),
]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=x", "a"),
        ("app==x", "a"),
        ("app", "abd"),
        ("!app", "c"),
        ("app!=x", "bcd"),
        ("app=", "d"),
        ("app in (x, y)", "ab"),
        ("app notin (x,y)", "cd"),
        ("app,tier=gpu", "a"),
        ("tier in (gpu),app notin (y)", "a"),
        ("a.b/c=d", ""),
    ],
)
def test_labels(selector: str, names: str) -> None:
    selects = labels(selector)
    assert selects is not None
    assert "".join(one.name for one in FLEET if selects(one)) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.namespace=ml", "abcd"),
        ("spec.nodeName=gpu-node-a", "abd"),
        ("spec.nodeName=", "c"),
        ("spec.nodeName!=", "abd"),
        ("status.phase==Failed", "b"),
        ("status.phase!=Failed,spec.nodeName!=", "ad"),
        ("spec.hostNetwork=true", "d"),
    ],
)
def test_fields(selector: str, names: str) -> None:
    selects = fields(PODS, selector)
    assert selects is not None
    assert "".join(one.name for one in FLEET if selects(one)) == names


def test_an_empty_one_selects_everything() -> None:
    assert labels("") is None
    assert labels("  ") is None
    assert fields(PODS, "") is None


@pytest.mark.parametrize("selector", ["a===b", "=", "a in", "a in (b", "a b", ",a", "!", "a,,b", "(", "a in ()"])
def test_labels_that_are_no_selector(selector: str) -> None:
    with pytest.raises(Refusal) as refused:
        labels(selector)
    assert refused.value.code == 400


@pytest.mark.parametrize("selector", ["spec.bogus=1", "metadata.name", "metadata.labels=x"])
def test_fields_that_cannot_be_selected_by(selector: str) -> None:
    with pytest.raises(Refusal) as refused:
        fields(PODS, selector)
    assert refused.value.code == 400
