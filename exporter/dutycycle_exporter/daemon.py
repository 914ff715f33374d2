"""Puts the exporter's parts together by its settings, and runs them until a signal ends it."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Collection

from dutycycle_exporter.collected import COLLECTED
from dutycycle_exporter.collector import ExporterCollector, Operation
from dutycycle_exporter.driver import loaded_driver
from dutycycle_exporter.elapsed import elapsed
from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.logs import set_up
from dutycycle_exporter.ownership import NodeOwnership
from dutycycle_exporter.pid_namespace import apart
from dutycycle_exporter.reload import Configuration
from dutycycle_exporter.service import Service
from dutycycle_exporter.settings import Settings
from dutycycle_exporter.signals import Signals
from dutycycle_exporter.supervisor import Supervisor
from dutycycle_exporter.web import Access, Scrapes, Server, make_app

log = logging.getLogger(__name__)

_SHORTEST_INTERVAL = 0.05
"""Wall seconds between reads, however high the time scale: a read takes some milliseconds."""

_LONGEST_INTERVAL = 10.0
"""Wall seconds between reads up to which NVML's buffer of samples still has all of them."""


def sample_interval(settings: Settings) -> float:
    """Wall seconds between two reads."""
    return max(_SHORTEST_INTERVAL, settings.sample_interval / settings.time_scale)


def _warn_of_lost_time(settings: Settings) -> None:
    if settings.replay is None and sample_interval(settings) > _LONGEST_INTERVAL:
        log.warning(
            "--sample-interval: NVML's buffer holds 10 to 16 s; with more than %g s between two readings, some time is "
            "not measured",
            _LONGEST_INTERVAL,
        )


def child_command(settings: Settings, began: float) -> list[str]:
    """How the NVML child is started. `began` is the Unix time at which a recording begins that says none itself."""
    command = [
        # -P: nothing is imported from the directory that the exporter happens to run in.
        *(sys.executable, "-P", "-m", "dutycycle_exporter.child"),
        *(f"--interval={sample_interval(settings)}", f"--time-scale={settings.time_scale}"),
        f"--timeout={settings.nvml_timeout}",
        f"--collect={','.join(sorted(settings.collect & frozenset(COLLECTED)))}",
    ]
    if settings.replay is not None:
        epoch = began if settings.replay_epoch is None else settings.replay_epoch
        command += [f"--replay={settings.replay}", f"--node={settings.replay_node}", f"--epoch={epoch}"]
    return command


class Exporter:
    """All parts of the daemon. `read` reads the settings anew for a reload."""

    def __init__(self, settings: Settings, read: Callable[[], Settings]) -> None:
        """Raises ExporterError where it cannot work here."""
        set_up(settings.log_level)
        if settings.replay is not None and not settings.replay.exists():
            raise ExporterError(f"--replay={settings.replay}: there is no such file")
        _warn_of_lost_time(settings)
        self._began = time.time()
        self._access = Access(settings.web_config)
        self._configuration = Configuration(settings, read=read, apply=self.apply)
        self._ownership = NodeOwnership(settings)
        self._service = Service(
            self._ownership,
            interval=sample_interval(settings),
            hold=settings.series_hold / settings.time_scale,
            time_scale=settings.time_scale,
            sysfs=settings.sysfs,
            sources=self._ownership.health,
            driven=lambda: loaded_driver(settings.procfs) is not None,
            # A recording tells of all processes, wherever it is played.
            apart=settings.replay is None and apart(settings.procfs),
            elapsed=elapsed,
        )
        self._collector = ExporterCollector(
            self._service,
            node=settings.node_name,
            cluster=settings.cluster,
            time_scale=settings.time_scale,
            replay=settings.replay is not None,
            processes="processes" in settings.collect,
            like_dcgm="dcgm" in settings.compat,
            operation=self._operation,
        )
        self._scrapes = Scrapes(lambda: self._collector.page(self._service.state()).pieces())
        self._server = Server(settings.listen, make_app(self._scrapes, self, self._access), self._access)
        self._supervisor = Supervisor(
            child_command(settings, self._began),
            silence=sample_interval(settings) + settings.nvml_timeout,
            on_snapshot=self._service.on_snapshot,
            on_xid=self._service.on_xid,
            on_silence=self._service.on_silence,
            on_loss=self._service.on_loss,
            driver=lambda: loaded_driver(settings.procfs),
            release_timeout=settings.release_timeout / settings.time_scale,
            time_scale=settings.time_scale,
        )

    def _operation(self) -> Operation:
        state = self._configuration.state
        return Operation(self._scrapes.refused, state.successful, state.at)

    def unready(self) -> str:
        """Why there is nothing to scrape yet; empty when there is."""
        return self._service.unready()

    def unhealthy(self) -> str:
        """Why only a restart of the container or unit can help; empty while that is not so."""
        return self._service.unhealthy() or self._supervisor.standstill()

    def apply(self, settings: Settings) -> Collection[str]:
        """Put in force what can be changed. Returns the sections of the web configuration that changed. Raises
        ConfigError before anything has been.
        """
        web = self._access.reload()
        set_up(settings.log_level)
        _warn_of_lost_time(settings)
        self._collector.cluster = settings.cluster
        self._collector.processes = "processes" in settings.collect
        self._collector.like_dcgm = "dcgm" in settings.compat
        self._ownership.apply(settings)
        self._service.apply(
            interval=sample_interval(settings),
            hold=settings.series_hold / settings.time_scale,
        )
        self._supervisor.replace(
            child_command(settings, self._began),
            silence=sample_interval(settings) + settings.nvml_timeout,
            release_timeout=settings.release_timeout / settings.time_scale,
        )
        return web

    def run(self, signals: Signals) -> None:
        """Serve until SIGTERM or SIGINT. SIGHUP reloads, SIGUSR1 releases NVML: those that came before now, too."""
        orders: dict[int, Callable[[], None]] = {
            signal.SIGHUP: self._configuration.reload,
            signal.SIGUSR1: self._supervisor.release,
        }
        signals.take(signal.SIGTERM, signal.SIGINT)
        self._server.start()
        self._ownership.start()
        self._supervisor.start()
        log.info("listening on %s:%d", self._server.server_name, self._server.server_port)
        for number in signals:
            if number not in orders:
                break
            try:
                orders[number]()
            except Exception:
                # Short memory, or a defect of ours, must not end the exporter here.
                log.exception("%s could not be obeyed", signal.Signals(number).name)
        self._supervisor.stop()
        self._ownership.stop()
        self._server.stop()
