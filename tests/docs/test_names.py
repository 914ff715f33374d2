"""Metrics, options and keys that the documents name are those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from dutycycle_alerter.settings import Settings
from dutycycle_alerter.web.families import FAMILIES as ALERTERS
from dutycycle_exporter.config_file import keys
from dutycycle_exporter.contract import FAMILIES
from tests.docs.blocks import ROOT, documents
from tests.docs.commands import PROGRAMS
from tools import reference_configuration

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_TAIL = r"(?:_bucket|_sum|_count)?"
_METRIC = re.compile(
    r"(?:(?:dutycycle_)?workload|dutycycle_exporter|dutycycle_alerter|dutycycle_incidents?|dutycycle_outbox)_[a-z0-9_]*[a-z0-9]"
)
_RULES = re.compile(r"(?:user|workload|gpu_workload|fleet|node):")
"""What recording rules make of metrics has names of its own."""

METRICS = set(FAMILIES) | set(ALERTERS)


def all_options(command: click.Command) -> Iterator[str]:
    """Those of a command and of every command below it."""
    for option in command.params:
        yield from (*option.opts, *option.secondary_opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from all_options(child)


OPTIONS = {name for program in PROGRAMS.values() for name in all_options(program)}
KEYS = {key.path.replace("[]", "") for part in reference_configuration.parts() for key in part.keys}
EXPORTERS = set(keys(PROGRAMS["dutycycle-exporter"].params)) | {"config.file"}
SECTIONS = {part.path.replace("[]", "") for part in reference_configuration.parts()}


def quoted(path_pattern: str = "*") -> Iterator[tuple[str, str]]:
    """(document, what is quoted as code in its sentences and tables)."""
    for path in documents():
        if path.match(path_pattern):
            for text in _CODE.findall(re.sub(r"^( *)```.*?^\1```", "", path.read_text(), flags=re.M | re.S)):
                yield path.name, text


def test_metrics_of_ours_are_in_the_contract() -> None:
    wrong = set()
    for name, text in quoted():
        for metric in _METRIC.findall("" if _RULES.search(text) else text):
            if re.sub(f"{_TAIL}$", "", metric) not in METRICS and metric not in METRICS:
                wrong.add((name, metric))
    assert wrong == set()


def test_keys_of_ours_are_in_the_configuration() -> None:
    first = "|".join(sorted(Settings.model_fields))
    wrong = set()
    for name, text in quoted():
        if re.fullmatch(rf"(?:{first})(?:\.[a-z_]+|\[\])+(?:: .*)?", text):
            key = text.split(":")[0].replace("[]", "")
            if key not in KEYS | SECTIONS | EXPORTERS and not re.search(r"\.(?:conf|ya?ml)$", key):
                wrong.add((name, key))
    assert wrong == set()


@pytest.mark.parametrize(
    "name", ["exporter.md", "operating.md", "install.md", "migration.md", "kubernetes.md", "slurm.md"]
)
def test_options_of_ours_are_the_commands_own(name: str) -> None:
    """In the tables of other tools' names the last column is ours."""
    wrong = set()
    for line in (ROOT / "docs" / name).read_text().splitlines():
        ours = line.rstrip(" |").rpartition(" | ")[2] if name == "migration.md" and line.startswith("|") else line
        if name == "migration.md" and not line.startswith("|"):
            continue
        for text in _CODE.findall(ours):
            for option in re.findall(r"(?<![\w-])--[a-z][A-Za-z.-]*[A-Za-z]", text):
                if text.startswith("--") and option not in OPTIONS and option.islower():
                    wrong.add(option)
    assert wrong - NOT_OURS == set()


NOT_OURS = {
    "--comment",
    "--root-dir",
    "--gpus",
    "--gpus-per-node",
    "--gpus-per-task",
    "--enable-multiple-slurmd",
    "--require-hashes",
}
"""Options of Slurm, the kubelet and pip that these pages speak of."""


def test_what_is_ours_in_the_tables_of_other_tools_is_there() -> None:
    """The last column has our metrics: those of the others begin alike."""
    seen = set()
    for line in (ROOT / "docs" / "migration.md").read_text().splitlines():
        if line.startswith("|"):
            cell = line.rstrip(" |").rpartition(" | ")[2]
            for text in _CODE.findall(cell):
                seen |= set(re.findall(r"\b(?:gpu|workload)_[a-z0-9_]*[a-z0-9]\b", text))
    assert len(seen) > 25
    assert seen - METRICS - {"gpu_uuid"} == set()


def test_targets_of_make_are_those_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set()
    for path in documents():
        text = path.read_text()
        named |= set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", text, re.MULTILINE))
    assert {"run", "test", "docs"} <= named
    assert named - targets == set()
