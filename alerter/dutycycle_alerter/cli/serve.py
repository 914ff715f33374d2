"""`dutycycle serve`: the alerter as a daemon."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from dutycycle_alerter import allocator
from dutycycle_alerter.app import Alerter
from dutycycle_alerter.cli.options import (
    config_option,
    health_listen_option,
    log_level_option,
    set_up_logging,
    settings_from,
)
from dutycycle_alerter.cli.stopping import stop_signals
from dutycycle_alerter.config_file import parse
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.web import HEALTH_PORT, Auth, Web
from dutycycle_alerter.web.access.gate import default_auth
from dutycycle_alerter.web.app import create_app, create_health_app
from dutycycle_alerter.web.listen import ListenAddress
from dutycycle_alerter.web.server import Server

log = logging.getLogger(__name__)

_MOST_FILES = 65536
"""One client address cannot open more connections to a port."""


@click.command()
@config_option
@click.option(
    "--web.listen-address",
    "listen",
    envvar="DUTYCYCLE_WEB_LISTEN_ADDRESS",
    metavar="[HOST]:PORT",
    help="Overrides web.listen_address.",
)
@health_listen_option
@click.option("--database", envvar="DUTYCYCLE_DATABASE", help="Overrides database (an SQLAlchemy URL).")
@click.option(
    "--target",
    "targets",
    envvar="DUTYCYCLE_TARGETS",
    multiple=True,
    metavar="URL",
    help="Overrides source.targets; may be repeated.",
)
@click.option("--replica", envvar="DUTYCYCLE_REPLICA", metavar="NAME", help="Overrides replica.")
@log_level_option
def serve(
    config_file: Path | None,
    listen: str | None,
    health_listen: str | None,
    database: str | None,
    targets: tuple[str, ...],
    replica: str | None,
    log_level: str,
) -> None:
    """Scrape, judge, keep incidents and serve the page until SIGTERM or Ctrl-C.

    \b
    Examples:
      dutycycle serve --config /etc/dutycycle/config.yaml
      dutycycle serve --target http://gpu01:9836/metrics --web.listen-address :9837
    """
    set_up_logging(log_level)
    settings = overridden(
        settings_from(config_file),
        listen=listen,
        health_listen=health_listen,
        database=database,
        targets=targets,
        replica=replica,
    )
    with stop_signals() as stop, running(settings) as (_, page, health):
        click.echo(f"dutycycle: serving {page.url}, health and metrics at {health.url}", err=True)
        stop.wait()


def overridden(
    settings: Settings,
    *,
    listen: str | None = None,
    health_listen: str | None = None,
    database: str | None = None,
    targets: tuple[str, ...] = (),
    time_scale: float | None = None,
    replica: str | None = None,
) -> Settings:
    """The configuration with what the command line says instead. Raises ConfigError."""
    # Only what was said: a default that is written out would pass for the operator's word.
    data = settings.model_dump(exclude_unset=True)
    if listen is not None:
        data.setdefault("web", {})["listen_address"] = listen
    if health_listen is not None:
        data.setdefault("web", {})["health_listen_address"] = health_listen
    if database is not None:
        data["database"] = database
    if targets:
        data.setdefault("source", {})["targets"] = targets
    if time_scale is not None:
        data["time_scale"] = time_scale
    if replica is not None:
        data["replica"] = replica
    return parse(data, origin="command line")


@contextmanager
def running(settings: Settings, *, replay: bool = False) -> Iterator[tuple[Alerter, Server, Server]]:
    """The alerter, its page, and its health and metrics, from start to clean end. Raises AlerterError."""
    allocator.settle()
    _allow_many_files()
    address = ListenAddress.parse(settings.web.listen_address)
    health_address = ListenAddress(address.host, HEALTH_PORT)
    if settings.web.health_listen_address:
        health_address = ListenAddress.parse(settings.web.health_listen_address)
    default = default_auth(address.host, settings.web.reached_by)
    auth = settings.web.auth or default
    alerter = Alerter(settings, replay=replay)
    app = create_app(
        alerter.store,
        alerter.store,
        hosts=address.names,
        names=settings.web.allowed_hosts,
        costs=settings.costs,
        tasks=alerter.tasks,
        standing=alerter.standing,
        watches=alerter.watches,
        failures=alerter.failures,
        outbox=alerter.store.outbox,
        deliveries=alerter.deliveries,
        tally=alerter.tally,
        unresolved=alerter.store.unresolved,
        owners=alerter.store.owners,
        clock=alerter.clock,
        late_after=5 * settings.schedule.pass_interval / settings.time_scale,
        auth=auth,
        proxies=settings.web.trusted_proxies,
        key=alerter.store.key(),
        public_url=settings.web.public_url,
        limits=settings.policies.expectations,
    )
    # Both addresses are taken before anything is scraped or written: one that is not free must change nothing.
    page = Server(app, address)
    health = Server(create_health_app(app, hosts=(*health_address.names, *settings.web.reached_by)), health_address)
    _say_who_may_act(settings.web, default, address)
    with alerter, health, page:
        yield alerter, page, health


def _allow_many_files() -> None:
    """Raise the soft limit of open files, which is often 1024. A client of the page could use up so few, and the health
    listener and the store need some.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A sandbox may forbid it.
        with suppress(OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _say_who_may_act(web: Web, default: Auth, address: ListenAddress) -> None:
    if default.anonymous == "operator":
        return
    if web.auth is None:
        log.warning("whoever reaches the page at %s may look at it, and nobody may act: configure web.auth", address)
    elif web.auth.anonymous == "operator":
        log.warning("whoever reaches the page at %s may act on incidents (web.auth.anonymous: operator)", address)
