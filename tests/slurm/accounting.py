"""The accounting database of a test's Slurm, and its REST daemon: MariaDB, slurmdbd and slurmrestd, loopback only."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.exporter.daemon import eventually

PROGRAMS = ("mariadbd", "mariadb-install-db", "slurmdbd", "slurmrestd", "gcc")
PLUGINS = ("auth_jwt.so", "accounting_storage_mysql.so")
DAEMON_USER = "daemon"
"""slurmrestd refuses to run as root, and as Slurm's user."""

_CONF = """\
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={root}/jwt.key
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={root}/log/slurmdbd
PidFile={root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""

# slurmdbd listens on every interface, whatever it is told.
_LOOPBACK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>

int bind(int fd, const struct sockaddr *wanted, socklen_t length)
{
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
    struct sockaddr_storage own;
    memcpy(&own, wanted, length < sizeof own ? length : sizeof own);
    if (own.ss_family == AF_INET)
        ((struct sockaddr_in *)&own)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (own.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&own)->sin6_addr = in6addr_loopback;
    return next(fd, (struct sockaddr *)&own, length);
}
"""


def lacking() -> list[str]:
    """What is not installed."""
    slurmctld = shutil.which("slurmctld")
    directories = [*Path("/usr/lib").glob("*/slurm-wlm"), *Path("/usr/lib").glob("*/slurm")] if slurmctld else []
    plugins = {plugin for plugin in PLUGINS if not any((directory / plugin).exists() for directory in directories)}
    return [*(program for program in PROGRAMS if shutil.which(program) is None), *sorted(plugins)]


class Accounting:
    """Files and commands of the database and its daemon, for a cluster whose files are under `root`."""

    def __init__(self, root: Path, port: int) -> None:
        self._root = root
        self.port = port
        # In memory where there is such a place: a database is small files and many waits for a disk.
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._data = Path(tempfile.mkdtemp(prefix="slurm-database-", dir=place))

    @property
    def settings(self) -> str:
        """Lines of slurm.conf."""
        return (
            f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={self._root}/jwt.key\n"
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={self.port}\nAccountingStorageTRES=gres/gpu\n"
            # By this name it is the socket of munge for slurmdbd.
            f"AccountingStoragePass={self._root}/munge.socket"
        )

    @property
    def environment(self) -> dict[str, str]:
        """What slurmdbd needs: the database's socket, and the loopback interface only."""
        return {"MYSQL_UNIX_PORT": str(self._data / "socket"), "LD_PRELOAD": str(self._root / "loopback.so")}

    def configure(self) -> None:
        for name, content in (
            ("jwt.key", secrets.token_bytes(32)),
            ("slurmdbd.conf", _CONF.format(root=self._root, port=self.port).encode()),
        ):
            (self._root / name).write_bytes(content)
            (self._root / name).chmod(0o600)
        source = self._root / "loopback.c"
        source.write_text(_LOOPBACK)
        _run("gcc", "-shared", "-fPIC", "-o", self._root / "loopback.so", source, "-ldl")
        options = ("--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M")
        _run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={self._data}/data", *options)

    def database(self) -> list[str]:
        """The command of the database."""
        return [
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={self._data}/data"),
            *(f"--socket={self._data}/socket", f"--pid-file={self._data}/pid", "--skip-networking"),
            *("--skip-grant-tables", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"),
        ]

    def wait_for_database(self) -> None:
        eventually((self._data / "socket").is_socket, "the database listens")

    def wait_for_slurmdbd(self) -> None:
        eventually(lambda: listens(self.port), "slurmdbd listens")

    def remove(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)


def listens(at: int | Path) -> bool:
    """Whether somebody does on this port of the loopback interface, or on this socket."""
    family, address = (socket.AF_INET, ("127.0.0.1", at)) if isinstance(at, int) else (socket.AF_UNIX, str(at))
    with socket.socket(family) as connection:
        connection.settimeout(5)
        return connection.connect_ex(address) == 0


def _run(*command: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
