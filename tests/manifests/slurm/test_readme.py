"""What the README says of the installation is what there is to install."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = (ROOT / "manifests/slurm/README.md").read_text()


def needed(name):
    """A package's own requirements, by name; those of an extra or another system are not needed here."""
    found = [requirement for requirement in requires(name) or () if ";" not in requirement]
    return {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in found}


def test_the_packages_that_are_gathered_are_those_that_the_exporter_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in project["optional-dependencies"]["exporter"]}
    while more := set().union(*map(needed, names)) - names:
        names |= more
    [listed] = re.findall(r"sed -nE '/\^\(([^)]+)\)==/", README)
    assert listed.split("|") == sorted(names)
    lock = (ROOT / "requirements.lock").read_text()
    assert all(re.search(rf"^{re.escape(name)}==", lock, re.MULTILINE) for name in names)


def test_every_file_that_is_installed_exists():
    sources = re.findall(r"^install -D -m \d+ (\S+)", README, re.MULTILINE)
    assert len(sources) == 5
    assert [name for name in sources if not (ROOT / "manifests/slurm" / name).is_file()] == []
