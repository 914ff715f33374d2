"""Running install.sh on an image of a test's own, with wheels that have next to nothing in them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from .machine import SLURM

INSTALL = SLURM / "install.sh"


def _suits(python: str) -> bool:
    probe = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
    return shutil.which(python) is not None and subprocess.run([python, "-c", probe], check=False).returncode == 0


_BASE = str(getattr(sys, "_base_executable", sys.executable))
PYTHON = next((python for python in ("/usr/bin/python3", _BASE) if _suits(python)), "")
"""One that can make environments: the system's, else that of the tests. Empty where there is none."""


def make_wheels(directory: Path, version: str = "1.0", tags: str = "py3-none-any", also: str = "") -> Path:
    """A wheel of a project that has our programs, which say their version, and the lists that name it."""
    directory.mkdir(exist_ok=True)
    wheel = directory / f"dutycycle-{version}-{tags}.whl"
    info = f"dutycycle-{version}.dist-info"
    extras = "Provides-Extra: exporter\nProvides-Extra: alerter\n"
    files = {
        "dutycycle_empty.py": f"def main():\n    print('{version}')\n    {also}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: dutycycle\nVersion: {version}\n{extras}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tags}\n",
        f"{info}/entry_points.txt": (
            "[console_scripts]\ndutycycle-exporter = dutycycle_empty:main\ndutycycle = dutycycle_empty:main\n"
        ),
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
        archive.writestr(f"{info}/RECORD", record)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for extra in ("exporter", "alerter"):
        (directory / f"{extra}.txt").write_text(f"# test\ndutycycle[{extra}]=={version} --hash=sha256:{digest}\n")
    return directory


class Image:
    """What install.sh is given as --root."""

    def __init__(self, root: Path, wheels: Path, tree: Path = SLURM) -> None:
        self.root = root
        self.wheels = wheels
        self.tree = tree
        root.mkdir()

    def copy(self, root: Path, tree: Path = SLURM) -> Image:
        """The same elsewhere: an installation takes seconds."""
        image = Image(root, self.wheels, tree)
        shutil.copytree(self.root, root, symlinks=True, dirs_exist_ok=True)
        return image

    def command(self, *arguments: str) -> list[str]:
        own = () if "discovery" in arguments else ("--wheels", str(self.wheels), "--python", PYTHON)
        return [str(self.tree / "install.sh"), *arguments, "--root", str(self.root), *own]

    def install(self, *arguments: str, code: int = 0) -> str:
        """What it says."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        done = subprocess.run(
            self.command(*arguments), env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        return said

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def program(self, name: str = "dutycycle-exporter") -> str:
        """Which environment a program is of."""
        return self.path(f"/opt/dutycycle/bin/{name}").readlink().parts[2]

    def listing(self) -> dict[str, tuple[int, int, str]]:
        """Everything in it: mode, time of the last change, contents."""
        found = {}
        for path in self.root.rglob("*"):
            status = path.lstat()
            if path.is_symlink():
                content, when = str(path.readlink()), 0
            elif path.is_file():
                content, when = hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns
            else:
                content, when = "", 0
            found[str(path.relative_to(self.root))] = status.st_mode, when, content
        return found
