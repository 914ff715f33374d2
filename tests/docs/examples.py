"""What an example in YAML is, and what is wrong with it: each kind is read by the program that would read it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.settings import Settings
from dutycycle_exporter.cli import cli as exporter
from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.config_file import keys
from dutycycle_exporter.errors import ExporterError
from tests.prometheus.server import program

_KUBERNETES = "1.37"
_RELABELING = "metric_relabel_configs"
"""A part of a job of Prometheus' configuration, shown by itself."""
_OURS = "monitoring.coreos.com", "kustomize.config.k8s.io"
"""API groups that Kubernetes' own schemas do not have; tests/manifests has theirs."""


def kind(text: str) -> str:
    """Which of `CHECKS` reads it; empty where none does."""
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return "broken"
    if all(isinstance(one, dict) and {"apiVersion", "kind"} <= set(one) for one in documents):
        return "kubernetes"
    (one,) = documents if len(documents) == 1 else (None,)
    if isinstance(one, list) and all(isinstance(rule, dict) and {"expr"} < set(rule) for rule in one):
        return "rules"
    names = set(one) if isinstance(one, dict) else set()
    for found, has in _BY_KEYS.items():
        if names and has(names):
            return found
    return ""


_BY_KEYS: Mapping[str, Callable[[set[str]], bool]] = {
    "alerter": lambda names: names <= set(Settings.model_fields),
    "exporter": lambda names: names <= set(keys(exporter.params)),
    "kustomization": lambda names: (
        names <= {"configMapGenerator", "generatorOptions", "namespace", "patches", "resources"}
    ),
    "alertmanager": lambda names: {"route", "receivers"} <= names,
    "prometheus": lambda names: bool(names & {"scrape_configs", "remote_write", "rule_files", _RELABELING}),
    "rules": lambda names: names == {"groups"},
}


def wrong(text: str, directory: Path) -> str:
    """What the program that reads it says of it; empty where it takes it. `directory` is the test's own."""
    return CHECKS[kind(text)](text, directory)


def _alerter(text: str, _directory: Path) -> str:
    try:
        parse(yaml.safe_load(re.sub(r"\$\{\w+\}", "x" * 24, text)), origin="example")
    except AlerterError as error:
        return str(error)
    return ""


def _exporter(text: str, directory: Path) -> str:
    path = directory / "exporter.yaml"
    path.write_text(text)
    try:
        read_settings([f"--config.file={path}"])
    except ExporterError as error:
        return str(error)
    return ""


def _kubernetes(text: str, _directory: Path) -> str:
    for one in yaml.safe_load_all(text):
        if one["apiVersion"].split("/")[0].endswith(_OURS):
            continue
        try:
            kubernetes_validate.validate(one, _KUBERNETES, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            return str(error)
    return ""


def _rules(text: str, directory: Path) -> str:
    found: Any = yaml.safe_load(text)
    rules = {"groups": [{"name": "example", "rules": found}]} if isinstance(found, list) else found
    return _checked(directory, yaml.safe_dump(rules), "promtool", "check", "rules")


def _prometheus(text: str, directory: Path) -> str:
    found = yaml.safe_load(text)
    if _RELABELING in found:
        text = yaml.safe_dump({"scrape_configs": [{"job_name": "example", **found}]})
    return _checked(directory, text, "promtool", "check", "config", "--syntax-only")


def _alertmanager(text: str, directory: Path) -> str:
    return _checked(directory, text, "amtool", "check-config")


def _checked(directory: Path, text: str, name: str, *arguments: str) -> str:
    path = directory / "example.yml"
    path.write_text(text)
    done = subprocess.run([program(name), *arguments, str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def expression(text: str, directory: Path) -> str:
    """What promtool says of PromQL."""
    return _rules(yaml.safe_dump([{"record": "example", "expr": text}]), directory)


CHECKS: Mapping[str, Callable[[str, Path], str]] = {
    "alerter": _alerter,
    "alertmanager": _alertmanager,
    "broken": lambda *_: "no YAML",
    "exporter": _exporter,
    "kubernetes": _kubernetes,
    # tests/manifests builds those of the repository.
    "kustomization": lambda *_: "",
    "prometheus": _prometheus,
    "rules": _rules,
}
