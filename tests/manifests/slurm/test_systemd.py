"""The systemd unit of the exporter on Slurm nodes: systemd accepts it, and what it may do is next to nothing."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[3] / "manifests/slurm/systemd"
MOST_EXPOSED = 25
"""Of 100, by `systemd-analyze security`; a unit without any hardening has 96."""


@pytest.fixture
def unit(tmp_path):
    """The unit, but for the program, which is not installed here."""
    text = (SYSTEMD / "dutycycle-exporter.service").read_text()
    copy = tmp_path / "dutycycle-exporter.service"
    copy.write_text(text.replace("/opt/dutycycle/bin/dutycycle-exporter", "/bin/true"))
    return copy


def run(*command):
    if shutil.which(command[0]) is None:
        # Also in CI: a container has no systemd, and the other tests do not need it.
        pytest.skip(f"no {command[0]} here")
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)


def test_systemd_accepts_the_unit(unit):
    done = run("systemd-analyze", "verify", unit)
    # Without a running systemd it also tells of units of the machine's own.
    assert not [line for line in done.stderr.splitlines() if unit.name in line]
    assert done.returncode == 0


def test_the_unit_may_do_next_to_nothing(unit):
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd is older than 250")
    assert done.returncode == 0, done.stdout


def test_the_unit_has_no_privilege_whatever_tool_looks():
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(SYSTEMD / "dutycycle-exporter.service")
    service = parser["Service"]
    assert service["User"] == "dutycycle"
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == ""
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in service


def test_the_user_and_the_directories_are_well_formed():
    done = run("systemd-sysusers", "--dry-run", SYSTEMD / "sysusers.conf")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (SYSTEMD / "tmpfiles.conf").read_text().splitlines() if not line.startswith("#")]
    assert [(kind, path, mode, user) for kind, path, mode, user, *_ in lines] == [
        ("d", "/run/dutycycle", "0755", "root"),
        ("d", "/run/dutycycle/slurm", "0755", "root"),
        ("d", "/run/dutycycle/slurm/.new", "0755", "root"),
    ]
