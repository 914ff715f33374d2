"""The installer on a machine that runs: users, directories, and what it asks of systemd, where something changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.machines import PROGRAMS, Machine
from tests.required import lacking

from .installing import INSTALL, PYTHON, make_wheels
from .machine import SLURM

UNIT = "dutycycle-exporter.service"
RESTART = [f"is-active --quiet {UNIT}", f"try-restart {UNIT}", f"is-active --quiet {UNIT}"]
ACCOUNTS = Path("/etc/passwd")


@pytest.fixture
def machine() -> Iterator[Machine]:
    if os.geteuid() != 0:
        lacking("root (for mounts)")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        lacking(", ".join(missing))
    others = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PYTHON, "-c", ""]
    if not PYTHON or subprocess.run(others, capture_output=True, check=False).returncode != 0:
        lacking("Python 3.11 or newer, with venv, that every user can run")
    if "dutycycle" in ACCOUNTS.read_text():
        pytest.skip("Dutycycle is installed on this machine")
    with Machine("bare") as machine:
        machine.remember()
        yield machine


@pytest.fixture
def wheels() -> Iterator[Path]:
    """Where the machine can read them: pytest's own directories are closed to others, but root reads all."""
    directory = Path(tempfile.mkdtemp(prefix="wheels-", dir="/tmp"))
    directory.chmod(0o755)
    yield make_wheels(directory)
    shutil.rmtree(directory)


def install(machine: Machine, wheels: Path, *arguments: str, tree: Path = SLURM, code: int = 0) -> str:
    own = ("--wheels", str(wheels), "--python", PYTHON)
    return machine.run(str(tree / "install.sh"), *arguments, *own, code=code)


def test_a_node_from_its_first_installation_to_its_last_file(machine: Machine, wheels: Path, tmp_path: Path) -> None:
    install(machine, wheels, "node")
    assert machine.asked_of_systemd() == ["daemon-reload", f"start {UNIT}"]
    assert machine.run("id", "-nG", "dutycycle") == "dutycycle\n"
    assert machine.run("stat", "-c", "%a %U", "/run/dutycycle/slurm/.new") == "755 root\n"
    run = machine.command("/opt/dutycycle/bin/dutycycle-exporter", user="dutycycle")
    assert subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout == "1.0\n"

    machine.write("/etc/dutycycle/exporter.env", "DUTYCYCLE_EXPORTER_CLUSTER=alps\n")
    assert install(machine, wheels, "node").startswith("Nothing to do")
    assert machine.asked_of_systemd() == []

    make_wheels(wheels, "2.0")
    install(machine, wheels, "node")
    assert machine.asked_of_systemd() == ["daemon-reload", *RESTART]

    shutil.copytree(SLURM, tmp_path / "slurm")
    with (tmp_path / "slurm/systemd" / UNIT).open("a") as unit:
        unit.write("# newer\n")
    install(machine, wheels, "node", tree=tmp_path / "slurm")
    assert machine.asked_of_systemd() == ["daemon-reload", *RESTART]

    install(machine, wheels, "node", "--uninstall", "--force")
    assert machine.asked_of_systemd() == [f"disable --now {UNIT}", "daemon-reload"]
    assert machine.run("id", "-un", "dutycycle") == "dutycycle\n"
    said = install(machine, wheels, "node", "--uninstall", "--purge")
    assert "removes user dutycycle" in said
    assert machine.changed() == []


def test_a_restart_that_failed_is_made_up_for(machine: Machine, wheels: Path) -> None:
    """Else what runs would be the old version for ever, as nothing else changes."""
    install(machine, wheels, "node")
    make_wheels(wheels, "2.0")
    systemctl = machine.read("/usr/local/bin/systemctl")
    machine.write("/usr/local/bin/systemctl", f"{systemctl}exit 1\n", 0o755)
    said = install(machine, wheels, "node", code=1)
    assert "run the same command again" in said
    machine.write("/usr/local/bin/systemctl", systemctl, 0o755)
    machine.asked_of_systemd()
    install(machine, wheels, "node")
    assert machine.asked_of_systemd() == ["daemon-reload", *RESTART]
    install(machine, wheels, "node")
    assert machine.asked_of_systemd() == []


def test_where_no_systemd_runs_nothing_is_started_and_it_is_said(machine: Machine, wheels: Path) -> None:
    machine.run("rmdir", "/run/systemd/system")
    assert f"{UNIT} begins at the next boot" in install(machine, wheels, "node")
    assert machine.asked_of_systemd() == []
    install(machine, wheels, "node", "--uninstall", "--purge", "--force")
    assert machine.changed() == ["/run/systemd/system"]


def test_a_user_that_was_there_before_stays(machine: Machine, wheels: Path) -> None:
    machine.run("useradd", "--system", "dutycycle-alerter")
    machine.remember()
    install(machine, wheels, "alerter")
    assert machine.run("stat", "-c", "%a %U %G", "/etc/dutycycle/config.yaml") == "640 root dutycycle-alerter\n"
    install(machine, wheels, "alerter", "--uninstall", "--purge")
    assert machine.changed() == []


SETTINGS = r"""
# a comment \
MAIL_PASSWORD=never read
  ; another
MAIL_PASSWORD = two  words\t
SINGLE='a "b" $c \d'
DOUBLE="a 'b' \$c \d \"e\"
f"
ESCAPED=a\ b\
c#d
LATER=a"b"'c'
EMPTY=
no assignment
user=root
SLURM_CONF=/srv/slurm.conf
"""


def test_its_commands_run_as_the_alerter_with_its_settings_and_nobody_elses_rights(
    machine: Machine, wheels: Path
) -> None:
    """As systemd reads them. The file has passwords, and only root can read it."""
    install(machine, wheels, "alerter")
    command = "/opt/dutycycle/bin/dutycycle-alerter"
    assert machine.run(command, "config") == "1.0\n"
    machine.write("/etc/dutycycle/alerter.env", SETTINGS.replace("\\t", "\t"), 0o600)
    env = {"DUTYCYCLE_PROGRAM": "/usr/bin/env"}
    said = machine.run(command, "--null", environment=env)
    found = dict(entry.split("=", 1) for entry in said.rpartition("is no name of a variable\n")[2].split("\0")[:-1])
    assert {name: found.get(name) for name in ("MAIL_PASSWORD", "SINGLE", "DOUBLE", "ESCAPED", "LATER", "EMPTY")} == {
        "MAIL_PASSWORD": "two  words",
        "SINGLE": 'a "b" $c \\d',
        "DOUBLE": "a 'b' $c \\d \"e\"\nf",
        "ESCAPED": "a bc#d",
        "LATER": "a\"b\"'c'",
        "EMPTY": "",
    }
    assert (found["user"], found["SLURM_CONF"], found["HOME"]) == ("root", "/srv/slurm.conf", "/var/lib/dutycycle")
    env["DUTYCYCLE_PROGRAM"] = "/bin/sh"
    assert machine.run(command, "-c", "id -un; id -gn", environment=env) == "dutycycle-alerter\ndutycycle-alerter\n"
    assert "CapEff:\t0000000000000000\n" in machine.run(command, "-c", "cat /proc/$$/status", environment=env)
    machine.run(command, "-c", "cat /etc/dutycycle/alerter.env", environment=env, code=1)
    others = subprocess.run(
        machine.command(command, "config", user="dutycycle-alerter"), capture_output=True, text=True, check=False
    )
    assert (others.returncode, others.stdout) == (2, "")
    assert "this is for root" in others.stderr


def test_a_version_that_does_not_accept_the_configuration_never_runs(machine: Machine, wheels: Path) -> None:
    """It is asked as the alerter's user, with the passwords; what runs goes on."""
    install(machine, wheels, "alerter")
    machine.write("/etc/dutycycle/alerter.env", "MAIL_PASSWORD=x\n", 0o600)
    program = machine.run("readlink", "/opt/dutycycle/bin/dutycycle")
    machine.asked_of_systemd()
    first = (wheels / "alerter.txt").read_text()
    asks = "import os, sys; print(os.getuid() > 0, os.environ['MAIL_PASSWORD'], *sys.argv[1:]); sys.exit({})"
    make_wheels(wheels, "2.0", also=asks.format(2))
    said = install(machine, wheels, "alerter", code=3)
    assert "the new version does not accept /etc/dutycycle/config.yaml" in said
    assert "True x config /etc/dutycycle/config.yaml" in said
    assert machine.asked_of_systemd() == []
    assert machine.run("readlink", "/opt/dutycycle/bin/dutycycle") == program
    assert machine.run("ls", "/opt/dutycycle/venvs") == f"{program.split('/')[2]}\n"
    # What runs is not asked, and never taken away.
    # Elsewhere than its path says; alone, as there is no telling what else the machine has below /opt.
    machine.run("mv", "/opt/dutycycle", "/srv/dutycycle")
    machine.run("ln", "-s", "/srv/dutycycle", "/opt/dutycycle")
    machine.write(f"/opt/dutycycle/{program.strip()[3:]}", "#!/bin/sh\nexit 2\n", 0o755)
    (wheels / "alerter.txt").write_text(first)
    assert install(machine, wheels, "alerter").startswith("Nothing to do")
    make_wheels(wheels, "2.0", also=asks.format(0))
    install(machine, wheels, "alerter")
    assert machine.run("readlink", "/opt/dutycycle/bin/dutycycle") != program


def test_the_way_back_to_the_program_before_restarts_what_runs(machine: Machine, wheels: Path) -> None:
    """Nothing is built then, as it is still there; else the newer one would run on."""
    install(machine, wheels, "alerter")
    first, program = (wheels / "alerter.txt").read_text(), machine.run("readlink", "/opt/dutycycle/bin/dutycycle")
    make_wheels(wheels, "2.0")
    install(machine, wheels, "alerter")
    (wheels / "alerter.txt").write_text(first)
    machine.asked_of_systemd()
    install(machine, wheels, "alerter")
    assert machine.run("readlink", "/opt/dutycycle/bin/dutycycle") == program
    assert "try-restart dutycycle-alerter.service" in machine.asked_of_systemd()


@pytest.mark.skipif(not Path("/usr/bin/python3").is_file(), reason="the machine has no /usr/bin/python3")
def test_discovery_is_not_installed_where_its_python_is_too_old(machine: Machine, wheels: Path) -> None:
    """As on RHEL 8, whose /usr/bin/python3 is 3.6."""
    machine.write("/usr/local/bin/python3.6", "#!/bin/sh\nexit 1\n", 0o755)
    machine.run("mount", "--bind", "/usr/local/bin/python3.6", "/usr/bin/python3")
    assert "/usr/bin/python3 is needed (3.9 or newer)" in install(machine, wheels, "discovery", code=3)


def test_what_runs_no_more_after_its_upgrade_is_told(machine: Machine, wheels: Path) -> None:
    install(machine, wheels, "node")
    make_wheels(wheels, "2.0")
    systemctl = machine.read("/usr/local/bin/systemctl")
    dies = f"{systemctl}case $1 in try-restart) touch /run/died ;; is-active) [ ! -e /run/died ] ;; esac\n"
    machine.write("/usr/local/bin/systemctl", dies, 0o755)
    assert f"{UNIT} was restarted and does not run: see journalctl -u {UNIT}" in install(
        machine, wheels, "node", code=1
    )


def test_the_alerters_store_outlives_it_unless_purged(machine: Machine, wheels: Path) -> None:
    install(machine, wheels, "alerter")
    machine.write("/var/lib/dutycycle/dutycycle.sqlite3", "x")
    said = install(machine, wheels, "alerter", "--uninstall")
    assert "/var/lib/dutycycle\n" in said.partition("Left here:")[2]
    assert machine.read("/var/lib/dutycycle/dutycycle.sqlite3") == "x"
    install(machine, wheels, "alerter", "--uninstall", "--purge")
    assert machine.changed() == []


def test_purge_leaves_token_files_to_root_only(machine: Machine, wheels: Path) -> None:
    install(machine, wheels, "alerter")
    token = "/etc/dutycycle/viewer.token"
    machine.write(token, "secret")
    machine.run("chgrp", "dutycycle-alerter", token)
    machine.run("chmod", "0440", token)
    said = install(machine, wheels, "alerter", "--uninstall", "--purge")
    assert f"leaves to root only {token}" in said
    assert machine.run("stat", "-c", "%a %U %G", token) == "400 root root\n"


def test_a_refusal_by_slurm_conf_and_scontrol_is_printed_once(machine: Machine, wheels: Path) -> None:
    install(machine, wheels, "node")
    machine.write("/etc/slurm/slurm.conf", "Prolog=/etc/slurm/prolog.d/*\n")
    machine.write("/usr/local/bin/scontrol", "#!/bin/sh\necho 'Prolog[0]    = /etc/slurm/prolog.d/*'\n", 0o755)
    said = install(machine, wheels, "node", "--uninstall", code=3)
    assert said.count("Slurm still has Prolog=/etc/slurm/prolog.d/*") == 1


def test_what_slurm_runs_by_counts_before_its_file(machine: Machine, wheels: Path) -> None:
    """Nodes of a site without local files have no slurm.conf."""
    install(machine, wheels, "node")
    machine.write("/usr/local/bin/scontrol", "#!/bin/sh\necho 'Prolog[0]    = /etc/slurm/prolog.d/*'\n", 0o755)
    assert "Slurm still has Prolog=/etc/slurm/prolog.d/*" in install(machine, wheels, "node", "--uninstall", code=3)
    assert machine.run("test", "-x", "/etc/slurm/prolog.d/50-dutycycle.sh") == ""


def test_a_slurmd_that_runs_tells_where_its_configuration_and_its_scontrol_are(machine: Machine, wheels: Path) -> None:
    """Neither is where one would look, and sudo keeps SLURM_CONF and the PATH back."""
    install(machine, wheels, "node")
    machine.write("/srv/slurm/bin/scontrol", "#!/bin/sh\necho 'Epilog[0]    = /etc/slurm/epilog.d/*'\n", 0o755)
    machine.write("/srv/etc/slurm.conf", "Prolog=/etc/slurm/prolog.d/*\n")
    machine.run("install", "-D", "/bin/bash", "/srv/slurm/sbin/slurmd")
    command = machine.command("/srv/slurm/sbin/slurmd", "-c", "echo runs; read -r", "-f", "/srv/etc/slurm.conf")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as slurmd:
        assert slurmd.stdout is not None
        assert slurmd.stdout.readline() == b"runs\n"
        said = install(machine, wheels, "node", "--uninstall", code=3)
        slurmd.communicate(b"\n", timeout=60)
    assert "Slurm still has Prolog=/etc/slurm/prolog.d/*" in said
    assert "Slurm still has Epilog=/etc/slurm/epilog.d/*" in said
    assert "Take that line out of /srv/etc/slurm.conf" in said
    # It runs no more, and there is nothing else to ask.
    assert "neither slurm.conf nor scontrol was found" in install(machine, wheels, "node", "--uninstall", code=3)


def test_a_directory_that_nodes_share_is_told_and_one_of_the_nodes_own_is_not(machine: Machine, wheels: Path) -> None:
    shared = '#!/bin/sh\ncase "$*" in "-f "*/etc/*) echo nfs ;; *) exec /usr/bin/stat "$@" ;; esac\n'
    machine.write("/usr/local/bin/stat", shared, 0o755)
    told = "/etc/slurm/prolog.d is on a file system that nodes share"
    assert told in install(machine, wheels, "node")
    own = ("--prolog-dir", "/opt/dutycycle/prolog.d", "--epilog-dir", "/opt/dutycycle/epilog.d", "--force")
    assert "nodes share" not in install(machine, wheels, "node", *own)


def test_an_image_that_an_ordinary_user_filled_is_to_be_packed_as_roots(machine: Machine, wheels: Path) -> None:
    machine.run("install", "-d", "-o", "nobody", "/srv/image")
    own = ("--wheels", str(wheels), "--python", PYTHON, "--root", "/srv/image")
    nobody = ("setpriv", "--reuid=nobody", "--regid=65534", "--clear-groups")
    command = machine.command(*nobody, str(INSTALL), "node", *own)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "belongs to nobody: pack /srv/image with root as the owner" in done.stdout


@pytest.mark.usefixtures("root")
def test_it_is_for_root() -> None:
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(INSTALL), "node"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "this is for root" in done.stderr
