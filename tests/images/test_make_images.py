"""`make images` tells an engine what the tests' builds are told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import dutycycle_alerter
from tests.images.image import REPOSITORY, arguments
from tests.required import lacking

ENGINE = """\
#!/bin/sh
for word; do printf '%s\\0' "$word"; done >> "$0.said"
printf '\\n' >> "$0.said"
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A program that only writes down how it was called."""
    path = tmp_path / "engine"
    path.write_text(ENGINE)
    path.chmod(0o755)
    return path


def test_both_images_are_built_from_the_repository(engine: Path) -> None:
    subprocess.run(
        ["make", "images", f"ENGINE={engine}", "ARGS=--pull"], cwd=REPOSITORY, check=True, capture_output=True
    )
    said = [line.split("\0")[:-1] for line in engine.with_suffix(".said").read_text().splitlines()]
    given = arguments()
    told = [word for name in given for word in ("--build-arg", f"{name}={given[name]}")]
    version = dutycycle_alerter.__version__
    assert said == [
        ["build", "--file", f"{part}/Dockerfile", *told, "--tag", f"dutycycle-{part}:{version}", "--pull", "."]
        for part in ("exporter", "alerter")
    ]


def test_it_stops_at_the_first_that_fails(engine: Path) -> None:
    engine.write_text(ENGINE + "exit 3\n")
    done = subprocess.run(
        ["make", "images", f"ENGINE={engine}"], cwd=REPOSITORY, check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert len(engine.with_suffix(".said").read_text().splitlines()) == 1


def test_without_an_engine_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "images", f"ENGINE={tmp_path}/none"], cwd=REPOSITORY, check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "docs/images.md" in done.stderr


def test_what_it_tells_is_of_the_commit() -> None:
    given = arguments()
    assert given.keys() == {"VERSION", "REVISION", "SOURCE_DATE_EPOCH"}
    assert given["VERSION"] == dutycycle_alerter.__version__
    if not (REPOSITORY / ".git").exists():
        lacking("a checkout of the repository")
    git = ["git", "log", "-1", "--format=%H %ct"]
    commit, time = subprocess.run(git, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.split()
    assert given["REVISION"].removesuffix("-dirty") == commit
    assert given["SOURCE_DATE_EPOCH"] == time
