"""Slurm's commands, played by scripts: what is run, and programs that hang, flood, fail and talk nonsense."""

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dutycycle_alerter.errors import LateError, SourceError
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm import sacct
from dutycycle_alerter.slurm.commands import Commands
from dutycycle_alerter.slurm.fields import Nonsense
from tests.alerter.slurm.shapes import OBJECTS, PLAIN, answer, job, node
from tests.exporter.daemon import eventually

Install = Callable[..., Commands]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Puts scripts by these names into the command directory; each leaves its arguments in NAME.args."""

    def put(timeout: float = 60, max_bytes: int = 2**20, **scripts: str) -> Commands:
        for name, body in scripts.items():
            file = tmp_path / name
            file.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/{name}.args\n{body}\n')
            file.chmod(0o755)
        settings = {"command_directory": tmp_path, "timeout": timeout, "max_bytes": max_bytes}
        return Commands(Slurm.model_validate(settings))

    return put


def prints(tmp_path: Path, document: object) -> str:
    file = tmp_path / f"answer{len(list(tmp_path.iterdir()))}"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return f"cat {file}"


def arguments(tmp_path: Path, name: str) -> list[str]:
    return (tmp_path / f"{name}.args").read_text().splitlines()


def test_all_jobs_in_one_call(install: Install, tmp_path: Path) -> None:
    commands = install(squeue=prints(tmp_path, answer(OBJECTS, "jobs", [job(OBJECTS)])))
    table = commands.jobs(None, Nonsense())
    assert table is not None
    assert list(table.jobs) == [3]
    assert arguments(tmp_path, "squeue") == ["--json", "--all", "--states=all"]


def test_nodes_from_scontrol_or_in_22_05_from_sinfo(install: Install, tmp_path: Path) -> None:
    old = "echo \"scontrol: unrecognized option '--json'\" >&2; exit 1"
    commands = install(scontrol=old, sinfo=prints(tmp_path, answer(PLAIN, "nodes", [node(PLAIN, "IDLE")])))
    assert list(commands.nodes(Nonsense())) == ["gpu02"]
    (tmp_path / "scontrol.args").unlink()
    assert list(commands.nodes(Nonsense())) == ["gpu02"]
    assert not (tmp_path / "scontrol.args").exists(), "it is not tried again"
    commands = install(scontrol=prints(tmp_path, answer(OBJECTS, "nodes", [node(OBJECTS, "IDLE", name="gpu09")])))
    assert list(commands.nodes(Nonsense())) == ["gpu09"]
    assert arguments(tmp_path, "scontrol") == ["show", "nodes", "--json"]


def test_another_failure_of_scontrol_is_one(install: Install) -> None:
    commands = install(scontrol="echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(SourceError, match="Unable to contact slurm controller"):
        commands.nodes(Nonsense())


def test_figures_of_some_jobs(install: Install, tmp_path: Path) -> None:
    names = sacct.COLUMNS.split(",")
    cells = {
        "JobIDRaw": "8",
        "State": "COMPLETED",
        "Partition": "gpu",
        "Start": "1700000000",
        "End": "1700000060",
        "ElapsedRaw": "60",
    }
    rows = [names, [cells.get(name, "") for name in names]]
    commands = install(sacct=prints(tmp_path, "\n".join(sacct.DELIMITER.join(row) for row in rows) + "\n"))
    [found] = commands.figures([8, 9], 1700000000, Nonsense())
    assert (found.id, found.elapsed) == (8, 60)
    given = arguments(tmp_path, "sacct")
    assert {"--jobs=8,9", "--starttime=2023-11-14T22:13:20", "--duplicates", "--allusers", "--parsable2"} <= set(given)
    for column in ("JobName", "Comment", "WorkDir", "SubmitLine"):
        assert column not in sacct.COLUMNS, "what users write could hold the delimiter and the end of a line"


def test_the_environment_is_ours(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SQUEUE_STATES", "SLURM_CLUSTERS", "SACCT_FORMAT", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("SLURM_CONF", "/site/slurm.conf")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    commands = install(squeue=f"env > {tmp_path}/env; {prints(tmp_path, answer(OBJECTS, 'jobs', []))}")
    commands.jobs(None, Nonsense())
    seen = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert "foreign" not in seen.values()
    assert (seen["SLURM_CONF"], seen["SLURM_TIME_FORMAT"], seen["TZ"]) == ("/site/slurm.conf", "%s", "UTC")
    assert seen["SLURM_BITSTR_LEN"] == "0", "lists of an array's tasks are not cut"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "ended with 3: it says nothing"),
        ("echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        ("printf 'a\\033[31mb\\n' >&2; exit 1", "a␛"),
        ("yes x | head -c 300000 >&2; exit 1", "ended with 1: x"),
        ("kill -9 $$", "ended with -9"),
        ("true", "not JSON"),
        ("echo '{\"jobs\": ['", "not JSON"),
        ('printf \'{"jobs": "\\377\\376"}\'', "no list of jobs"),
        ("echo '{\"jobs\": 5}'", "no list of jobs"),
        ("echo '[]'", "not a JSON object"),
        ("head -c 100000 /dev/urandom", "not JSON"),
        ("head -c 100000000 /dev/zero", r"larger than 1 MiB \(slurm\.max_bytes\)"),
        ("cat /dev/zero", r"larger than 1 MiB"),
    ],
)
def test_a_command_that_fails_or_talks_nonsense(install: Install, script: str, why: str) -> None:
    with pytest.raises(SourceError, match=why) as error:
        install(squeue=script).jobs(None, Nonsense())
    assert str(error.value).startswith("squeue")
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("output", ["error: slurmdbd is down", "", "\udcff"])
def test_sacct_that_prints_no_table(install: Install, output: str) -> None:
    script = (
        f"printf '{output.encode('utf-8', 'surrogateescape')!r}'"[:-1] + "'"
        if output == "\udcff"
        else f"echo '{output}'"
    )
    with pytest.raises(SourceError, match="sacct: its output"):
        install(sacct=script).figures([1], 0, Nonsense())


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 1000",
        "trap '' TERM INT HUP; while :; do sleep 1000; done",
        "while :; do echo ' '; sleep 0.05; done",
        "exec >&- 2>&-; exec sleep 1000",
        "sleep 1000 & exit 0",
    ],
    ids=["hangs", "ignores signals", "drips", "closes its output", "leaves a child that holds the output"],
)
def test_a_command_that_never_ends_is_killed_with_its_children(install: Install, tmp_path: Path, script: str) -> None:
    told = tmp_path / "group"
    told.touch()
    # On a busy machine it may be killed before it has begun.
    for timeout in (0.5, 5.0, 20.0):
        commands = install(squeue=f"echo $$ > {told}; {script}", timeout=timeout)
        with pytest.raises(LateError, match=re.escape(f"within {timeout:g} s (slurm.timeout)")):
            commands.jobs(None, Nonsense())
        if told.read_text():
            break
    group = int(told.read_text())
    eventually(lambda: not alive(group), "all of them are gone")


def alive(group: int) -> bool:
    """Whether any process of the group is there that has not ended."""
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if process.name.isdigit() and int(fields[2]) == group and fields[0] != "Z":
                return True
    return False


def test_a_command_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(Slurm(command_directory=tmp_path))
    with pytest.raises(SourceError, match=r"squeue: No such file.*slurm\.command_directory"):
        commands.jobs(None, Nonsense())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match=r"squeue: not found on the PATH.*slurm\.command_directory.*slurm\.url"):
        Commands(Slurm()).jobs(None, Nonsense())
    (tmp_path / "squeue").write_text("not executable")
    with pytest.raises(SourceError, match=r"squeue: Permission denied"):
        commands.jobs(None, Nonsense())


def test_no_signal_reaches_the_one_who_asks(install: Install) -> None:
    """The group that is killed is the command's own."""
    commands = install(squeue="exec sleep 1000", timeout=0.1)
    before = os.getpgrp()
    with pytest.raises(SourceError):
        commands.jobs(None, Nonsense())
    assert os.getpgrp() == before
    assert signal.getsignal(signal.SIGTERM) is not None
