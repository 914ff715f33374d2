"""The installer: what it makes, that it can be run again, what it leaves to the operator, and that it can be undone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.required import lacking

from .installing import INSTALL, PYTHON, Image, make_wheels
from .machine import SLURM

NODE = {
    "etc/dutycycle/exporter.env",
    "etc/dutycycle/prolog.conf",
    "etc/slurm/epilog.d/50-dutycycle.sh",
    "etc/slurm/prolog.d/50-dutycycle.sh",
    "etc/systemd/system/dutycycle-exporter.service",
    "etc/systemd/system/multi-user.target.wants/dutycycle-exporter.service",
    "opt/dutycycle/bin/dutycycle-exporter",
    "opt/dutycycle/installed/node",
    "opt/dutycycle/installed/shared",
    "usr/lib/sysusers.d/dutycycle.conf",
    "usr/lib/tmpfiles.d/dutycycle.conf",
}
UNIT = "/etc/systemd/system/dutycycle-exporter.service"
SETTINGS = "/etc/dutycycle/exporter.env"
PROLOG = "/etc/slurm/prolog.d/50-dutycycle.sh"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ends the tests where no Python will do."""
    if not PYTHON:
        lacking("Python 3.11 or newer, with venv")
    return make_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Image:
    """A node, installed; nobody changes it."""
    image = Image(tmp_path_factory.mktemp("image") / "root", wheels)
    image.install("node")
    return image


@pytest.fixture
def image(tmp_path: Path, wheels: Path) -> Image:
    return Image(tmp_path / "root", wheels)


@pytest.fixture
def node(tmp_path: Path, installed: Image) -> Image:
    """A node, installed from a tree of the test's own."""
    shutil.copytree(SLURM, tmp_path / "slurm")
    return installed.copy(tmp_path / "root", tmp_path / "slurm")


def files(image: Image) -> set[str]:
    """All of them, but for those of the virtual environments."""
    return {
        str(path.relative_to(image.root))
        for path in image.root.rglob("*")
        if (path.is_symlink() or path.is_file()) and "/venvs/" not in str(path)
    }


def test_a_node_gets_what_the_readme_says(installed: Image) -> None:
    assert files(installed) == NODE
    assert os.access(installed.path(PROLOG), os.X_OK)
    assert installed.path(PROLOG).read_bytes() == (SLURM / "prolog.d/dutycycle.sh").read_bytes()


def test_the_program_is_made_for_the_image_and_not_for_the_directory_it_is_made_in(installed: Image) -> None:
    environment = installed.path("/opt/dutycycle/venvs") / installed.program()
    first = (environment / "bin/dutycycle-exporter").read_text().splitlines()[0]
    assert first == f"#!/opt/dutycycle/venvs/{environment.name}/bin/python"
    mentions = subprocess.run(["grep", "-rlF", str(installed.root), environment], capture_output=True, check=False)
    assert mentions.stdout == b""


def test_the_program_runs_without_what_installed_it(installed: Image) -> None:
    environment = installed.path("/opt/dutycycle/venvs") / installed.program()
    code = "import dutycycle_empty; dutycycle_empty.main()"
    done = subprocess.run([environment / "bin/python", "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1.0\n"
    packages = {path.name for path in next((environment / "lib").glob("python*/site-packages")).iterdir()}
    assert packages == {"__pycache__", "dutycycle_empty.py", "dutycycle-1.0.dist-info"}


def test_a_second_run_changes_nothing_and_says_so(node: Image) -> None:
    before = node.listing()
    assert node.install("node").startswith("Nothing to do: node is installed, and as it should be.\n")
    assert node.listing() == before


def test_a_dry_run_says_what_would_be_done_and_does_nothing(image: Image) -> None:
    said = image.install("node", "--dry-run")
    assert list(image.root.iterdir()) == []
    for name in NODE - {"opt/dutycycle/installed/node", "opt/dutycycle/installed/shared"}:
        assert f"/{name}\n" in said or f"enables {Path(name).name}\n" in said, name


def test_what_was_damaged_is_put_right(node: Image) -> None:
    node.path(PROLOG).write_text("exit 1\n")
    node.path(UNIT).unlink()
    node.path("/etc/slurm/epilog.d/50-dutycycle.sh").chmod(0o644)
    said = node.install("node")
    assert f"replaces {PROLOG}" in said
    assert f"writes {UNIT}" in said
    assert node.path(PROLOG).read_bytes() == (SLURM / "prolog.d/dutycycle.sh").read_bytes()
    assert os.access(node.path("/etc/slurm/epilog.d/50-dutycycle.sh"), os.X_OK)


# Upgrades, and what is the operator's.


def upgraded(node: Image, name: str = "etc/exporter.env", text: str = "# newer\n") -> None:
    with (node.tree / name).open("a") as file:
        file.write(text)


def test_a_new_version_of_a_file_that_nobody_changed_replaces_it(node: Image) -> None:
    upgraded(node)
    assert f"replaces {SETTINGS}" in node.install("node")
    assert node.path(SETTINGS).read_text().endswith("# newer\n")
    assert not node.path(f"{SETTINGS}.new").exists()


def test_what_the_operator_changed_is_kept_and_the_new_version_is_put_beside_it_once(node: Image) -> None:
    node.path(SETTINGS).write_text("DUTYCYCLE_EXPORTER_CLUSTER=alps\n")
    assert node.install("node").startswith("Nothing to do")
    upgraded(node)
    assert f"{SETTINGS}.new" in node.install("node")
    assert node.path(SETTINGS).read_text() == "DUTYCYCLE_EXPORTER_CLUSTER=alps\n"
    assert node.path(f"{SETTINGS}.new").read_text().endswith("# newer\n")
    assert node.install("node").startswith("Nothing to do")


def test_what_the_operator_removed_stays_away(node: Image) -> None:
    node.path(SETTINGS).unlink()
    assert node.install("node").startswith("Nothing to do")
    upgraded(node)
    assert f"leaves {SETTINGS} away" in node.install("node")
    assert not node.path(SETTINGS).exists()


def test_a_configuration_that_was_there_before_is_the_operators(image: Image) -> None:
    image.write(SETTINGS, "DUTYCYCLE_EXPORTER_CLUSTER=alps\n")
    assert f"{SETTINGS}.new" in image.install("node")
    assert image.path(SETTINGS).read_text() == "DUTYCYCLE_EXPORTER_CLUSTER=alps\n"


def test_a_unit_that_the_operator_disabled_stays_so(node: Image) -> None:
    link = node.path("/etc/systemd/system/multi-user.target.wants/dutycycle-exporter.service")
    link.unlink()
    assert "leaves dutycycle-exporter.service disabled" in node.install("node")
    assert not link.is_symlink()


def test_a_new_program_takes_the_old_ones_place(node: Image, tmp_path: Path) -> None:
    before = node.program()
    node.wheels = make_wheels(tmp_path / "newer", "2.0")
    node.install("node")
    environments = [path.name for path in node.path("/opt/dutycycle/venvs").iterdir()]
    assert environments == [node.program()] != [before]


def test_the_alerters_previous_program_stays_as_the_way_back(image: Image, tmp_path: Path) -> None:
    made = []
    for version in ("1.0", "2.0", "3.0"):
        image.wheels = make_wheels(tmp_path / version, version)
        image.install("alerter")
        made.append(image.program("dutycycle"))
    assert {path.name for path in image.path("/opt/dutycycle/venvs").iterdir()} == set(made[1:])
    assert image.install("alerter").startswith("Nothing to do")
    assert {path.name for path in image.path("/opt/dutycycle/venvs").iterdir()} == set(made[1:])
    image.install("alerter", "--uninstall", "--purge")
    assert list(image.root.iterdir()) == []


def test_files_that_a_version_no_longer_has_go(node: Image) -> None:
    roles = node.tree / "installer/roles.bash"
    lines = roles.read_text().splitlines()
    kept = [line for line in lines if "planning enabled" not in line and "etc/exporter.env" not in line]
    roles.write_text("\n".join(kept) + "\n")
    assert "removes /etc/systemd/system/multi-user.target.wants/dutycycle-exporter.service" in node.install("node")
    assert not node.path("/etc/systemd/system/multi-user.target.wants/dutycycle-exporter.service").is_symlink()
    assert node.path(SETTINGS).exists()  # the operator's


# Cut off, and undone.


KILL = """\
unset BASH_ENV
set -T
trap 'compgen -G "$KILL_AT" >/dev/null && kill -KILL 0' DEBUG
"""
"""Before the first command that finds the file there: whatever the machine's load, the same place."""


@pytest.mark.parametrize(
    ("made", "then"),
    [
        ("opt/dutycycle/installed/node.part", "uninstall"),
        ("opt/dutycycle/venvs/*/bin", "install"),
        (UNIT[1:], "install"),
        (UNIT[1:], "uninstall"),
    ],
)
def test_what_was_killed_half_way_can_be_run_again_and_undone(
    image: Image, tmp_path: Path, made: str, then: str
) -> None:
    (tmp_path / "kill.bash").write_text(KILL)
    environment = {**os.environ, "BASH_ENV": str(tmp_path / "kill.bash"), "KILL_AT": str(image.root / made)}
    killed = subprocess.run(
        image.command("node"), env=environment, capture_output=True, timeout=240, start_new_session=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list(image.root.glob(made))
    assert not image.path(PROLOG).exists()
    if then == "install":
        image.install("node")
        assert files(image) == NODE
        assert image.path(f"/opt/dutycycle/venvs/{image.program()}/.complete").exists()
        assert len(list(image.path("/opt/dutycycle/venvs").iterdir())) == 1
        assert image.install("node").startswith("Nothing to do")
    image.install("node", "--uninstall", "--purge", "--force")
    assert list(image.root.iterdir()) == []


def test_without_purge_configuration_stays_and_it_says_so(node: Image) -> None:
    node.path(SETTINGS).write_text("DUTYCYCLE_EXPORTER_CLUSTER=alps\n")
    said = node.install("node", "--uninstall", "--force")
    assert files(node) == {
        *(SETTINGS[1:], "etc/dutycycle/prolog.conf"),
        *("opt/dutycycle/installed/node", "opt/dutycycle/installed/shared"),
    }
    left = said.partition("Left here:")[2]
    assert f"{node.root}{SETTINGS}\n" in left
    node.install("node")
    assert files(node) == NODE
    assert node.path(SETTINGS).read_text() == "DUTYCYCLE_EXPORTER_CLUSTER=alps\n"
    node.install("node", "--uninstall", "--force")
    node.install("node", "--uninstall", "--purge")
    assert list(node.root.iterdir()) == []


def test_what_others_put_there_stays(node: Image) -> None:
    """And so do the directories that it is in."""
    node.write("/etc/dutycycle/slurm.token", "x")
    node.write("/etc/slurm/prolog.d/10-site.sh", "x")
    assert "/etc/dutycycle, which has files" in node.install("node", "--uninstall", "--purge", "--force")
    assert files(node) == {"etc/dutycycle/slurm.token", "etc/slurm/prolog.d/10-site.sh"}


def test_what_was_there_before_the_installation_is_never_purged(image: Image) -> None:
    """An own configuration; a store's directory with something else, or restored, in it. Also after an upgrade."""
    image.write("/etc/dutycycle/config.yaml", "# ours\n")
    image.write("/var/lib/dutycycle/precious", "x")
    shutil.copytree(SLURM, image.root.parent / "slurm")
    image.tree = image.root.parent / "slurm"
    image.install("alerter")
    upgraded(image, "etc/config.yaml")
    image.install("alerter")
    left = image.install("alerter", "--uninstall", "--purge").partition("Left here:")[2]
    assert f"{image.root}/etc/dutycycle/config.yaml, which was here before" in left
    assert f"{image.root}/var/lib/dutycycle, which was here before" in left
    assert files(image) == {"etc/dutycycle/config.yaml", "var/lib/dutycycle/precious"}
    assert image.path("/etc/dutycycle/config.yaml").read_text() == "# ours\n"


def test_drop_ins_stay_and_it_says_so(node: Image) -> None:
    node.write(f"{UNIT}.d/override.conf", "[Service]\nMemoryMax=1G\n")
    said = node.install("node", "--uninstall", "--purge", "--force")
    assert f"{node.root}{UNIT}.d, which systemctl edit made" in said.partition("Left here:")[2]
    assert files(node) == {f"{UNIT[1:]}.d/override.conf"}


def test_uninstalling_what_is_not_installed_is_nothing_to_do(image: Image) -> None:
    assert image.install("alerter", "--uninstall").startswith("Nothing to do")
    assert list(image.root.iterdir()) == []


def test_roles_on_one_machine_leave_each_others_files(node: Image) -> None:
    node.install("discovery")
    node.install("alerter")
    node.install("node", "--uninstall", "--purge", "--force")
    assert node.path("/usr/lib/sysusers.d/dutycycle.conf").exists()
    assert node.path("/opt/dutycycle/bin/dutycycle-slurm-sd").exists()
    assert node.program("dutycycle")
    assert node.install("discovery").startswith("Nothing to do")
    assert node.install("alerter").startswith("Nothing to do")
    node.install("discovery", "--uninstall", "--purge")
    node.install("alerter", "--uninstall", "--purge")
    assert list(node.root.iterdir()) == []


# Checks, before anything is changed.


def no_list(image: Image) -> None:
    image.wheels = image.root.parent


def another_machine(image: Image) -> None:
    image.wheels = make_wheels(image.root.parent / "wheels", tags="cp311-cp311-manylinux_2_28_s390x")


def another_python(image: Image) -> None:
    image.wheels = make_wheels(image.root.parent / "wheels", tags="cp39-cp39-any")


def damaged(image: Image) -> None:
    image.wheels = make_wheels(image.root.parent / "wheels")
    with next(image.wheels.glob("*.whl")).open("ab") as wheel:
        wheel.write(b"x")


def strange_list(image: Image) -> None:
    image.wheels = make_wheels(image.root.parent / "wheels")
    (image.wheels / "exporter.txt").write_text("--index-url https://example.org/simple\n")


def somebody_elses(image: Image) -> None:
    image.write(PROLOG, "#!/bin/sh\n")


def a_file_in_the_way(image: Image) -> None:
    image.write("/etc/dutycycle", "")


@pytest.mark.parametrize(
    ("arrange", "said"),
    [
        (no_list, "exporter.txt is missing: run make wheels"),
        (another_machine, "has no wheel of dutycycle 1.0 for Python 3"),
        (another_python, "has no wheel of dutycycle 1.0 for Python 3"),
        (damaged, "is not what "),
        (strange_list, "what is --index-url"),
        (somebody_elses, f"{PROLOG} is there already and is not from this installer: move it away"),
        (a_file_in_the_way, "/etc/dutycycle is no directory"),
    ],
)
def test_a_check_that_fails_names_file_and_remedy_and_changes_nothing(
    image: Image, arrange: Callable[[Image], None], said: str
) -> None:
    arrange(image)
    before = image.listing()
    told = image.install("node", code=3)
    assert said in told
    assert "nothing was changed" in told
    assert image.listing() == before


@pytest.mark.parametrize(
    ("python", "said"),
    [("/nowhere/python3", "there is no /nowhere/python3"), ("/bin/false", "/bin/false is too old")],
)
def test_a_python_that_will_not_do_is_named(image: Image, python: str, said: str) -> None:
    command = [str(INSTALL), "node", "--root", str(image.root), "--wheels", str(image.wheels), "--python", python]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which role"),
        (("node", "alerter"), "one role at a time"),
        (("node", "--whels", "x"), "there is no --whels"),
        (("node", "--wheels"), "--wheels needs a value"),
        (("node", "--purge"), "--purge goes with --uninstall"),
        (("node", "--prolog-dir", "prolog.d"), "--prolog-dir is to be an absolute path"),
    ],
)
def test_wrong_arguments_are_told_apart(arguments: tuple[str, ...], said: str) -> None:
    done = subprocess.run([INSTALL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_help_has_examples() -> None:
    done = subprocess.run([INSTALL, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "Examples:\n  install.sh node" in done.stdout


def test_colours_are_for_terminals_only(image: Image) -> None:
    assert "\x1b" not in image.install("node", "--dry-run")
    if shutil.which("script") is None:
        lacking("script")
    command = " ".join(image.command("node", "--dry-run"))
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        env={**os.environ, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"\x1b[32m" in done.stdout


# Slurm's configuration.

ALL = "PrologFlags=Alloc\nProlog=/etc/slurm/prolog.d/*\nEpilog=/etc/slurm/epilog.d/*\n"


@pytest.mark.parametrize(
    ("conf", "lacks"),
    [
        pytest.param(ALL, [], id="all"),
        pytest.param(ALL.replace("Alloc", "Contain,X11"), [], id="more flags"),
        pytest.param(ALL.lower().replace("alloc", "ALLOC"), [], id="other case"),
        pytest.param(ALL.replace("Alloc", '"alloc" # as everybody'), [], id="quoted, with a comment"),
        pytest.param(ALL.replace("/*", "/*.sh"), [], id="a narrower pattern"),
        pytest.param("Include ours.conf\n", [], id="included"),
        pytest.param(ALL.replace("/prolog.d/*", "/site.sh"), [], id="a script of the site's that calls ours"),
        pytest.param(ALL.replace("Alloc", "NoHold"), ["PrologFlags=Alloc,nohold"], id="another flag"),
        pytest.param(ALL.replace("Alloc", "Deferbatch"), ["PrologFlags=Alloc,deferbatch"], id="a flag like it"),
        pytest.param(ALL.replace("PrologFlags", "#PrologFlags"), ["PrologFlags=Alloc"], id="no flags"),
        pytest.param(ALL.replace("prolog.d/*", "own.sh"), ["Prolog=/etc/slurm/prolog.d/*"], id="another prolog"),
        pytest.param(ALL.replace("epilog.d/*", "epilog.d/10*"), ["Epilog=/etc/slurm/epilog.d/*"], id="not ours"),
        pytest.param("ClusterName=x\n", ALL.splitlines(), id="nothing"),
        pytest.param(None, ALL.splitlines(), id="no file"),
    ],
)
def test_what_slurm_conf_lacks_is_said_and_nothing_else(node: Image, conf: str | None, lacks: list[str]) -> None:
    node.write("/etc/slurm/ours.conf", ALL)
    node.write("/etc/slurm/site.sh", "exec /etc/slurm/prolog.d/50-dutycycle.sh\n")
    node.write("/etc/slurm/own.sh", "true\n")
    if conf is not None:
        node.write("/etc/slurm/slurm.conf", conf)
    said = node.install("node")
    assert re.findall(r"^    (\S+=.*)$", said, re.MULTILINE) == lacks
    assert ("slurm.conf" in said) == bool(lacks)


def test_the_operators_own_prolog_is_not_forgotten(node: Image) -> None:
    node.write("/etc/slurm/slurm.conf", ALL.replace("prolog.d/*", "own.sh"))
    said = node.install("node")
    assert "What it has now (/etc/slurm/own.sh) would be replaced" in said


def test_scripts_are_not_taken_from_a_slurm_that_would_drain_the_node(node: Image) -> None:
    """A pattern that matches no file is an error to slurmd."""
    node.write("/etc/slurm/slurm.conf", ALL)
    before = node.listing()
    said = node.install("node", "--uninstall", code=3)
    assert "Slurm still has Prolog=/etc/slurm/prolog.d/*" in said
    assert "Slurm still has Epilog=/etc/slurm/epilog.d/*" in said
    assert node.listing() == before
    for what in ("prolog", "epilog"):
        node.write(f"/etc/slurm/{what}.d/10-site.sh", "#!/bin/sh\n")
    node.install("node", "--uninstall")
    assert not node.path(PROLOG).exists()
