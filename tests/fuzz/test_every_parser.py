"""Every module that takes apart what others wrote has a fuzz test, or a reason why it needs none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ("exporter/dutycycle_exporter", "alerter/dutycycle_alerter", "dashboards/dutycycle_dashboards")

TAKE_APART = frozenset(
    {
        *("loads", "safe_load", "compose", "reader", "DictReader", "Decoder", "Unpickler", "literal_eval"),
        *("unpack", "unpack_from", "iter_unpack", "from_buffer_copy", "decompress", "decompressobj", "fromhex"),
        *("b64decode", "urlsafe_b64decode", "fromisoformat", "strptime", "parsedate_to_datetime", "getaddresses"),
        *("urlsplit", "urlparse", "parse_qs", "parse_qsl", "ip_address", "ip_network", "model_validate"),
        *("model_validate_json", "read_bytes", "read_text", "recv", "recv_into", "recvfrom", "read1", "readline"),
        *("request", "urlopen", "getproxies", "readlink", "Popen", "ZoneInfo", "choose_encoder"),
    }
)
"""Calls, by their last name. `int`, `float` and expressions are not among them: they take apart anything."""

OF_MODULES = frozenset({"json", "yaml", "pickle", "gzip", "os", "io", "tomllib", "marshal"})
"""Whose `read`, `load` and `open` are such calls; others have methods that are called so."""

THROUGH = {
    "dutycycle_alerter.kubernetes.loading": "alerter/test_access.py",
    "dutycycle_alerter.promql.client": "alerter/test_configuration.py",
    "dutycycle_alerter.recordings.cells": "alerter/test_recordings.py",
    "dutycycle_alerter.recordings.clock": "alerter/test_recordings.py",
    "dutycycle_alerter.recordings.lines": "alerter/test_recordings.py",
    "dutycycle_alerter.recordings.nvidia_smi": "alerter/test_recordings.py",
    "dutycycle_alerter.settings.prometheus": "alerter/test_configuration.py",
    "dutycycle_alerter.settings.scrape": "alerter/test_configuration.py",
    "dutycycle_exporter.attribution.strict_json": "exporter/test_kubelet.py",
    "dutycycle_exporter.nvml.fields": "exporter/test_nvml.py",
    "dutycycle_exporter.nvml.gpm": "exporter/test_nvml.py",
    "dutycycle_exporter.nvml.processes": "exporter/test_nvml.py",
    "dutycycle_exporter.nvml.utilization": "exporter/test_nvml.py",
}
"""Modules whose parsers are called by what a test names, and that test; all others a test names itself."""

EXEMPT = {
    "dutycycle_alerter.cli.exporters": "that its own exporter answers, and a line of what that said, shown",
    "dutycycle_alerter.cli.stopping": "a byte of a pipe of its own, thrown away",
    "dutycycle_alerter.notify.composing.templates": "an operator's templates: Jinja parses them, in a sandbox",
    "dutycycle_alerter.notify.receivers.building": "an operator's certificates: OpenSSL parses them",
    "dutycycle_alerter.reports.shapes": "what this program has just made",
    "dutycycle_alerter.slurm.commands": "bytes for slurm.documents and slurm.sacct, which are fuzzed",
    "dutycycle_alerter.sources.resolving": "targets that settings.scrape has let through",
    "dutycycle_alerter.store.backup": "opens what SQLite has just written, to have it on the disk",
    "dutycycle_alerter.store.keys": "what this program has written into its own store",
    "dutycycle_alerter.store.lock": "a number in its own file, shown and not parsed",
    "dutycycle_alerter.store.sqlite": "creates a file, and reads none of it",
    "dutycycle_alerter.web.app": "a public URL that settings.web has let through",
    "dutycycle_alerter.web.ledger_page": "a file of the package",
    "dutycycle_alerter.web.report": "a file of the package",
    "dutycycle_alerter.web.templating": "a file of the package",
    "dutycycle_dashboards.cli.render": "bytes that are compared, and not parsed",
    "dutycycle_exporter.driver": "bytes that are compared, and not parsed",
    "dutycycle_exporter.pid_namespace": "a link that is compared, and not parsed",
    "dutycycle_exporter.signals": "a byte of a pipe of its own, thrown away",
    "dutycycle_exporter.supervisor": "a child of its own, whose pipe is read by pipe, which is fuzzed",
    "dutycycle_exporter.web.tls": "an operator's certificates: OpenSSL parses them",
}
"""Why a module that reads needs no test here."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for component in COMPONENTS:
        for path in sorted((ROOT / component).rglob("*.py")):
            parts = path.relative_to((ROOT / component).parent).with_suffix("").parts
            if "migrations" not in parts:
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), ast.parse(path.read_text())


def takes_apart(tree: ast.Module) -> list[str]:
    """The calls in a module that take apart bytes or text, or read a file."""
    return [found for node in ast.walk(tree) if isinstance(node, ast.Call) for found in [_named(node)] if found]


def _named(call: ast.Call) -> str:
    owner = ""
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    else:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
    modes = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    opened = name == "open" and any(mode.startswith("r") for mode in modes)
    theirs = name in ("read", "load", "open") and owner in OF_MODULES
    return name if name in TAKE_APART or opened or theirs else ""


def named_by_tests() -> dict[str, set[str]]:
    """The modules that each fuzz test imports something of."""
    found: dict[str, set[str]] = {}
    here = Path(__file__).parent
    for path in here.rglob("test_*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        found[path.relative_to(here).as_posix()] = names
    return found


@pytest.fixture(scope="module")
def read() -> dict[str, list[str]]:
    """The modules that take something apart, and by which calls."""
    return {name: calls for name, tree in modules() if (calls := takes_apart(tree))}


@pytest.fixture(scope="module")
def tested() -> dict[str, set[str]]:
    return named_by_tests()


def test_a_module_that_takes_apart_what_others_wrote_is_fuzzed(
    read: dict[str, list[str]], tested: dict[str, set[str]]
) -> None:
    fuzzed = THROUGH.keys() | set().union(*tested.values())
    lacking = {module: sorted(set(calls)) for module, calls in read.items() if module not in fuzzed | EXEMPT.keys()}
    assert not lacking, f"no test in tests/fuzz names these, which make such calls: {lacking}"
    assert not fuzzed & EXEMPT.keys(), f"these have a test by now: {fuzzed & EXEMPT.keys()}"


def test_the_lists_say_what_is(read: dict[str, list[str]], tested: dict[str, set[str]]) -> None:
    assert THROUGH.keys() | EXEMPT.keys() <= read.keys(), "a module that reads nothing any more, or is gone"
    for module, test in THROUGH.items():
        assert module not in tested[test], "names it itself by now"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import json\njson.loads(body)", ["loads"]),
        ("path.open('rb')", ["open"]),
        ("path.open('w')", []),
        ("yaml.load(text, Loader=Loader)", ["load"]),
        ("os.read(pipe, 9)", ["read"]),
        ("self._reader.read(now)", []),
        ("DECODER = msgspec.json.Decoder(Answer)", ["Decoder"]),
        ("_SAMPLE.unpack(sample)", ["unpack"]),
        ("ZoneInfo(name)", ["ZoneInfo"]),
        ("json.dumps(value)", []),
    ],
)
def test_what_takes_apart_is_seen(source: str, found: list[str]) -> None:
    assert takes_apart(ast.parse(source)) == found
