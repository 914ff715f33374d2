"""What says that a file is not as the code would make it now, and makes it. That the committed ones are says
`make check-generated`, once: the bundled recording takes as long as a hundred of these tests.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tools import generate


def test_what_is_missing_or_different_is_stale_and_then_written(tmp_path: Path) -> None:
    generators = {"a/new.md": lambda: b"new", "old.md": lambda: b"new", "same.md": lambda: b"same"}
    (tmp_path / "old.md").write_text("old")
    (tmp_path / "same.md").write_text("same")
    assert generate.stale(tmp_path, generators) == ["a/new.md", "old.md"]
    assert generate.write(tmp_path, generators) == ["a/new.md", "old.md"]
    assert generate.stale(tmp_path, generators) == []
    assert (tmp_path / "a/new.md").read_bytes() == b"new"


def test_compressed_files_are_compared_by_what_they_say(tmp_path: Path) -> None:
    """Not every zlib makes the same bytes of the same text."""
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"text", compresslevel=1, mtime=5))
    assert generate.stale(tmp_path, {"x.gz": lambda: gzip.compress(b"text", mtime=0)}) == []
    assert generate.stale(tmp_path, {"x.gz": lambda: gzip.compress(b"other", mtime=0)}) == ["x.gz"]


def test_a_damaged_file_is_stale(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"text")[:-4])
    assert generate.stale(tmp_path, {"x.gz": lambda: gzip.compress(b"text")}) == ["x.gz"]


def test_check_names_the_file_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "GENERATORS", {"x.md": lambda: b"x"})
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == "x.md is out of date: run `make generate` and commit it\n"
    assert not (tmp_path / "x.md").exists()
    assert generate.main([]) == 0
    assert capsys.readouterr().out == "written: x.md\n"
    assert generate.main(["--check"]) == 0
