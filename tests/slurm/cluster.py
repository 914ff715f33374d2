"""A real Slurm on this machine: munge, one controller, four nodes of eight GPUs, all on the loopback interface.

The GPUs are device files that nobody opens; the nodes are four slurmd on one host. Where it is installed there is an
accounting database, too. The jobs' users are three accounts that every Debian has, so nothing is added to the machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.exporter.daemon import eventually
from tests.ports import free_port

from .accounting import DAEMON_USER, Accounting, lacking, listens

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sbatch", "runuser", "setpriv")
USERS = ("games", "mail", "news")
NODES = ("n1", "n2", "n3", "n4")
SHARED_NODE = "n4"
"""Its GPUs can also be had by shards, two to a GPU."""

GPUS = 8
ROOT = Path(__file__).parents[2]
_NVIDIA_MAJOR = 195

_CONF = """\
ClusterName=dutycycle
# Another cluster on this machine has the same names of nodes, hence the same cgroups: their jobs must not be the same.
FirstJobId={first}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits as long as credentials are valid.
AuthInfo=socket={root}/munge.socket,cred_expire={requeue_delay}
CommunicationParameters=NoAddrCache,NoCtldInAddrAny,NoInAddrAny
MailProg=/bin/true
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmdSpoolDir={root}/spool/%n
StateSaveLocation={root}/state
SlurmctldLogFile={root}/log/slurmctld
SlurmdLogFile={root}/log/slurmd.%n
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
ReturnToService=2
# A node whose daemon a test kills is down when the test says so.
SlurmdTimeout=7200
KillWait=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=10
MpiDefault=none
GresTypes=gpu,shard
{storage}
JobAcctGatherType=jobacct_gather/{accounting}
PrologFlags=Alloc
Prolog={root}/prolog
Epilog={root}/epilog
NodeName=DEFAULT CPUs=32 SocketsPerBoard=1 CoresPerSocket=32 RealMemory=64000 State=UNKNOWN
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """Slurm under `directory`, running while the context lasts. `node_directory` is what belongs to one node."""

    def __init__(self, requeue_delay: int = 5) -> None:
        self._requeue_delay = requeue_delay
        # Short, as the path of a socket has to be, and open to the jobs' users.
        self.directory = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.directory.chmod(0o755)
        self.cgroups = Path("/sys/fs/cgroup/freezer").is_dir()
        """Whether jobs have cgroups: where there is version 1. Slurm 22.05 needs systemd for version 2."""

        # Those who test may be in a job of another Slurm.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        self._environment = {**own, "SLURM_CONF": str(self.directory / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.accounting = None if lacking() else Accounting(self.directory, free_port())
        """The database and slurmrestd; None where they are not installed."""
        self.rest_port = free_port()
        self.rest_socket = self.directory / "rest" / "socket"

    def node_directory(self, node: str) -> Path:
        return self.directory / "nodes" / node

    def __enter__(self) -> Self:
        try:
            self._configure()
            self._start("munged", *self._munge())
            eventually((self.directory / "munge.socket").is_socket, "munge listens")
            if self.accounting:
                self._start("mariadbd", *self.accounting.database())
                self.accounting.wait_for_database()
                self.start_slurmdbd()
            self._start("slurmctld", "slurmctld", "-D", "-c")
            for node in NODES:
                self.start_slurmd(node)
            eventually(lambda: self.idle() == len(NODES), "the nodes are idle")
            if self.accounting:
                self.start_slurmrestd()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start_slurmd(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node)

    def stop_slurmd(self, node: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Its jobs go on, as they do over an upgrade."""
        self.stop(node, number)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End slurmctld, slurmdbd, slurmrestd or a node's slurmd."""
        daemon = self._daemons.pop(name)
        daemon.send_signal(number)
        daemon.wait(30)

    def signal(self, name: str, number: signal.Signals) -> None:
        self._daemons[name].send_signal(number)

    def start_slurmctld(self) -> None:
        """Again, with what it knew."""
        self._start("slurmctld", "slurmctld", "-D")
        eventually(lambda: "is UP" in self.scontrol("ping"), "slurmctld answers")

    def start_slurmdbd(self) -> None:
        assert self.accounting
        self._start("slurmdbd", "slurmdbd", "-D", extra=self.accounting.environment)
        self.accounting.wait_for_slurmdbd()

    def start_slurmrestd(self) -> None:
        """On a port and on a socket, with every version that it has."""
        self.rest_socket.unlink(missing_ok=True)
        self._start(
            "slurmrestd",
            *("setpriv", f"--reuid={DAEMON_USER}", f"--regid={DAEMON_USER}", "--clear-groups"),
            *("slurmrestd", "-a", "rest_auth/jwt"),
            *(f"127.0.0.1:{self.rest_port}", f"unix:{self.rest_socket}"),
            extra={"SLURM_JWT": "daemon"},
        )
        # On the port first, and a moment later on the socket.
        eventually(lambda: listens(self.rest_port) and listens(self.rest_socket), "slurmrestd listens")

    def token(self, user: str, seconds: int = 3600) -> str:
        """A web token for slurmrestd."""
        return self._run("scontrol", "token", f"username={user}", f"lifespan={seconds}").strip()

    @property
    def environment(self) -> dict[str, str]:
        """For programs that ask this Slurm."""
        return {"SLURM_CONF": self._environment["SLURM_CONF"]}

    def submit(self, user: str, *arguments: str, script: str = "exec sleep 3600") -> int:
        """The number of a new job (in an array, that of the array). Prolog and epilog are ours."""
        command = ("sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", "-n1", f"--wrap={script}", *arguments)
        return int(self._run("runuser", "-u", user, "--", *command).split(";")[0])

    def run_as(self, user: str, *command: str) -> str:
        """What a command of a user's prints."""
        return self._run("runuser", "-u", user, "--", *command)

    @contextmanager
    def without_epilog(self) -> Iterator[None]:
        """Meanwhile epilogs do nothing, as where they are killed."""
        mark = self.directory / "without-epilog"
        mark.touch()
        yield
        mark.unlink()

    def has(self, job: int) -> bool:
        """Whether a job waits, runs or is being ended."""
        return bool(self._run("squeue", "-h", "-j", str(job), check=False).strip())

    def scontrol(self, *arguments: str) -> str:
        return self._run("scontrol", *arguments, check=False)

    def cancel(self, *arguments: str) -> None:
        self._run("scancel", *arguments)

    def cancel_all(self) -> None:
        # First those that wait, lest they begin in the place of others.
        for state in ("PENDING", "RUNNING"):
            for user in USERS:
                self._run("scancel", "-u", user, "-t", state, check=False)

    def idle(self) -> int:
        """How many nodes are."""
        assert all(daemon.poll() is None for daemon in self._daemons.values()), self.logs()
        return int(self._run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).strip() or 0)

    def logs(self) -> str:
        """The end of every daemon's log, for a test that fails."""
        return "\n".join(
            f"== {log.name}\n" + log.read_text(errors="replace")[-2000:] for log in (self.directory / "log").iterdir()
        )

    def _run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def _start(self, name: str, *command: str, extra: Mapping[str, str] | None = None) -> None:
        # Killed with the test, whatever becomes of it.
        with (self.directory / "log" / f"{name}.stderr").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                env={**self._environment, **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _munge(self) -> list[str]:
        key = self.directory / "munge" / "key"
        key.parent.mkdir(mode=0o700)
        key.write_bytes(os.urandom(256))
        key.chmod(0o600)
        files = {"pid-file": "munge/pid", "log-file": "munge/log", "seed-file": "munge/seed", "key-file": "munge/key"}
        options = [f"--{option}={self.directory / name}" for option, name in files.items()]
        return ["munged", "--foreground", f"--socket={self.directory / 'munge.socket'}", *options]

    def _configure(self) -> None:
        for name in ("log", "spool", "state", "dev", *(f"nodes/{node}" for node in NODES)):
            (self.directory / name).mkdir(parents=True)
        for gpu in range(GPUS):
            os.mknod(self.directory / f"dev/nvidia{gpu}", stat.S_IFCHR | 0o666, os.makedev(_NVIDIA_MAJOR, gpu))
        gres, nodes = ["AutoDetect=off"], []
        for node in NODES:
            (self.directory / "spool" / node).mkdir()
            shards = f",shard:h100:{2 * GPUS}" if node == SHARED_NODE else ""
            address = f"NodeHostname=localhost NodeAddr=127.0.0.1 Port={free_port()}"
            nodes.append(f"NodeName={node} {address} Gres=gpu:h100:{GPUS}{shards}")
            gres.append(f"NodeName={node} Name=gpu Type=h100 File={self.directory}/dev/nvidia[0-{GPUS - 1}]")
        gres.append(f"NodeName={SHARED_NODE} Name=shard Count={2 * GPUS}")
        self._write("gres.conf", "\n".join(gres) + "\n")
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n" if self.cgroups else "")
        self._write(
            "slurm.conf",
            _CONF.format(
                host=socket.gethostname().split(".")[0],
                port=free_port(),
                first=1 + 1000 * secrets.randbelow(60_000),
                root=self.directory,
                requeue_delay=self._requeue_delay,
                nodes="\n".join(nodes),
                proctrack="cgroup" if self.cgroups else "linuxproc",
                accounting="cgroup" if self.cgroups else "linux" if self.accounting else "none",
                storage=(
                    self.accounting.settings if self.accounting else "AccountingStorageType=accounting_storage/none"
                ),
            ),
        )
        if self.accounting:
            self.accounting.configure()
            self.rest_socket.parent.mkdir()
            shutil.chown(self.rest_socket.parent, DAEMON_USER, DAEMON_USER)
        for node in NODES:
            own = self.directory / "nodes" / node
            # GresTypes has shards, which only one node has.
            sharing = "auto" if node == SHARED_NODE else "no"
            self._write(
                f"nodes/{node}/prolog.conf",
                f"directory={own}/prolog\nnvidia={own}/gpus\nmap={own}/gpus.map\nsharing={sharing}\n"
                f"mountinfo={own}/mountinfo\ndevices={own}/dev\n",
            )
        for what in ("prolog", "epilog"):
            script = ROOT / f"manifests/slurm/{what}.d/dutycycle.sh"
            settings = f"{self.directory}/nodes/$SLURMD_NODENAME/prolog.conf"
            unless = f"[ -e {self.directory}/without-{what} ] && exit 0"
            self._write(what, f'#!/bin/sh\n{unless}\nexec "{script}" "{settings}"\n')
            (self.directory / what).chmod(0o755)

    def _write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)
        (self.directory / name).chmod(0o644)

    def _end_jobs(self) -> None:
        with suppress(Exception):
            self.cancel_all()
            eventually(lambda: not self._run("squeue", "-h"), "all jobs have ended")

    def _stop(self) -> None:
        self._end_jobs()
        # Each writes to those that end after it, and would wait for them.
        last = ("slurmdbd", "mariadbd", "munged")
        for names in ([name for name in self._daemons if name not in last], *([name] for name in last)):
            _end([self._daemons.pop(name) for name in names if name in self._daemons])
        self._end_leftovers()
        self._remove_cgroups()
        if self.accounting:
            self.accounting.remove()
        shutil.rmtree(self.directory)

    def _end_leftovers(self) -> None:
        """Steps outlive their slurmd; each has this cluster's slurm.conf in its environment."""
        mark = f"SLURM_CONF={self.directory}/".encode()
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)

    def _remove_cgroups(self) -> None:
        """Slurm leaves its directories behind. Those that stay are another cluster's, too."""
        left = [controller / f"slurm_{node}" for controller in Path("/sys/fs/cgroup").iterdir() for node in NODES]
        for _ in range(50):
            left = [directory for directory in left if not _rmdir_tree(directory)]
            if not left:
                break
            time.sleep(0.1)


def _end(daemons: Sequence[subprocess.Popen[bytes]]) -> None:
    for daemon in daemons:
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _rmdir_tree(top: Path) -> bool:
    """Whether a cgroup and all below it are gone: while a killed process is being buried they cannot be."""
    for directory, _, _ in os.walk(top, topdown=False):
        with suppress(OSError):
            Path(directory).rmdir()
    return not top.exists()
