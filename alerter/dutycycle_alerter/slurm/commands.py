"""Slurm by its commands: without a shell, bounded in time and output, in an environment that is ours."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from dutycycle_alerter.errors import LateError, SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm import documents, sacct
from dutycycle_alerter.slurm.documents import Table
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures, SlurmNode

_SHOWN = 300
_CHUNK = 2**16
# Settings of whoever started the alerter would change what the commands print.
_FOREIGN = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SLURM_")
_KEPT = ("SLURM_CONF", "SLURM_JWT", "SLURM_CONF_SERVER", "SLURM_SACK_KEY")


class Commands:
    """squeue, scontrol, sinfo and sacct of one cluster. Not for several threads at once."""

    def __init__(self, settings: Slurm) -> None:
        self._settings = settings
        self._sinfo = False
        """Whether scontrol knows no --json, as in 22.05, where sinfo tells all of every node."""

    def jobs(self, since: int | None, nonsense: Nonsense) -> Table | None:  # noqa: ARG002 - squeue always tells all
        """All jobs. Raises SourceError."""
        output = self._run("squeue", "--json", "--all", "--states=all")
        return documents.read_jobs(documents.parse(output, "squeue --json"), "squeue --json", nonsense)

    def nodes(self, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
        """All nodes. Raises SourceError."""
        if not self._sinfo:
            try:
                output = self._run("scontrol", "show", "nodes", "--json")
            except SourceError as error:
                if "unrecognized option" not in str(error):
                    raise
                self._sinfo = True
            else:
                where = "scontrol show nodes --json"
                return documents.read_nodes(documents.parse(output, where), where, nonsense)
        output = self._run("sinfo", "--json", "--all")
        return documents.read_nodes(documents.parse(output, "sinfo --json"), "sinfo --json", nonsense)

    def figures(self, jobs: Sequence[int], since: float, nonsense: Nonsense) -> list[FinalFigures]:
        """Every run of these jobs that is over and was there since that time. Raises SourceError."""
        output = self._run(
            "sacct",
            "--parsable2",
            f"--delimiter={sacct.DELIMITER}",
            "--duplicates",
            "--allusers",
            f"--format={sacct.COLUMNS}",
            f"--starttime={datetime.fromtimestamp(since, UTC):%Y-%m-%dT%H:%M:%S}",
            f"--jobs={','.join(map(str, jobs))}",
        )
        try:
            rows = list(sacct.columns(output.decode("utf-8"), sacct.DELIMITER))
        except ValueError as error:
            reason = printable(str(error), _SHOWN)
            raise SourceError(f"sacct: its output is not what was asked for: {reason}") from error
        return sacct.final_figures(rows, nonsense)

    def close(self) -> None:
        """Nothing is kept between calls."""

    def _run(self, name: str, *arguments: str) -> bytes:
        directory = self._settings.command_directory
        program = str(directory / name) if directory else shutil.which(name)
        if program is None:
            raise SourceError(f"{name}: not found on the PATH: see slurm.command_directory, or give slurm.url")
        try:
            process = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise SourceError(f"{program}: {error.strerror}: see slurm.command_directory") from error
        try:
            output, errors = self._read(process, name)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        if process.returncode:
            said = printable(errors.decode("utf-8", "replace").strip(), _SHOWN) or "it says nothing"
            raise SourceError(f"{name} {arguments[0]}: ended with {process.returncode}: {said}")
        return output

    def _read(self, process: subprocess.Popen[bytes], name: str) -> tuple[bytes, bytes]:
        """Both outputs, once the program has ended."""
        deadline = time.monotonic() + self._settings.timeout
        output, errors = bytearray(), bytearray()
        with selectors.DefaultSelector() as selector:
            for pipe, sink in ((process.stdout, output), (process.stderr, errors)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, sink)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready or time.monotonic() > deadline:
                    raise LateError(f"{name}: no answer within {self._settings.timeout:g} s (slurm.timeout)")
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    key.data.extend(chunk)
                del errors[_CHUNK:]
                if len(output) > self._settings.max_bytes:
                    limit = self._settings.max_bytes / 2**20
                    raise SourceError(f"{name}: its output is larger than {limit:g} MiB (slurm.max_bytes)")
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise LateError(f"{name}: has not ended within {self._settings.timeout:g} s (slurm.timeout)") from error
        return bytes(output), bytes(errors)


def _environment() -> dict[str, str]:
    """Times in Unix seconds, lists of tasks uncut, and no time zone but UTC for those that are given."""
    inherited = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_FOREIGN)}
    return {**inherited, "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
