"""The double of Grafana keeps the rules that the real one does, as far as our commands meet them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.grafana.rules import Content, RefusedError


@pytest.fixture
def content() -> Content:
    made = Content()
    made.make_folder({"uid": "f", "title": "F"})
    return made


def saved(content: Content, **changes: Any) -> dict[str, Any]:
    model = {"uid": "a", "title": "A", "version": 0} | changes.pop("model", {})
    return content.save({"dashboard": model, "folderUid": "f"} | changes)


def refusal(status: int, said: str) -> Any:
    return pytest.raises(RefusedError, match=said, check=lambda error: error.status == status)


def test_a_save_needs_the_newest_version_or_overwrite(content: Content) -> None:
    assert saved(content)["version"] == 1
    with refusal(412, "changed by someone else"):
        saved(content)
    assert saved(content, model={"version": 1})["version"] == 2
    assert saved(content, overwrite=True)["version"] == 3
    assert content.dashboard("a")["dashboard"]["version"] == 3


@pytest.mark.parametrize(
    ("model", "status", "said"),
    [
        ({"uid": "x" * 41}, 400, "uid too long"),
        ({"uid": "a b"}, 400, "illegal characters"),
        ({"title": ""}, 400, "title cannot be empty"),
        ({"uid": "new", "id": 7}, 404, "not found"),
    ],
)
def test_what_a_dashboard_must_be(content: Content, model: dict[str, Any], status: int, said: str) -> None:
    with refusal(status, said):
        saved(content, model=model)


def test_folders_are_by_uid(content: Content) -> None:
    with refusal(409, "same uid"):
        content.make_folder({"uid": "f", "title": "Other"})
    with refusal(404, "not found"):
        content.folder("g")
    with refusal(400, "folder not found"):
        saved(content, folderUid="g")


def test_an_annotation_without_an_end_ends_where_it_begins(content: Content) -> None:
    content.annotate({"time": 1000, "text": "x"})
    assert content.find({})[0]["timeEnd"] == 1000
    content.patch(1, {"timeEnd": 2000})
    content.patch(1, {"timeEnd": 0, "text": ""})
    assert (content.find({})[0]["timeEnd"], content.find({})[0]["text"]) == (2000, "x")


@pytest.mark.parametrize(
    ("tags", "kept"),
    [
        (["a", "a", " b "], ["a", "b"]),
        (["k:v:w", "k : v"], ["k:v"]),
        ([":v", ""], []),
    ],
)
def test_tags_are_kept_as_key_and_value(content: Content, tags: list[str], kept: list[str]) -> None:
    content.annotate({"time": 1, "text": "x", "tags": tags})
    assert content.find({})[0]["tags"] == kept


def test_tags_have_limits(content: Content) -> None:
    with refusal(400, "tags length"):
        content.annotate({"time": 1, "text": "x", "tags": [f"{number:060}" for number in range(9)]})
    with refusal(500, "Failed"):
        content.annotate({"time": 1, "text": "x", "tags": ["u:" + "x" * 101]})


def test_a_patch_without_tags_keeps_them_and_one_with_none_takes_them(content: Content) -> None:
    content.annotate({"time": 1, "text": "x", "tags": ["a"]})
    content.patch(1, {"text": "y"})
    assert content.find({})[0]["tags"] == ["a"]
    content.patch(1, {"tags": []})
    assert content.find({})[0]["tags"] == []


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ({"tags": ["a"]}, ["two", "one"]),
        ({"tags": ["a", "n:2"]}, ["two"]),
        ({"tags": ["n"]}, ["two", "one"]),
        ({"tags": ["n:1", "n:2"], "matchAny": ["true"]}, ["two", "one"]),
        ({"tags": ["n:1", "n:2"]}, []),
        ({"from": ["250"], "to": ["400"]}, ["two"]),
        ({"from": ["150"], "to": ["200"]}, ["two", "one"]),
        ({"limit": ["1"]}, ["two"]),
    ],
)
def test_annotations_are_found_by_tags_and_time_latest_end_first(
    content: Content, query: dict[str, list[str]], texts: list[str]
) -> None:
    content.annotate({"time": 100, "timeEnd": 200, "text": "one", "tags": ["a", "n:1"]})
    content.annotate({"time": 200, "timeEnd": 300, "text": "two", "tags": ["a", "n:2"]})
    assert [one["text"] for one in content.find(query)] == texts
