"""What each instruction does, in stages on a base of a few files; RUN in a Debian."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images.base import base
from tests.images.building import Build, Stage
from tests.images.context import Context
from tests.images.dockerfile import DockerfileError
from tests.images.fixtures import TIMEOUT
from tests.images.store import Store

pytestmark = pytest.mark.timeout(TIMEOUT)

Builder = Callable[..., Stage]


@pytest.fixture
def build(tmp_path: Path, root: None) -> Builder:
    """Builds a Dockerfile over a base with one file, in a context with some."""
    for name in ("base/etc", "context/folder/deeper", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "base/etc/base").write_text("base")
    (tmp_path / "context/one").write_text("1")
    (tmp_path / "context/folder/two").write_text("2")
    (tmp_path / "context/folder/deeper/three").write_text("3")
    (tmp_path / "context/.dockerignore").write_text("hidden\n")
    (tmp_path / "context/hidden").write_text("hidden")

    def run(text: str, *, bases: Callable[[str], Path] | None = None, **arguments: str) -> Stage:
        return Build(
            Context(tmp_path / "context"), bases or {"base": tmp_path / "base"}.__getitem__, tmp_path / "scratch"
        ).run(text, arguments)

    return run


def files(stage: Stage, below: str = "") -> dict[str, str]:
    paths = [path for path in (stage.root / below).rglob("*") if path.is_file()]
    return {path.relative_to(stage.root).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        ("COPY one /x", {"x": "1"}),
        ("COPY one /x/", {"x/one": "1"}),
        ("COPY folder /x", {"x/two": "2", "x/deeper/three": "3"}),
        ("COPY one folder /x/", {"x/one": "1", "x/two": "2", "x/deeper/three": "3"}),
        ("COPY one folder /x", "go into a directory"),
        ("COPY folder/* /x/", "wildcards"),
        ("COPY hidden /x", "hidden is not in the context"),
        ("COPY missing /x", "missing is not in the context"),
        ("COPY one", "from where to where"),
        ("COPY --from=none / /x", "no earlier stage none"),
        ("COPY --chown=user one /x", "not UID:GID"),
        ("COPY one /../x", "leads out of the image"),
        ("WORKDIR /w\nWORKDIR v\nCOPY one ./", {"w/v/one": "1"}),
    ],
)
def test_files_are_copied(build: Builder, copy: str, expected: dict[str, str] | str) -> None:
    text = f"FROM base\n{copy}"
    if isinstance(expected, str):
        with pytest.raises(DockerfileError, match=expected):
            build(text)
    else:
        assert files(build(text)) == {"etc/base": "base", **expected}


def test_copied_files_are_their_owners(build: Builder) -> None:
    stage = build("FROM base\nCOPY --chown=12:34 one /mine\nCOPY one /roots")
    assert [(path.stat().st_uid, path.stat().st_gid) for path in (stage.root / "mine", stage.root / "roots")] == [
        (12, 34),
        (0, 0),
    ]


def test_a_stage_takes_files_of_another_as_they_are(build: Builder) -> None:
    stage = build("FROM base AS a\nCOPY --chown=12:34 folder /x/y\nFROM base\nCOPY --from=a /x/y /z")
    assert files(stage) == {"etc/base": "base", "z/two": "2", "z/deeper/three": "3"}
    assert (stage.root / "z/two").stat().st_uid == 12


def test_a_stage_goes_on_from_another_and_leaves_it_alone(build: Builder) -> None:
    stage = build("FROM base AS a\nENV A=1\nUSER 5:6\nFROM a AS b\nCOPY one /b\nFROM a\nENV B=${A}2\nCOPY one /c")
    assert files(stage) == {"etc/base": "base", "c": "1"}
    assert (stage.env["A"], stage.env["B"], stage.user) == ("1", "12", (5, 6))


def test_a_build_leaves_the_base_alone(build: Builder, tmp_path: Path) -> None:
    build("FROM base\nCOPY one /etc/base")
    assert (tmp_path / "base/etc/base").read_text() == "base"


def test_what_an_engine_is_told(build: Builder) -> None:
    stage = build(
        'ARG BASE=base\nFROM ${BASE}\nARG V\nLABEL a="x ${V}" b=y\nEXPOSE 80 81\nSTOPSIGNAL SIGINT\nUSER 1:2\n'
        'WORKDIR /w\nCMD ["no"]\nENTRYPOINT ["program"]\nCMD ["serve"]',
        V="1",
    )
    assert stage.labels == {"a": "x 1", "b": "y"}
    assert (stage.exposed, stage.stop_signal, stage.user, stage.workdir) == ((80, 81), "SIGINT", (1, 2), "/w")
    assert (stage.entrypoint, stage.cmd) == (("program",), ("serve",))


def test_an_entrypoint_takes_the_command_away(build: Builder) -> None:
    assert build('FROM base\nCMD ["x"]\nENTRYPOINT ["y"]').cmd == ()


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("FROM base\nARG A=1\nENV X=${A}", {}, "1"),
        ("FROM base\nARG A=1\nENV X=${A}", {"A": "2"}, "2"),
        ("ARG A=0\nFROM base\nARG A\nENV X=${A}", {}, "0"),
        ("ARG A=0\nFROM base\nARG A\nENV X=${A}", {"A": "2"}, "2"),
        ("FROM base\nARG A=1\nENV A=3\nENV X=${A}", {}, "3"),
        ("FROM base\nENV A=1\nENV A=2 X=${A}", {}, "1"),
        ("ARG A=0\nFROM base\nENV X=${A}", {}, "A is not set"),
        ("FROM base AS a\nARG A=1\nFROM a\nENV X=${A}", {}, "A is not set"),
        ("FROM base\nARG A\nENV X=${A}", {}, "A is not set"),
        ("FROM base\nENV X=1", {"A": "1"}, "no ARG takes A"),
        ("FROM base\nENV X", {}, "not KEY=VALUE"),
        ("FROM base\nUSER name\nENV X=1", {}, "not UID:GID"),
        ("FROM base\nUSER 1\nENV X=1", {}, "not UID:GID"),
        ("FROM base\nEXPOSE 80/tcp", {}, "not a port"),
        ("FROM base as a", {}, "IMAGE AS NAME"),
        ("FROM base AS a\nFROM base AS a", {}, "there already"),
    ],
)
def test_arguments_and_the_environment(build: Builder, text: str, arguments: dict[str, str], expected: str) -> None:
    try:
        found = build(text, **arguments).env["X"]
    except DockerfileError as error:
        found = str(error)
    assert found.endswith(expected) or expected in found


def test_commands_run_in_the_stage(build: Builder, image_store: Store, tmp_path: Path) -> None:
    """As whom, where and with what is said; nothing of the machine is left, and nothing stays mounted."""
    stage = build(
        "FROM debian:trixie-slim\nARG A=1\nENV B=2\nWORKDIR /w\n"
        'RUN echo "$A $B $(pwd) $(id -u)" > first && mkdir open && chmod 777 open && ls /run/host > /dev/null\n'
        "USER 12:34\n"
        'RUN ["/bin/sh", "-c", "id -u > open/second; touch /w/third || true; echo $$ > open/pid"]',
        bases=lambda name: base(name, image_store),
    )
    found = files(stage, "w")
    assert found == {"w/first": "1 2 /w 0\n", "w/open/second": "12\n", "w/open/pid": found["w/open/pid"]}
    assert not list((stage.root / "run").glob("host*"))
    assert {path.name for path in (stage.root / "dev").iterdir()} == set()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(DockerfileError, match=r"(?s)line 2: RUN: ended with 3\nwhy"):
        build("FROM debian:trixie-slim AS x\nRUN echo why && exit 3", bases=lambda name: base(name, image_store))


def test_a_secret_is_there_for_its_command_alone(image_store: Store, tmp_path: Path) -> None:
    """One that is not given leaves no file."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "given").write_text("[global]\nindex-url = https://builder:secret@example.org\n")
    build = Build(
        Context(tmp_path),
        lambda name: base(name, image_store),
        tmp_path / "scratch",
        secrets={"pip.conf": tmp_path / "given"},
    )
    stage = build.run(
        "FROM debian:trixie-slim\n"
        "RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=other,target=/etc/other \\\n"
        "    grep -c secret /etc/pip.conf > /seen && ! ls /etc/other\n"
        "RUN ! grep secret /etc/pip.conf",
        {},
    )
    assert (stage.root / "seen").read_text() == "1\n"
    assert (stage.root / "etc/pip.conf").read_text() == ""


def test_a_base_that_cannot_be_made_is_an_error(image_store: Store) -> None:
    with pytest.raises(ValueError, match="only debian:SUITE-slim"):
        base("python:3.13-slim", image_store)
