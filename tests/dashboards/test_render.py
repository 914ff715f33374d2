"""`dutycycle-dashboards render`: files that Grafana can be given, and a check for CI; it needs nothing but click."""

from __future__ import annotations

import json
import re
import resource
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dutycycle_dashboards.render import dashboards
from tests.dashboards.command import Done, environment

UIDS = tuple(dashboards())


def render(*arguments: str | Path, largest: int = resource.RLIM_INFINITY) -> Done:
    """In the main environment, which has no client of Grafana's; with a limit on the size of files."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest}))"
    code = f"{limited}; from dutycycle_dashboards.cli import main; main()"
    command = [sys.executable, "-c", code, "render", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    return Done(done.returncode, done.stdout, done.stderr)


def test_what_is_rendered_is_what_is_committed() -> None:
    assert render("--check") == Done(0, "", "")


def test_rendered_once_and_then_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "new" / "dashboards"
    assert render(target).out == f"{target}: {len(UIDS)} written, 0 as they were\n"
    assert {path.name for path in target.iterdir()} == {f"{uid}.json" for uid in UIDS}
    for uid in UIDS:
        assert json.loads((target / f"{uid}.json").read_text()) == dashboards()[uid]
    times = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    assert render(target).out == f"{target}: 0 written, {len(UIDS)} as they were\n"
    assert {path: path.stat().st_mtime_ns for path in target.iterdir()} == times
    assert render(target, "--check") == Done(0, "", "")


def test_check_names_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    render(tmp_path)
    changed, missing, gone = (tmp_path / f"{name}.json" for name in (UIDS[0], UIDS[1], "dutycycle-of-old"))
    changed.write_text("{}")
    missing.unlink()
    gone.write_text("{}")
    (tmp_path / "mine.json").write_text("{}")
    done = render(tmp_path, "--check")
    assert done.code == 1
    assert done.err.splitlines() == [
        f"{changed} differs: run `dutycycle-dashboards render {tmp_path}`",
        f"{missing} is missing: run `dutycycle-dashboards render {tmp_path}`",
        f"{gone} is no dashboard any more: remove it",
    ]
    assert changed.read_text() == "{}"
    assert not missing.exists()


def test_a_site_has_its_own_page_and_data_source(tmp_path: Path) -> None:
    site = ("--alerter-url", "https://gpus.example.org", "--datasource", "mimir-1")
    assert render(tmp_path, *site).code == 0
    assert render(tmp_path, *site, "--check").code == 0
    assert render(tmp_path, "--check").code == 1
    for uid in UIDS:
        listed = json.loads((tmp_path / f"{uid}.json").read_text())["templating"]["list"]
        said = {variable["name"]: variable for variable in listed}
        assert said["datasource"]["current"]["value"] == "mimir-1"
        if "alerter" in said:
            assert said["alerter"]["query"] == "https://gpus.example.org"
            assert [option["value"] for option in said["alerter"]["options"]] == ["https://gpus.example.org"]


def test_check_tells_to_write_what_it_compared(tmp_path: Path) -> None:
    target = tmp_path / "of my site"
    site = ("--alerter-url", "https://gpus.example.org/a&b", "--datasource", "mimir 1")
    render(target, *site)
    (target / f"{UIDS[0]}.json").unlink()
    (said,) = render(target, *site, "--check").err.splitlines()
    (command,) = re.findall(r"is missing: run `(.*)`$", said)
    program, *arguments = shlex.split(command)
    assert program == "dutycycle-dashboards"
    assert render(*arguments[1:]).out == f"{target}: 1 written, {len(UIDS) - 1} as they were\n"
    assert render(target, *site, "--check") == Done(0, "", "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/proc/nowhere"], 1, "/proc/nowhere: No such file or directory"),
        (["/etc/hostname"], 2, "is a file"),
        (["--alerter-url", "gpus.example.org"], 2, "--alerter-url: 'gpus.example.org' is no address"),
    ],
)
def test_what_cannot_be(arguments: list[str], code: int, said: str) -> None:
    done = render(*arguments)
    assert done.code == code
    assert said in done.err


def test_a_later_write_that_fails_leaves_whole_files(tmp_path: Path) -> None:
    """A file is replaced in one go: whoever reads the directory meanwhile sees the old one or the new one."""
    for uid in UIDS:
        (tmp_path / f"{uid}.json").write_text("{}")
    done = render(tmp_path, largest=8192)
    assert done.code == 1
    assert done.err.startswith("dutycycle-dashboards: ")
    assert "File too large" in done.err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {f"{uid}.json": "{}" for uid in UIDS}


def test_several_at_once_do_not_meet(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = [one.result() for one in [pool.submit(render, tmp_path) for _ in range(3)]]
    assert [(one.code, one.err) for one in done] == [(0, "")] * 3
    assert render(tmp_path, "--check") == Done(0, "", "")
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}
