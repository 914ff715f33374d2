"""Starts what an installed unit says, as systemd would: its command, its user, its environment, its directories."""

from __future__ import annotations

import configparser
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .machines import Machine, end


class Unit:
    """A service that is installed on a machine."""

    def __init__(self, machine: Machine, name: str) -> None:
        parser = configparser.RawConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(machine.read(f"/etc/systemd/system/{name}"))
        self._machine = machine
        self._service = parser["Service"]
        self.user = self._service["User"]

    def environment(self) -> dict[str, str]:
        """Of `Environment=` and of the files that the unit names."""
        found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}
        for word in shlex.split(self._service.get("Environment", "")):
            name, _, value = word.partition("=")
            found[name] = value
        file = self._service.get("EnvironmentFile", "").removeprefix("-")
        for line in self._machine.read(file).splitlines() if file else ():
            name, _, value = line.strip().partition("=")
            if name and not name.startswith("#"):
                found[name] = " ".join(shlex.split(value))
        return found

    def command(self, environment: Mapping[str, str]) -> list[str]:
        """`ExecStart=`, with $NAME as several words, as systemd has it."""
        words = []
        for word in shlex.split(self._service["ExecStart"]):
            words += environment.get(word[1:], "").split() if word.startswith("$") else [word]
        return self._machine.command(*words, user=self.user)

    def make_directories(self) -> None:
        """Its state and its cache."""
        for setting, where in (("StateDirectory", "/var/lib"), ("CacheDirectory", "/var/cache")):
            name = self._service.get(setting)
            if name is not None:
                mode = self._service.get(f"{setting}Mode", "0755")
                owner = ("-o", self.user, "-g", self._service["Group"])
                self._machine.run("install", "-d", "-m", mode, *owner, f"{where}/{name}")

    def run(self) -> str:
        """A oneshot: what it says. Fails where it does."""
        self.make_directories()
        environment = self.environment()
        done = subprocess.run(
            self.command(environment), env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def start(self, log: Path) -> Running:
        self.make_directories()
        environment = self.environment()
        with log.open("wb") as said:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command(environment)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        return Running(process, log)


class Running:
    """A service that was started. A context manager that stops it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process.poll() is None:
            end(self._process)

    def stopped(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        said = self._log.read_text(errors="replace")
        return said if self._process.poll() is None else f"ended with {self._process.returncode}: {said}"
