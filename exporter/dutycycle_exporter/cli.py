"""The command `dutycycle-exporter`."""

from __future__ import annotations

import logging
import math
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.child import die_with_parent
from dutycycle_exporter.collector import ExporterCollector
from dutycycle_exporter.errors import ExporterError, NvmlUnavailableError
from dutycycle_exporter.logs import set_up
from dutycycle_exporter.service import Service
from dutycycle_exporter.supervisor import Supervisor
from dutycycle_exporter.web import Server, make_app

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


_SHORTEST_INTERVAL = 0.05
"""Wall seconds between reads, however high the time scale: a read takes some milliseconds."""


class _Duration(click.ParamType[float]):
    """Seconds, written as in Prometheus."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`5s`, `1m30s`, `250ms`; more than zero."""
        if isinstance(value, float):
            return value
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", str(value))
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if "".join(number + unit for number, unit in parts) != value or seconds <= 0:
            self.fail(f"{value!r} is not a duration: write it like 5s, 1m30s or 250ms", param, ctx)
        return seconds


class _Finite(click.FloatRange):
    """A number that is one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As the base class does, but for nan and inf."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


_DURATION = _Duration()
_NO_DRIVER = ("library_not_found", "driver_not_loaded")
_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DUTYCYCLE_EXPORTER"},
    epilog="Every flag has an environment variable: --sample-interval is DUTYCYCLE_EXPORTER_SAMPLE_INTERVAL.",
)
@click.option(
    "--web.listen-address",
    "listen",
    metavar="[HOST]:PORT",
    default=":9836",
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_WEB_LISTEN_ADDRESS",
    help="Where to serve /metrics.",
)
@click.option(
    "--node-name",
    default=socket.gethostname,
    show_default="host name",
    help="Label `node`; in Slurm the node's name there.",
)
@click.option("--cluster", default="", help="Label `cluster` of ownership series.")
@click.option(
    "--sample-interval",
    type=_DURATION,
    default="5s",
    show_default=True,
    help="How often NVML is read; its own buffer holds 10 to 16 s.",
)
@click.option(
    "--series-hold",
    type=_DURATION,
    default="30s",
    show_default=True,
    help="How long a new ownership series stays at 0 and an ended one at its final value: two scrape intervals.",
)
@click.option(
    "--slurm.prolog-dir",
    "prolog_dir",
    type=_DIRECTORY,
    default="/run/dutycycle/slurm",
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_SLURM_PROLOG_DIR",
    help="Files that the Slurm prolog writes, one per GPU.",
)
@click.option(
    "--path.procfs",
    "procfs",
    type=_DIRECTORY,
    default="/proc",
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_PATH_PROCFS",
    help="Mount point of proc.",
)
@click.option(
    "--path.cgroup",
    "cgroup",
    type=_DIRECTORY,
    default="/sys/fs/cgroup",
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_PATH_CGROUP",
    help="Mount point of the cgroup tree.",
)
@click.option(
    "--path.sysfs",
    "sysfs",
    type=_DIRECTORY,
    default="/sys",
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_PATH_SYSFS",
    help="Mount point of sysfs.",
)
@click.option(
    "--attribution.local/--no-attribution.local",
    "local",
    default=False,
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_ATTRIBUTION_LOCAL",
    help="Without a scheduler, the process group is the job.",
)
@click.option(
    "--nvml.timeout",
    "nvml_timeout",
    type=_DURATION,
    default="20s",
    show_default=True,
    envvar="DUTYCYCLE_EXPORTER_NVML_TIMEOUT",
    help="How long a read of NVML may take before its process is replaced.",
)
@click.option(
    "--time-scale",
    type=_Finite(min=0, min_open=True, max=3600),
    default=1.0,
    show_default=True,
    help="Divides every duration; for tests and replays.",
)
@click.option(
    "--replay", type=click.Path(path_type=Path, dir_okay=False), help="Play this recording instead of reading NVML."
)
@click.option(
    "--replay.node",
    "replay_node",
    default="",
    envvar="DUTYCYCLE_EXPORTER_REPLAY_NODE",
    help="Which of the recording's nodes; needed where it has several.",
)
@click.option(
    "--replay.epoch",
    "replay_epoch",
    type=_Finite(min=0),
    envvar="DUTYCYCLE_EXPORTER_REPLAY_EPOCH",
    help="Unix time at which the recording begins; now by default.",
)
@click.option("--probe", is_flag=True, help="Only tell whether NVML can be used here, and what it shows.")
@click.option(
    "--die-with-parent",
    "with_parent",
    is_flag=True,
    hidden=True,
    help="End when the process that started this one ends.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much is logged to stderr.",
)
@click.version_option(package_name="dutycycle", prog_name="dutycycle-exporter")
def cli(
    listen: str,
    node_name: str,
    cluster: str,
    sample_interval: float,
    series_hold: float,
    prolog_dir: Path,
    procfs: Path,
    cgroup: Path,
    sysfs: Path,
    local: bool,
    nvml_timeout: float,
    time_scale: float,
    replay: Path | None,
    replay_node: str,
    replay_epoch: float | None,
    probe: bool,
    with_parent: bool,
    log_level: str,
) -> None:
    """Publish what the GPUs of this node do, and for whom, at /metrics.

    \b
    Examples:
      dutycycle-exporter
      dutycycle-exporter --web.listen-address=127.0.0.1:9836 --cluster=alps
      dutycycle-exporter --replay=recording.csv.gz --time-scale=60
    """
    if with_parent:
        die_with_parent()
    if probe:
        _probe()
        return
    set_up(log_level)
    interval = max(_SHORTEST_INTERVAL, sample_interval / time_scale)
    service = Service(
        Attribution(slurm_prolog_dir=prolog_dir, procfs=procfs, cgroup=cgroup, local=local),
        interval=interval,
        hold=series_hold / time_scale,
        time_scale=time_scale,
        sysfs=sysfs,
    )
    child = [sys.executable, "-m", "dutycycle_exporter.child", f"--interval={interval}", f"--time-scale={time_scale}"]
    if replay is not None:
        if not replay.exists():
            raise ExporterError(f"--replay={replay}: there is no such file")
        epoch = time.time() if replay_epoch is None else replay_epoch
        child += [f"--replay={replay}", f"--node={replay_node}", f"--epoch={epoch}"]
    registry = CollectorRegistry()
    registry.register(
        ExporterCollector(service, node=node_name, cluster=cluster, time_scale=time_scale, replay=replay is not None)
    )
    supervisor = Supervisor(
        child,
        silence=interval + nvml_timeout,
        on_snapshot=service.on_snapshot,
        on_silence=service.on_silence,
        on_loss=service.on_loss,
    )
    server = Server(listen, make_app(registry, service))
    _serve(server, supervisor)


def _serve(server: Server, supervisor: Supervisor) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server.start()
    supervisor.start()
    logging.getLogger(__name__).info("listening on %s:%d", server.server_name, server.server_port)
    stop.wait()
    supervisor.stop()
    server.stop()


def _probe() -> None:
    """Read NVML once. Raises NvmlUnavailableError."""
    from dutycycle_exporter.nvml import NvmlReader  # noqa: PLC0415 - only the child and the probe load NVML

    reader = NvmlReader(interval=1.0)
    try:
        gpus = reader.read(time.time()).gpus
    finally:
        reader.close()
    if not gpus:
        raise NvmlUnavailableError("no_gpu", "NVML works, and shows no GPU")
    click.echo("\n".join(gpu.model for gpu in gpus))


def main() -> None:
    """Entry point. Exit codes: 0 fine, 1 it cannot work here, 2 wrong usage, 3 there is no NVIDIA driver."""
    try:
        cli(prog_name="dutycycle-exporter")
    except ExporterError as error:
        click.echo(f"dutycycle-exporter: {error}", err=True)
        sys.exit(3 if isinstance(error, NvmlUnavailableError) and error.reason in _NO_DRIVER else 1)
