"""What takes long is made once, by whoever comes first."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.images.store import Store


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    made = []
    for key in ("a" * 20, "b" * 20, "a" * 20):
        with_store = Store(tmp_path)
        directory = with_store.get("x", key, lambda directory: made.append((directory / "file").write_text("made")))
        assert (directory / "file").read_text() == "made"
    assert len(made) == 2


def test_several_at_once_wait_for_one(tmp_path: Path) -> None:
    made, barrier = [], threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        Store(tmp_path).get("x", "a" * 20, made.append)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_what_was_begun_and_not_finished_is_made_anew(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        Store(tmp_path).get("x", "a" * 20, fail)
    found = Store(tmp_path).get("x", "a" * 20, lambda directory: (directory / "whole").touch())
    assert [path.name for path in found.iterdir()] == ["whole"]


def test_an_older_one_goes_unless_it_is_used(tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    old = first.get("x", "a" * 20, lambda _: None)
    other = first.get("y", "a" * 20, lambda _: None)
    second.get("x", "b" * 20, lambda _: None)
    assert old.exists()
    first.close()
    newest = second.get("x", "c" * 20, lambda _: None)
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == {
        other,
        newest,
        newest.with_name(f"x-{'b' * 16}"),
    }
