"""What of a directory a build sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images.context import Context, ignored, rules
from tests.images.image import REPOSITORY


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("", "a", False),
        ("# a", "a", False),
        ("a", "a", True),
        ("a", "a/b/c", True),
        ("a", "b/a", False),
        ("/a/", "a/b", True),
        ("*", "a/b", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "a/b.py", True),
        ("**/*.py", "b.py", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("?", "a", True),
        ("?", "ab", False),
        ("*\n!a/b", "a/b/c", False),
        ("*\n!a/b", "a/c", True),
        ("!a\n*", "a", True),
        ("*\n!a\n**/skip", "a/x/skip/y", True),
        ("a.b", "aXb", False),
    ],
)
def test_the_last_pattern_that_matches_decides(text: str, path: str, expected: bool) -> None:
    assert ignored(path, rules(text)) is expected


def test_a_pattern_that_is_not_understood_is_an_error() -> None:
    with pytest.raises(ValueError, match="classes"):
        rules("[ab]")


def test_a_digest_changes_with_what_is_seen_and_with_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("a/skip\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_text("1")
    before = Context(tmp_path).digest(["a"])
    (tmp_path / "a/skip").write_text("1")
    (tmp_path / "b").write_text("1")
    (tmp_path / "a/file").chmod(0o600)
    assert Context(tmp_path).digest(["a"]) == before
    (tmp_path / "a/file").chmod(0o700)
    executable = Context(tmp_path).digest(["a"])
    (tmp_path / "a/file").write_text("2")
    assert len({before, executable, Context(tmp_path).digest(["a"])}) == 3


def test_of_the_repository_a_build_sees_packages_and_locks_only() -> None:
    context = Context(REPOSITORY)
    seen = {path for name in ("LICENSE", "pyproject.toml", "requirements-exporter.lock") if context.sees(path := name)}
    assert len(seen) == 3
    for path in (".git/config", ".venv/bin/python", "tests/conftest.py", "requirements.lock", "state/x.sqlite3"):
        assert not context.sees(path), path
    assert "cli.py" in context.files("exporter/dutycycle_exporter")
    assert not any("__pycache__" in name for name in context.files("exporter/dutycycle_exporter"))
