"""Two `dutycycle serve` on one PostgreSQL: their settings, their clocks, and each one's way to what it asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.site import BIN
from tests.ports import AlerterAddresses

from .clocks import SteppedClock
from .fetching import fetch
from .links import Link
from .machines import INTERVAL
from .processes import Program

PASS = 120.0
"""Seconds of the full-length run between two passes."""
LEASE = 2.0
"""Wall seconds of the shortest lease."""


class Replica:
    """One of them; a context manager. Its settings are written at its start."""

    def __init__(self, name: str, directory: Path, database_port: int, clock_library: Path, programs: Path) -> None:
        self.name = name
        self._stack = ExitStack()
        self.clock = self._stack.enter_context(SteppedClock(directory / f"clock-{name}", clock_library))
        self.database_link = self._stack.enter_context(Link(f"database-{name}", database_port))
        self.addresses = AlerterAddresses.free()
        self.url = self.addresses.url()
        self._config = directory / f"alerter-{name}.yaml"
        self._config.touch(mode=0o600)
        command = [str(BIN / "dutycycle"), "serve", "--config", str(self._config), "--log-level", "info"]
        environment = {**self.clock.environment, "PYTHONPATH": str(programs)}
        self.program = Program(f"alerter-{name}", command, directory, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.stop()
        self._stack.close()

    def configure(self, settings: Mapping[str, Any], database: str, time_scale: float) -> None:
        """`database` is its URL, past the link."""
        address, _, name = database.rpartition("/")
        through = f"{address.rpartition(':')[0]}:{self.database_link.port}/{name}?application_name={self.name}"
        own = {
            "replica": self.name,
            "database": through,
            "time_scale": time_scale,
            "schedule": {"pass_interval": f"{PASS:g}s"},
            "source": {"interval": f"{INTERVAL:g}s"},
            "web": {**self.addresses.settings, "public_url": self.url},
        }
        # JSON is YAML, and has no aliases for what stands there twice.
        self._config.write_text(json.dumps({**own, **settings}, indent=1))

    def get(self, path: str, *, timeout: float) -> tuple[int, str]:
        """A page. Raises OSError."""
        return fetch(self.addresses.url(path), timeout=timeout)

    def json(self, path: str, *, timeout: float = 20.0) -> Any:
        status, text = self.get(path, timeout=timeout)
        if status != 200:
            raise OSError(f"{path}: {status}")
        return json.loads(text)
