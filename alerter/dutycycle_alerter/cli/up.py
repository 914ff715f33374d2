"""`dutycycle up`: exporter and alerter of one machine in the foreground, with incidents shown as they open."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path

import click

from dutycycle_alerter.cli.exporters import Exporter, Probe, exporter_command, free_ports, probe
from dutycycle_alerter.cli.live import LiveLines
from dutycycle_alerter.cli.options import (
    config_option,
    health_listen_option,
    log_level_option,
    set_up_logging,
    settings_from,
)
from dutycycle_alerter.cli.recorded import say
from dutycycle_alerter.cli.replay import Replay
from dutycycle_alerter.cli.serve import overridden, running
from dutycycle_alerter.cli.stopping import Stop, stop_signals
from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.settings import Settings

_TICK = 0.5
"""Seconds between two looks at the store and at the exporters."""
_DEMO_SPEED = 60.0


@click.command()
@click.option(
    "--state-dir",
    envvar="DUTYCYCLE_STATE_DIR",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    default=Path("state"),
    show_default=True,
    help="Where incidents and usage are kept; a later run continues with them.",
)
@click.option("--replay", type=click.Path(path_type=Path, dir_okay=False), help="Play this recording instead of NVML.")
@click.option("--demo", is_flag=True, help="Play the bundled recording, which is the default without an NVIDIA driver.")
@click.option(
    "--speed", type=click.FloatRange(min=1, max=3600), default=_DEMO_SPEED, show_default=True, help="Speed of a replay."
)
@click.option(
    "--web.listen-address",
    "listen",
    envvar="DUTYCYCLE_WEB_LISTEN_ADDRESS",
    metavar="[HOST]:PORT",
    help="Overrides web.listen_address. On an address other than loopback, nobody may act without web.auth.",
)
@health_listen_option
@config_option
@log_level_option
def up(
    state_dir: Path,
    replay: Path | None,
    demo: bool,
    speed: float,
    listen: str | None,
    health_listen: str | None,
    config_file: Path | None,
    log_level: str,
) -> None:
    """Monitor this machine: its GPUs, whose they are, and what is wrong with their jobs. Ctrl-C ends it.

    Where there is no NVIDIA driver, a bundled recording is played through the same exporter and alerter, over and over.

    \b
    Examples:
      dutycycle up
      dutycycle up --replay recording.csv.gz --speed 120
    """
    set_up_logging(log_level)
    _make(state_dir)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        found = Probe() if demo or replay is not None else probe()
        if found.gpu_lost:
            click.echo(found.gpu_lost, err=True)
        if found.no_driver:
            click.echo(
                f"No NVIDIA driver here ({found.no_driver}): playing a bundled recording at {speed:g} times its speed."
            )
            demo = True
        if replay is None and demo:
            replay = stack.enter_context(as_file(files("dutycycle_alerter") / "data" / "demo.csv.gz"))
        playing = None if replay is None else Replay(replay, speed)
        settings = _settings(config_file, state_dir, playing, listen=listen, health_listen=health_listen)
        commands = list(_commands(settings) if playing is None else playing.commands())
        ports = free_ports(len(commands), 9836 if playing is None else 0)
        exporters = [stack.enter_context(Exporter(*each)) for each in zip(commands, ports, strict=True)]
        if not all(exporter.wait(stop) for exporter in exporters):
            return
        settings = overridden(settings, targets=tuple(exporter.url for exporter in exporters))
        alerter, page, health = stack.enter_context(running(settings, replay=playing is not None))
        mark = "REPLAY " if playing else ""
        click.echo(f"{mark}The page is at {page.url}, health and metrics at {health.url} (Ctrl-C ends everything).")
        lines = LiveLines(alerter.store, colour=sys.stdout.isatty())
        _watch(stop, lines, exporters, playing)
    click.echo(f"{mark}Ended; the store is kept, and the next run continues with it.")


def _make(state_dir: Path) -> None:
    """The directory of the store. Raises ConfigError."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{printable(str(state_dir))} cannot be made: {error.strerror or error}; name a directory that you may "
            "write to with --state-dir"
        ) from error


def _watch(stop: Stop, lines: LiveLines, exporters: Sequence[Exporter], playing: Replay | None) -> None:
    """Tell what happens, and keep the exporters alive, until it is time to stop."""
    trouble = ""
    while not stop.wait(_TICK):
        try:
            for line in lines.new():
                click.echo(line)
            trouble = ""
        except StoreError as error:
            # The alerter goes on trying, and so do we; it is told once.
            if str(error) != trouble:
                trouble = str(error)
                click.echo(trouble, err=True)
        for told in _tend(exporters, playing):
            click.echo(f"{'REPLAY ' if playing else ''}{told}", err=True)


def _tend(exporters: Sequence[Exporter], playing: Replay | None) -> Iterator[str]:
    if playing is not None and playing.over(time.time()):
        yield "The recording has ended and begins again."
        playing.begin(time.time())
        for exporter, command in zip(exporters, playing.commands(), strict=True):
            exporter.replace(command)
    for exporter in exporters:
        if (told := exporter.keep_alive()) is not None:
            yield told


def _settings(
    config_file: Path | None,
    state_dir: Path,
    playing: Replay | None,
    *,
    listen: str | None,
    health_listen: str | None,
) -> Settings:
    # A replay has a store of its own: what it says is not about this machine, and it runs at another time scale.
    store = (state_dir / f"{'replay' if playing else 'dutycycle'}.sqlite3").resolve()
    settings = settings_from(config_file)
    if "database" in settings.model_fields_set:
        say(f"{config_file}: database is not used by `dutycycle up`: its store is {store} (--state-dir)")
    return overridden(
        settings,
        listen=listen,
        health_listen=health_listen,
        database=f"sqlite:///{store}",
        time_scale=playing.speed if playing else None,
    )


def _commands(settings: Settings) -> Iterable[list[str]]:
    """One exporter, for this machine."""
    return [exporter_command("--log-level=warning", "--attribution.local", f"--time-scale={settings.time_scale:g}")]
