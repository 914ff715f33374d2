"""A real PostgreSQL on loopback, with databases of a test's own, that can be killed, stopped and frozen.

`make` installs its programs; a test that needs it is skipped where there are none, and fails in CI. PostgreSQL refuses
to run as root: there it runs as `postgres`, or as `nobody` where there is no such user.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.required import lacking

PATIENCE = 120.0
"""Seconds until a server that does not come up is given up."""

USER, PASSWORD = "dutycycle", "never-to-be-shown"
"""Who tests connect as over TCP, with a password; a superuser connects through the socket without one."""

ADMIN = "admin"


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs, of the newest version that is installed. Ends the test without any."""

    def version(path: Path) -> int:
        return int(re.sub(r"\D.*", "", path.parent.parent.name) or 0)

    for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=version, reverse=True):
        return str(path)
    return shutil.which(name) or lacking("PostgreSQL")


class PostgresServer:
    """A server with data of its own; a context manager. What it says is in `log`.

    It does not wait for the disk: what a process has written outlives a kill -9 of it, only not a power cut. `settings`
    are for postgresql.conf, as NAME=VALUE; its data are below `place`, or where temporary files are.
    """

    def __init__(self, *, settings: Sequence[str] = (), place: Path | None = None) -> None:
        self._programs = {name: program(name) for name in ("initdb", "postgres")}
        self._settings = [
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=60",
            "autovacuum=off",
            "log_min_messages=warning",
            *settings,
        ]
        # Short, because sockets have paths of a hundred characters, and not pytest's, which only its user may enter.
        self.directory = Path(tempfile.mkdtemp(prefix="pg", dir=place))
        self._log = self.directory / "log"
        self._data = self.directory / "data"
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._version = 0
        self.port = 0

    @property
    def log(self) -> str:
        """All that it said since the first start."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """The server's, while it runs."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str, *, user: str = USER, password: str | None = PASSWORD) -> str:
        """For SQLAlchemy and libpq alike."""
        secret = "" if password is None else f":{password}"
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def create(self, *, template: str = "template1", more: str = "") -> str:
        """A new database of the user's own; returns its name."""
        name = f"store{next(self._numbers)}"
        # Its files are copied: from version 15 on the default is to write all of them to the log, too.
        how = "STRATEGY file_copy" if self._version >= 15 else ""
        self.execute(f"CREATE DATABASE {name} OWNER {USER} TEMPLATE {template} {how} {more}")
        return name

    def drop(self, database: str) -> None:
        """Delete a database, ending its connections."""
        self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def execute(self, statement: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the superuser; returns its rows."""
        where = f"host={self.directory} port={self.port} user={ADMIN} dbname={database}"
        with psycopg.connect(where, autocommit=True, connect_timeout=30) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def terminate(self, database: str) -> int:
        """End every connection to a database, as an administrator or a fail-over does; returns how many there were."""
        rows = self.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
            database,
        )
        return len(rows)

    def start(self) -> None:
        """The first time with new data; later with those that there are, at the same port."""
        if self.port == 0:
            self._initialise()
        assert self._process is None, "it runs"
        arguments = [self._programs["postgres"], "-D", str(self._data), "-k", str(self.directory)]
        arguments += ["-h", "127.0.0.1", "-p", str(self.port)]
        for setting in self._settings:
            arguments += ["-c", setting]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(_unprivileged(arguments), cwd=self.directory, stdout=log, stderr=log)
        self._until(self._answers, "ready")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Shut down: connections are ended (SIGINT), or without a checkpoint (SIGQUIT)."""
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(how)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """kill -9 of the server and of every process of it; `start` recovers from its log."""
        assert self._process is not None
        processes = self._processes()
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        deadline = time.monotonic() + PATIENCE
        while any(_alive(pid) for pid in processes):
            assert time.monotonic() < deadline, "killed processes remain"
            time.sleep(0.005)

    def freeze(self) -> None:
        """From now on connections are accepted (by the kernel) and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Goes on."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _initialise(self) -> None:
        if os.geteuid() == 0:
            account = _account()
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        command = [self._programs["initdb"], "-D", str(self._data), "-U", ADMIN, "--no-sync", "--no-instructions"]
        command += ["--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=scram-sha-256"]
        done = subprocess.run(
            _unprivileged(command), cwd=self.directory, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        self._version = int((self._data / "PG_VERSION").read_text())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self.start()
        self.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
        self.stop()

    def _answers(self) -> bool:
        try:
            return self.execute("SELECT NOT pg_is_in_recovery()") == [(True,)]
        except psycopg.OperationalError:
            return False

    def _processes(self) -> list[int]:
        assert self._process is not None
        return [self._process.pid, *(pid for pid, parent in _parents() if parent == self._process.pid)]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self._process is not None
            assert self._process.poll() is None, f"PostgreSQL ended:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"PostgreSQL is not {what}:\n{self.log[-4000:]}"
            time.sleep(0.02)


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _unprivileged(command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return command
    account = _account()
    # It becomes the program, so that the process is the server itself.
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", *command]


def _parents() -> list[tuple[int, int]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # After the name, which may hold anything: state, parent.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found.append((int(entry.name), int(fields[1])))
    return found


def _alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
