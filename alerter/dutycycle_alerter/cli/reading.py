"""What the commands that show things share: options, and the way to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import sqlalchemy as sa

from dutycycle_alerter.cli.options import settings_from
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.scale import parse_duration
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
    """Which store was asked for; None is not said."""

    database: str | None = None
    config_file: Path | None = None
    state_dir: Path | None = None

    def url(self) -> str:
        """The database: as said, else the configuration's, else the one that `dutycycle up` last wrote.

        Raises ConfigError where there is none: looking must not make an empty one.
        """
        if self.database is None and self.config_file is None:
            return self._last_written(self.state_dir or STATE_DIR)
        url = self.database or settings_from(self.config_file).database
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            # Without the URL: one that cannot be read may show its password anywhere.
            raise ConfigError("the database's address is not a database URL (sqlite:///PATH)") from None
        if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
            raise ConfigError(f"there is no store at {parsed.database}")
        return url

    def limits(self) -> Expectations:
        """What may be said to be intended, as the configuration has it. Raises ConfigError."""
        return Expectations() if self.config_file is None else settings_from(self.config_file).policies.expectations

    @staticmethod
    def _last_written(directory: Path) -> str:
        stores = sorted(directory.glob("*.sqlite3"), key=_written_at)
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
        # Said before or after the subcommand's name, it is the same.
        said: dict[str, object] = context.ensure_object(dict)
        if value is not None:
            said[str(parameter.name)] = value
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
            help=f"The directory of `dutycycle up`; {STATE_DIR} by default.",
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


@contextmanager
def opened(context: click.Context) -> Iterator[StoreReader]:
    """The store that the command line names. Raises ConfigError, StoreError."""
    where = Where(**context.ensure_object(dict))
    reader = open_reader(where.url(), where.limits())
    try:
        yield reader
    finally:
        reader.close()
