"""The reference documents say all there is, and nothing of the machine on which they were made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from pydantic import BaseModel

from dutycycle_alerter.cli import cli as alerter
from dutycycle_alerter.config_file import load
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.web.families import FAMILIES as ALERTERS
from dutycycle_dashboards.cli import cli as dashboards
from dutycycle_exporter.cli import cli as exporter
from dutycycle_exporter.contract import FAMILIES
from tools import reference_cli, reference_configuration, reference_metrics, reference_rules


def test_the_example_is_a_valid_file_that_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_bytes(reference_configuration.example())
    assert load(path) == Settings()


def test_the_example_has_every_key() -> None:
    written = yaml.safe_load(reference_configuration.example())
    assert set(paths_of(written)) == set(paths_of(Settings().model_dump(mode="json")))


def paths_of(mapping: dict[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in mapping.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from paths_of(value, f"{prefix}{key}.")


def test_the_page_has_every_key_with_its_default() -> None:
    keys = {key.path: key for part in reference_configuration.parts() for key in part.keys}
    sections = {part.path for part in reference_configuration.parts()}
    assert set(keys) | sections - {""} >= set(paths_of(Settings().model_dump(mode="json")))
    assert keys["judging.rules.idle.window"].default == "30m"
    assert keys["source.timeout"].type == "duration, not scaled"
    assert keys["costs.gpu_hour"].type == "number, at least 0, or nothing"
    assert keys["kinds[].kind"].default is None
    page = reference_configuration.document().decode()
    assert all(f"`{path}`" in page for path in keys)


def test_a_section_without_a_word_about_it_is_refused_here() -> None:
    assert [part.path for part in reference_configuration.parts() if not part.about] == []


def test_an_unknown_kind_of_field_is_an_error_and_not_left_out() -> None:
    class Strange(BaseModel):
        field: complex = 0j

    with pytest.raises(TypeError, match="does not know how to describe"):
        reference_configuration._type(complex, Strange.model_fields["field"])


def test_every_metric_is_documented_with_its_labels() -> None:
    page = reference_metrics.document().decode()
    sets = {name: set(re.findall(r"`(\w+)`", line)) for name, line in re.findall(r"- \*\*(.*?)\*\*: (.*)", page)}
    rows = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \| .* \|$", page, re.MULTILINE))
    labels_of = {name: set(family.labels) for name, family in FAMILIES.items()}
    labels_of |= {name: set(family.labels) for name, family in ALERTERS.items()}
    assert set(rows) == set(labels_of)
    for name, cell in rows.items():
        labels = set(re.findall(r"`(\w+)`", cell))
        for set_name, members in sets.items():
            labels |= members if set_name in cell else set()
        assert labels == labels_of[name], name


@pytest.mark.parametrize(
    ("program", "command"),
    [("dutycycle", alerter), ("dutycycle-exporter", exporter), ("dutycycle-dashboards", dashboards)],
)
def test_every_option_of_every_command_is_documented(program: str, command: click.Command) -> None:
    page = reference_cli.document().decode()
    for path, found in commands_of(program, command):
        section = page.split(f"## `{path}`\n")[1].split("\n## ")[0]
        for option in found.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in section, path


def commands_of(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands_of(f"{path} {name}", child)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("DUTYCYCLE_EXPORTER_WEB_LISTEN_ADDRESS", "--web.listen-address"),
        ("DUTYCYCLE_EXPORTER_SAMPLE_INTERVAL", "--sample-interval"),
        ("DUTYCYCLE_DATABASE", "--database"),
    ],
)
def test_variables_are_those_that_click_reads(name: str, option: str) -> None:
    assert f"| `{option}` | `{name}` |" in reference_cli.document().decode()


def test_nothing_depends_on_the_terminal_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (reference_cli, reference_configuration, reference_metrics, reference_rules)
    before = [module.document() for module in modules]
    for name, value in (
        ("COLUMNS", "40"),
        ("TERM", "dumb"),
        ("HOME", "/nowhere"),
        ("DUTYCYCLE_DATABASE", "sqlite:///other"),
        ("DUTYCYCLE_EXPORTER_CLUSTER", "other"),
    ):
        monkeypatch.setenv(name, value)
    assert [module.document() for module in modules] == before
