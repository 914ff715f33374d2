"""Prometheus' targets from sinfo: which nodes, under which addresses; and that no answer of sinfo's harms the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .machine import SLURM

SD = SLURM / "prometheus-sd"
OLD = "[]\n"
LINE = "n1|10.0.0.1|gpu|idle|gpu:h100:8(S:0-1)"
STATE, GRES = LINE.replace("idle", "?"), LINE.replace("gpu:h100:8(S:0-1)", "?")

HANGS = "exec sleep 60"


class Discovery:
    """Runs the command on what a sinfo of the test's own says."""

    def __init__(self, directory: Path) -> None:
        self.output = directory / "targets" / "nodes.json"
        self.output.parent.mkdir()
        self.sinfo = directory / "sinfo"
        self.said = directory / "said"
        self.asked = directory / "asked"

    def run(self, said: str | bytes, *options: str, code: int = 0, ending: str = "") -> str:
        self.said.write_bytes(said.encode() if isinstance(said, str) else said)
        self.sinfo.write_text(f'#!/bin/sh\necho "$@" > {self.asked}\ncat {self.said}\n{ending}\n')
        self.sinfo.chmod(0o755)
        command = [sys.executable, str(SD), f"--output={self.output}", f"--sinfo={self.sinfo}", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        assert [path.name for path in self.output.parent.iterdir()] in ([self.output.name], [])
        return done.stderr

    def groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.output.read_text())
        return found

    def targets(self) -> list[str]:
        return [target for group in self.groups() for target in group["targets"]]


@pytest.fixture
def discovery(tmp_path: Path) -> Discovery:
    return Discovery(tmp_path)


def test_a_node_of_two_partitions_is_one_target_that_anybody_can_read(discovery: Discovery) -> None:
    assert discovery.run(f"{LINE}\n{LINE.replace('|gpu|', '|debug|')}\n") == ""
    assert discovery.groups() == [
        {"targets": ["10.0.0.1:9836"], "labels": {"node": "n1", "__meta_slurm_partitions": ",debug,gpu,"}}
    ]
    assert discovery.output.stat().st_mode & 0o777 == 0o644
    assert discovery.asked.read_text() == "-N -a -h -o %N|%o|%R|%t|%G\n"


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        *(
            (STATE.replace("?", state), True)
            for state in ("alloc", "mix", "down*", "drain", "drng@", "idle#", "maint$")
        ),
        (STATE.replace("?", "idle~"), False),
        *(
            (GRES.replace("?", gres), True)
            for gres in ("gpu", "gpu:2", "gpu:h100", "gpu:a:0,gpu:b:1", "shard:4,gpu:x:1")
        ),
        *((GRES.replace("?", gres), True) for gres in ("gpu:a:1(S:0,1)", "gpu:0,gpu:b:1", "gpu(S:0)")),
        *((GRES.replace("?", gres), False) for gres in ("(null)", "", "gpu:0", "gpu:a:0(S:0)", "shard:8", "mps:gpu:9")),
        *((GRES.replace("?", gres), False) for gres in ("nogpu:8", "fpga:gpu:1", "nic:1(gpu:1)", "nic:1(S:0,gpu:1)")),
    ],
)
def test_nodes_that_have_gpus_and_are_not_switched_off_are_targets(
    discovery: Discovery, line: str, targets: bool
) -> None:
    """Those that are down or drained as well: a lost node must alert."""
    discovery.run(f"{line}\n{LINE.replace('n1', 'n2').replace('0.1', '0.2')}\n")
    assert discovery.targets() == (["10.0.0.1:9836", "10.0.0.2:9836"] if targets else ["10.0.0.2:9836"])


@pytest.mark.parametrize(
    ("address", "options", "target"),
    [
        ("gpu01.example.org", (), "gpu01.example.org:9836"),
        ("2001:db8::1", (), "[2001:db8::1]:9836"),
        ("10.0.0.9", ("--port", "80"), "10.0.0.9:80"),
        ("10.0.0.9", ("--address", "node-name"), "n1:9836"),
    ],
)
def test_where_a_node_is(discovery: Discovery, address: str, options: tuple[str, ...], target: str) -> None:
    discovery.run(f"{LINE.replace('10.0.0.1', address)}\n", *options)
    assert discovery.targets() == [target]


@pytest.mark.parametrize(
    ("said", "ending", "why"),
    [
        (f"{LINE}\n", "exit 1", "ended with 1"),
        ("", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        (f"{LINE}\n", "kill -9 $$", "ended with -9"),
        (f"{LINE}\n", HANGS, "did not answer within 1 s"),
        ("", "", "names no node with GPUs"),
        (LINE.replace("gpu:h100:8(S:0-1)", "(null)"), "", "names no node with GPUs"),
        (f"{LINE}\nn2|10.0.0.2|gpu\n\n", "", "line 2"),
        (f"{LINE}|x\n", "", "line 1"),
        (LINE.replace("n1", "n1/../x"), "", "line 1"),
        (LINE.replace("n1", 'n"1'), "", "line 1"),
        (LINE.replace("n1", ""), "", "line 1"),
        (LINE.replace("10.0.0.1", "10.0.0.1/metrics?x="), "", "line 1"),
        (LINE.replace("10.0.0.1", "user@host"), "", "line 1"),
        (LINE.replace("10.0.0.1", "host:80"), "", "line 1"),
        (LINE.replace("|gpu|", "|a,b|"), "", "line 1"),
        (b"\xff\xfe\n", "", "line 1"),
    ],
)
def test_what_sinfo_cannot_say_leaves_the_file_as_it_was(
    discovery: Discovery, said: str | bytes, ending: str, why: str
) -> None:
    discovery.output.write_text(OLD)
    # One that answers may take longer than that on a busy machine.
    options = ("--timeout=1",) if ending == HANGS else ()
    assert why in discovery.run(said, *options, code=1, ending=ending)
    assert discovery.output.read_text() == OLD


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("|gpu|", "|a,b|"),
        LINE.replace("|gpu|", "|großrechner|"),
        LINE.replace("n1", "n1-"),
        LINE.replace("10.0.0.1", "host:80"),
        "n2|10.0.0.2|gpu",
        "",
    ],
)
def test_one_odd_line_is_left_out_and_told_and_costs_no_other_node(discovery: Discovery, line: str) -> None:
    others = [LINE.replace("n1", "n8"), LINE.replace("n1", "n9")]
    told = discovery.run(f"{others[0]}\n{line}\n{others[1]}\n")
    assert "line 2 of sinfo's answer is no node" in told
    assert [group["labels"]["node"] for group in discovery.groups()] == ["n8", "n9"]


def test_where_every_node_is_switched_off_there_is_no_target(discovery: Discovery) -> None:
    """A cluster at rest; the targets of before would all be told of as lost."""
    discovery.run(f"{LINE}\n")
    without = LINE.replace("n1", "login").replace("gpu:h100:8(S:0-1)", "(null)")
    assert discovery.run(f"{STATE.replace('?', 'idle~')}\n{without}\n") == ""
    assert discovery.groups() == []


def test_no_sinfo_no_directory_and_no_room_are_told(discovery: Discovery, tmp_path: Path) -> None:
    for options in ((f"--sinfo={tmp_path}/nowhere",), (f"--output={tmp_path}/nowhere/x",)):
        assert "dutycycle-slurm-sd: " in discovery.run(f"{LINE}\n", *options, code=1)


def test_without_an_output_it_is_printed(discovery: Discovery) -> None:
    discovery.run(f"{LINE}\n")
    command = [sys.executable, str(SD), f"--sinfo={discovery.sinfo}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == discovery.output.read_text()


@given(st.text(alphabet=st.characters(max_codepoint=300, exclude_categories=["Cs"]), max_size=60))
def test_whatever_a_field_says_the_file_is_json_of_single_hosts_or_untouched(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    namespace: dict[str, Any] = {"__name__": "sd"}
    exec(compile(SD.read_text(), str(SD), "exec"), namespace)
    for field in range(5):
        line = LINE.split("|")
        line[field] = text
        try:
            groups, _ = namespace["groups"]("|".join(line), 9836, "node-addr")
        except namespace["DiscoveryError"]:
            continue
        targets = [target for group in groups for target in group["targets"]]
        assert len(targets) <= 1
        for target in targets:
            assert set(target) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_[]")
