"""Gathers what machines without a package index install: the wheels of a role, this project's own among them, and a
list of them with their hashes.

    python -m tools.gather_wheels exporter alerter --to build/wheels [--python /usr/bin/python3.12]

Versions and hashes are those of requirements.lock. A package that has no wheel for this machine is built from its
source. `DIRECTORY/ROLE.txt` is what the installer gives to pip.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tools.locked_extra import PROJECT, text

ROOT = Path(__file__).parents[1]
LISTS = {"exporter": ["exporter"], "alerter": ["alerter", "apprise"]}
"""What machines are installed as, and its extras: those of the images."""


def gather(role: str, directory: Path, python: str) -> None:
    """Put the wheels of a role, for `python` on this machine, and their list into a directory."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        lock = Path(scratch) / "requirements.txt"
        lock.write_text(text(LISTS[role]))
        _pip(python, "wheel", "--require-hashes", "--no-deps", f"--wheel-dir={scratch}", f"--requirement={lock}")
        # Built by the locked hatchling; the same source gives the same bytes, so that nodes see no change in it.
        _pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={scratch}", str(ROOT))
        wheels = sorted(Path(scratch).glob("*.whl"))
        listed = "".join(f"{entry(wheel, role)}\n" for wheel in wheels)
        for wheel in wheels:
            wheel.replace(directory / wheel.name)
        complete = Path(scratch) / "list"
        complete.write_text(f"# Made by tools/gather_wheels.py for {_described(python)}\n{listed}")
        complete.chmod(0o644)
        complete.replace(directory / f"{role}.txt")


def entry(wheel: Path, role: str) -> str:
    """A wheel's line of the list, as pip reads it."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    extras = f"[{','.join(LISTS[role])}]" if name == PROJECT else ""
    return f"{name}{extras}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def prune(directory: Path) -> None:
    """Remove wheels that no list names any more."""
    lists = [path for role in LISTS if (path := directory / f"{role}.txt").exists()]
    listed = "".join(path.read_text() for path in lists)
    for wheel in directory.glob("*.whl"):
        if hashlib.sha256(wheel.read_bytes()).hexdigest() not in listed:
            wheel.unlink()


def _pip(python: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def _described(python: str) -> str:
    code = "import platform; print('Python', platform.python_version(), 'on', platform.machine())"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="gather_wheels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("roles", nargs="+", choices=LISTS, metavar="ROLE", help=" or ".join(LISTS))
    parser.add_argument("--to", type=Path, required=True, metavar="DIRECTORY", help="made where it is not there")
    parser.add_argument("--python", default=sys.executable, help="the Python that they are for (default: this one)")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    try:
        for role in options.roles:
            gather(role, options.to, options.python)
        prune(options.to)
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"gather_wheels: {error}")


if __name__ == "__main__":
    main()
