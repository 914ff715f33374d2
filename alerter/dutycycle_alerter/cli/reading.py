"""What the commands that show things share: options, and the way to the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import sqlalchemy as sa
from click.core import ParameterSource

from dutycycle_alerter.cli.options import settings_from
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.scale import parse_duration
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.policies import Expectations
from dutycycle_alerter.store.reader import StoreReader, open_reader
from dutycycle_alerter.wire import Shape

_Command = TypeVar("_Command", bound=Callable[..., Any])

STATE_DIR = Path("state")


def in_seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Callback of an option that is a length of time, written as Prometheus writes it."""
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    if seconds <= 0:
        raise click.BadParameter("a length of time is more than 0", context, parameter)
    return seconds


def json_text(answer: Shape) -> str:
    """An answer as JSON, in ASCII: names come from outside, and some of their characters would steer a terminal."""
    return answer.model_dump_json(indent=2, ensure_ascii=True)


json_option = click.option("--json", "as_json", is_flag=True, help="The same shapes as the JSON API.")


@dataclass(frozen=True, slots=True)
class Where:
    """Which store was asked for; None is not said. `typed` has the names of what the command line itself says."""

    database: str | None = None
    config_file: Path | None = None
    state_dir: Path | None = None
    typed: Collection[str] = ()

    def url(self) -> str:
        """The database: as said, else the configuration's, else the one that `dutycycle up` last wrote. A directory on
        the command line counts before a configuration, and before what the environment says.

        Raises ConfigError where there is none: looking must not make an empty one.
        """
        directory = self._directory()
        if directory is not None:
            return _last_written(directory)
        url = self._named()
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            # Without the URL: one that cannot be read may show its password anywhere.
            raise ConfigError("the database's address is not a database URL (sqlite:///PATH)") from None
        if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
            raise ConfigError(f"there is no store at {parsed.database}; name one with --state-dir or --database")
        return url

    def url_to_make(self) -> str:
        """The same of a store that may not be there yet: where nothing is said, the one that `dutycycle serve` takes
        then, if it is there or `dutycycle up` wrote none.

        Raises ConfigError where a directory is said and has none: what it would be called is not known.
        """
        directory = self._directory()
        if directory is None:
            return self._named()
        if self.state_dir is None:
            served = self._named()
            if Path(sa.make_url(served).database or "").exists() or not _stores(directory):
                return served
        return _last_written(directory)

    def limits(self) -> Expectations:
        """What may be said to be intended, as the configuration has it. Raises ConfigError."""
        return Expectations() if self.config_file is None else settings_from(self.config_file).policies.expectations

    def settings(self) -> Settings | None:
        """The configuration, where one was named. Raises ConfigError."""
        return None if self.config_file is None else settings_from(self.config_file)

    def _directory(self) -> Path | None:
        """Where to look for the store; None where it is named otherwise."""
        if "state_dir" in self.typed and "database" not in self.typed:
            return self.state_dir
        return self.state_dir or STATE_DIR if self.database is None and self.config_file is None else None

    def _named(self) -> str:
        return self.database or settings_from(self.config_file).database


def _stores(directory: Path) -> list[Path]:
    """Those in a directory, the last written last."""
    return sorted(directory.glob("*.sqlite3"), key=_written_at)


def _last_written(directory: Path) -> str:
    stores = _stores(directory)
    if not stores:
        raise ConfigError(
            f"there is no store in {directory.resolve()}: start `dutycycle up`, or name one with --state-dir, "
            "--database or --config"
        )
    return f"sqlite:///{stores[-1].resolve()}"


def _written_at(store: Path) -> float:
    """When a store was last written to: what is new stands in its write-ahead log until a checkpoint moves it."""
    log = store.with_name(f"{store.name}-wal")
    try:
        return max(store.stat().st_mtime, log.stat().st_mtime)
    except FileNotFoundError:
        return store.stat().st_mtime


def store_options(command: _Command) -> _Command:
    """The options that say which store; the command gets them as `where`."""

    def chosen(context: click.Context, parameter: click.Parameter, value: object) -> object:
        # Said before or after the subcommand's name, it is the same. The environment says it at both places.
        said: dict[str, Any] = context.ensure_object(dict)
        name = str(parameter.name)
        typed: set[str] = said.setdefault("typed", set())
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            typed.add(name)
        elif name in typed:
            return value
        if value is not None:
            said[name] = value
        return value

    options = (
        click.option(
            "--database", envvar="DUTYCYCLE_DATABASE", expose_value=False, callback=chosen, help="SQLAlchemy URL."
        ),
        click.option(
            "--state-dir",
            envvar="DUTYCYCLE_STATE_DIR",
            type=click.Path(path_type=Path, file_okay=False),
            expose_value=False,
            callback=chosen,
            help=f"The directory of `dutycycle up`: its newest store, whatever --config names; {STATE_DIR} by default.",
        ),
        click.option(
            "--config",
            "config_file",
            envvar="DUTYCYCLE_CONFIG",
            type=click.Path(path_type=Path, dir_okay=False),
            expose_value=False,
            callback=chosen,
            help="Configuration file that names the database.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked(context: click.Context) -> Where:
    """Which store the command line, or the environment, names."""
    return Where(**context.ensure_object(dict))


@contextmanager
def opened(context: click.Context) -> Iterator[StoreReader]:
    """The store that the command line names. Raises ConfigError, StoreError."""
    where = asked(context)
    reader = open_reader(where.url(), where.limits())
    try:
        yield reader
    finally:
        reader.close()
