"""The command `dutycycle-exporter`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

import click

from dutycycle_exporter import allocator
from dutycycle_exporter.child import die_with_parent
from dutycycle_exporter.errors import ConfigError, ExporterError, NvmlUnavailableError
from dutycycle_exporter.options import settings_options
from dutycycle_exporter.settings import Settings
from dutycycle_exporter.signals import Signals
from dutycycle_exporter.sysfs import gpu_addresses

_GPU_LOST = 4
_NO_DRIVER = ("library_not_found", "driver_not_loaded")


class _Command(click.Command):
    """Keeps the arguments that it was called with, for a reload."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = tuple(args)
        return super().parse_args(ctx, args)


@click.command(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every flag has an environment variable: --sample-interval is DUTYCYCLE_EXPORTER_SAMPLE_INTERVAL. The "
    "command line comes first, then the environment, then the file of --config.file. SIGHUP reads the file again, "
    "SIGUSR1 lets go of NVML so that the driver can be unloaded.",
)
@settings_options
@click.option("--probe", is_flag=True, help="Only tell whether NVML can be used here, and what it shows.")
@click.option(
    "--release",
    is_flag=True,
    help="Only have the exporter that runs in this container let go of NVML, as SIGUSR1 does; again: take it up.",
)
@click.option(
    "--die-with-parent",
    "with_parent",
    is_flag=True,
    hidden=True,
    help="End when the process that started this one ends.",
)
@click.version_option(package_name="dutycycle", prog_name="dutycycle-exporter")
@click.pass_context
def cli(ctx: click.Context, /, probe: bool, release: bool, with_parent: bool, **values: Any) -> None:
    """Publish what the GPUs of this node do, and for whom, at /metrics.

    \b
    Examples:
      dutycycle-exporter
      dutycycle-exporter --web.listen-address=127.0.0.1:9836 --cluster=alps
      dutycycle-exporter --config.file=/etc/dutycycle/exporter.yaml
      dutycycle-exporter --replay=recording.csv.gz --time-scale=60
    """
    if with_parent:
        die_with_parent()
    if probe:
        _probe(Path(values["sysfs"]))
        return
    if release:
        from dutycycle_exporter.release import release as signalled  # noqa: PLC0415 - the daemon needs none of it

        click.echo(f"told process {signalled()}; its log says what it does")
        return
    # Before the rest is even loaded: to systemd the unit runs already, and a reload must not end it.
    signals = Signals(signal.SIGHUP, signal.SIGUSR1)
    allocator.settle()
    from dutycycle_exporter.daemon import Exporter  # noqa: PLC0415 - the probe needs none of it

    Exporter(Settings.of(values), Reading(ctx.obj, ctx.default_map).again).run(signals)


class Reading:
    """Reads the settings of the same arguments time and again. `file` is what --config.file said the time before."""

    def __init__(self, arguments: Sequence[str], file: MutableMapping[str, Any] | None = None) -> None:
        self._arguments = arguments
        self._file = file

    def again(self) -> Settings:
        """What the arguments, the environment and the file come to now. Raises ExporterError."""
        try:
            with cli.make_context("dutycycle-exporter", list(self._arguments), default_map=self._file) as ctx:
                settings = Settings.of(ctx.params)
        except click.ClickException as error:
            raise ConfigError(error.format_message()) from error
        self._file = ctx.default_map
        return settings


def read_settings(arguments: Sequence[str]) -> Settings:
    """What the arguments, the environment and the file come to, read for the first time. Raises ExporterError."""
    return Reading(arguments).again()


def _probe(sysfs: Path) -> None:
    """Read NVML once, and compare with the PCI bus. Raises NvmlUnavailableError."""
    from dutycycle_exporter.nvml import NvmlReader  # noqa: PLC0415 - only the child and the probe load NVML

    reader = NvmlReader(interval=1.0)
    try:
        snapshot = reader.read(time.time())
    finally:
        reader.close()
    gpus = [gpu for gpu in snapshot.gpus if not gpu.mig]
    if not gpus:
        raise NvmlUnavailableError("no_gpu", "NVML works, and shows no GPU")
    click.echo("\n".join(gpu.model for gpu in gpus))
    on_bus = gpu_addresses(sysfs, snapshot.excluded or ()) or ()
    # NVML writes the PCI domain with eight digits, sysfs with four.
    shown = {gpu.pci_bus_id[-12:] for gpu in gpus}
    missing = [address for address in on_bus if address not in shown]
    if missing and len(on_bus) > len(gpus):
        raise NvmlUnavailableError(
            "gpu_lost",
            f"NVML shows {len(gpus)} of {len(on_bus)} GPUs; missing: {', '.join(missing)}. Look for an XID in the "
            "kernel's log, then reset the GPU or reboot the node",
        )


def _on_one_line(text: str) -> str:
    """As it is where that can be printed; names of files may hold anything."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def main() -> None:
    """Entry point. Exit codes: 0 fine, 1 it cannot work here, 2 wrong usage, 3 there is no NVIDIA driver, 4 NVML
    does not show every GPU.
    """
    try:
        cli(prog_name="dutycycle-exporter")
    except ExporterError as error:
        click.echo(f"dutycycle-exporter: {_on_one_line(str(error))}", err=True)
        reason = error.reason if isinstance(error, NvmlUnavailableError) else ""
        sys.exit(3 if reason in _NO_DRIVER else _GPU_LOST if reason == "gpu_lost" else 1)
