"""A missing part of the machine is a reason to skip a test, and in CI a failure."""

from __future__ import annotations

import pytest

from tests.required import lacking


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("false", pytest.skip.Exception), ("", pytest.skip.Exception)]
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"^shellcheck is missing"):
        lacking("shellcheck")
