"""Where the prolog and the epilog are: no run of the installer takes away what slurmd still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.required import lacking

from .installing import PYTHON, Image, make_wheels

SCRIPT = "50-dutycycle.sh"
OWN = ("--prolog-dir", "/opt/slurm/prolog.d", "--epilog-dir", "/opt/slurm/epilog.d")
ALL = "PrologFlags=Alloc\nProlog=/opt/slurm/prolog.d/*\nEpilog=/opt/slurm/epilog.d/*\n"
CONF = "/srv/cluster/slurm.conf"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHON:
        lacking("Python 3.11 or newer, with venv")
    return make_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Image:
    """Into directories of the site's, by a slurm.conf that is where nobody looks; nobody changes it."""
    image = Image(tmp_path_factory.mktemp("image") / "root", wheels)
    image.write(CONF, ALL)
    said = image.install("node", *OWN, "--slurm-conf", CONF)
    assert "slurm.conf" not in said
    return image


@pytest.fixture
def node(tmp_path: Path, installed: Image) -> Image:
    return installed.copy(tmp_path / "root")


def scripts(node: Image) -> set[str]:
    return {str(path.relative_to(node.root)) for path in node.root.rglob(SCRIPT)}


BOTH = {f"opt/slurm/prolog.d/{SCRIPT}", f"opt/slurm/epilog.d/{SCRIPT}"}


def test_an_upgrade_without_the_options_stays_where_the_installation_was(node: Image, tmp_path: Path) -> None:
    node.wheels = make_wheels(tmp_path / "newer", "2.0")
    said = node.install("node")
    assert "replaces" not in said
    assert "slurm.conf" not in said
    assert scripts(node) == BOTH
    assert node.install("node").startswith("Nothing to do")


def test_scripts_do_not_move_away_from_a_slurm_that_would_drain_the_node(node: Image) -> None:
    before = node.listing()
    said = node.install("node", "--prolog-dir", "/etc/slurm/prolog.d", code=3)
    assert "Slurm still has Prolog=/opt/slurm/prolog.d/*" in said
    assert "Epilog" not in said
    assert node.listing() == before
    node.write(CONF, ALL.replace("/opt/slurm/prolog.d", "/etc/slurm/prolog.d"))
    node.install("node", "--prolog-dir", "/etc/slurm/prolog.d")
    assert scripts(node) == {f"etc/slurm/prolog.d/{SCRIPT}", f"opt/slurm/epilog.d/{SCRIPT}"}
    assert node.install("node").startswith("Nothing to do")


def test_the_slurm_conf_of_the_installation_is_asked_at_the_end(node: Image) -> None:
    before = node.listing()
    assert f"Take that line out of {CONF}" in node.install("node", "--uninstall", code=3)
    # Known to be needed: no option overrides that.
    assert "Slurm still has Epilog=/opt/slurm/epilog.d/*" in node.install("node", "--uninstall", "--force", code=3)
    assert node.listing() == before
    node.write(CONF, "ClusterName=x\n")
    node.install("node", "--uninstall")
    assert scripts(node) == set()


@pytest.mark.parametrize("remedy", [("--force",), ("--slurm-conf", "/srv/other.conf")])
def test_where_slurm_cannot_be_asked_nothing_is_taken_away(node: Image, remedy: tuple[str, ...]) -> None:
    node.path(CONF).unlink()
    node.write("/srv/other.conf", "ClusterName=x\n")
    before = node.listing()
    said = node.install("node", "--uninstall", code=3)
    assert "neither slurm.conf nor scontrol was found here" in said
    assert "--slurm-conf FILE" in said
    assert node.listing() == before
    node.install("node", "--uninstall", *remedy)
    assert scripts(node) == set()


@pytest.mark.parametrize("place", ["/opt/slurm/etc", "/usr/local/etc", "/etc/slurm-llnl"])
def test_a_slurm_that_was_built_by_hand_is_found(node: Image, place: str) -> None:
    node.path(CONF).rename(node.path("/srv/gone.conf"))
    node.write(f"{place}/slurm.conf", ALL)
    assert f"Take that line out of {place}/slurm.conf" in node.install("node", "--uninstall", code=3)
