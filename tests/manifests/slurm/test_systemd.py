"""The systemd units of a Slurm site: systemd accepts them, and what they may do is next to nothing."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .machine import SLURM

SYSTEMD = SLURM / "systemd"
EXPORTER, ALERTER, DISCOVERY = "dutycycle-exporter.service", "dutycycle-alerter.service", "dutycycle-slurm-sd.service"
MOST_EXPOSED = {EXPORTER: 25, ALERTER: 16, DISCOVERY: 16}
"""Of 100, by `systemd-analyze security`; a unit without any hardening has 96. The exporter opens devices."""
TIMER = "dutycycle-slurm-sd.timer"


@pytest.fixture
def units(tmp_path):
    """The units, but for the programs, which are not installed here."""
    for unit in (*MOST_EXPOSED, TIMER):
        text = (SYSTEMD / unit).read_text()
        (tmp_path / unit).write_text(re.sub(r"/opt/dutycycle/bin/[a-z-]+", "/bin/true", text))
    return tmp_path


def run(*command):
    if shutil.which(command[0]) is None:
        # Also in CI: a container has no systemd, and the other tests do not need it.
        pytest.skip(f"no {command[0]} here")
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)


def service(unit: str) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(SYSTEMD / unit)
    return parser["Service"]


@pytest.mark.parametrize("unit", [*MOST_EXPOSED, TIMER])
def test_systemd_accepts_the_unit(units, unit):
    done = run("systemd-analyze", "verify", units / unit)
    # Without a running systemd it also tells of units of the machine's own.
    assert not [line for line in done.stderr.splitlines() if unit in line]
    assert done.returncode == 0


@pytest.mark.parametrize(("unit", "most"), MOST_EXPOSED.items())
def test_the_unit_may_do_next_to_nothing(units, unit, most):
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={most}", units / unit)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd is older than 250")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("unit", "user"), [(EXPORTER, "dutycycle"), (ALERTER, "dutycycle-alerter"), (DISCOVERY, "dutycycle")]
)
def test_the_unit_has_no_privilege_whatever_tool_looks(unit, user):
    settings = service(unit)
    assert (settings["User"], settings["Group"]) == (user, user)
    assert settings["CapabilityBoundingSet"] == settings["AmbientCapabilities"] == ""
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["ProtectSystem"] == "strict"
    assert settings["ProtectHome"] == "yes"
    assert "ReadWritePaths" not in settings


def test_only_the_exporter_sees_devices_and_the_processes_of_others():
    assert service(EXPORTER)["ProtectProc"] == "default"
    for unit in (ALERTER, DISCOVERY):
        assert (service(unit)["PrivateDevices"], service(unit)["ProtectProc"]) == ("yes", "invisible")


def test_the_alerters_store_and_plots_are_where_it_may_write():
    settings = service(ALERTER)
    assert (settings["StateDirectory"], settings["StateDirectoryMode"]) == ("dutycycle", "0750")
    assert "sqlite:////var/lib/dutycycle/" in (SLURM / "etc/config.yaml").read_text()
    assert f"MPLCONFIGDIR=/var/cache/{settings['CacheDirectory']}" in settings["Environment"]


@pytest.mark.parametrize(
    ("file", "name"), [("sysusers.conf", "dutycycle"), ("sysusers-alerter.conf", "dutycycle-alerter")]
)
def test_the_users_are_well_formed(file, name):
    done = run("systemd-sysusers", "--dry-run", SYSTEMD / file)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in (SYSTEMD / file).read_text().splitlines() if not line.startswith("#")]
    assert line.split()[:3] == ["u", name, "-"]
    assert line.endswith("/usr/sbin/nologin")


def test_the_directories_of_the_prolog_are_roots():
    lines = [line.split() for line in (SYSTEMD / "tmpfiles.conf").read_text().splitlines() if not line.startswith("#")]
    assert [(kind, path, mode, user) for kind, path, mode, user, *_ in lines] == [
        ("d", "/run/dutycycle", "0755", "root"),
        ("d", "/run/dutycycle/slurm", "0755", "root"),
        ("d", "/run/dutycycle/slurm/.new", "0755", "root"),
    ]


def test_only_root_writes_the_alerters_configuration_and_only_the_alerter_reads_it():
    [line] = [line for line in (SYSTEMD / "tmpfiles-alerter.conf").read_text().splitlines() if not line.startswith("#")]
    assert line.split() == ["z", "/etc/dutycycle/config.yaml", "0640", "root", "dutycycle-alerter", "-"]


def test_the_alerters_configuration_is_one():
    program = Path(shutil.which("dutycycle", path=str(Path(sys.executable).parent)) or "dutycycle")
    done = run(program, "config", SLURM / "etc/config.yaml")
    assert done.returncode == 0, done.stderr
