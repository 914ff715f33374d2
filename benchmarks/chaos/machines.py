"""A GPU node of the site: the double of its hardware, a real exporter with TLS, and its way to Prometheus."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.site import BIN
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries
from tests.ports import free_port

from . import probes
from .certificates import Authority
from .clocks import SteppedClock
from .fetching import fetch
from .links import Link
from .processes import Program

INTERVAL = 30.0
"""Seconds of the full-length run between two scrapes, and between two reads of NVML."""
SAMPLE_PERIOD = 0.5
"""Seconds between two of NVML's own samples there: newer drivers take fewer, and so does a machine with few cores."""
_SAMPLES = 1000
NVML_TIMEOUT = 3.0
"""Wall seconds that a read of NVML may take."""


class Machine:
    """A context manager; `start` makes its time pass and its exporter run."""

    def __init__(
        self,
        name: str,
        directory: Path,
        libraries: Libraries,
        authority: Authority,
        clock_library: Path,
        *,
        gpus: int,
        time_scale: float,
        options: tuple[str, ...],
        programs: Path,
    ) -> None:
        self.name = name
        self._stack = ExitStack()
        self.fake = self._stack.enter_context(
            FakeNode(
                directory / name,
                libraries,
                name=name,
                gpus=gpus,
                time_scale=time_scale,
                sample_period=SAMPLE_PERIOD,
                capacity=_SAMPLES,
            )
        )
        self.clock = self._stack.enter_context(SteppedClock(directory / name / "clock", clock_library))
        self.certificate = authority.certificate(name)
        self.port = free_port()
        paths = self.fake.paths
        command = [
            str(BIN / "dutycycle-exporter"),
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--web.config.file={self.certificate.write_web_config()}",
            f"--node-name={name}",
            f"--time-scale={time_scale:g}",
            f"--sample-interval={INTERVAL:g}s",
            f"--series-hold={2 * INTERVAL:g}s",
            f"--nvml.timeout={NVML_TIMEOUT:g}s",
            f"--path.procfs={paths['procfs']}",
            f"--path.cgroup={paths['cgroup']}",
            f"--path.sysfs={paths['sysfs']}",
            "--log-level=info",
            *options,
        ]
        environment = {**self.fake.environment, **self.clock.environment, "PYTHONPATH": str(programs)}
        self.exporter = Program(f"exporter-{name}", command, directory, environment)
        self.scraped_through = self._stack.enter_context(Link(f"scrape-{name}", self.port))
        self.url = f"https://127.0.0.1:{self.port}"
        self._context = ssl.create_default_context(cafile=str(authority.chain))
        # Who looks at its pages looks at them with an expired certificate, too.
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exporter.stop()
        self._stack.close()

    @property
    def gpus(self) -> int:
        return len(self.fake.driver.gpus)

    def start(self) -> None:
        self.fake.start()
        self.exporter.begin()

    def step_clock(self, seconds: float) -> None:
        """The machine's clock: the exporter's, and the one by which its driver stamps samples."""
        self.clock.step(seconds)
        for gpu in range(self.gpus):
            self.fake.driver.shift_clock(gpu, seconds)

    def nvml(self) -> Mapping[str, Any]:
        """What a program that has just begun sees of its NVML; see `probes.nvml`."""
        return probes.nvml(self.fake.environment)

    def get(self, path: str, *, timeout: float) -> tuple[int, str]:
        """A page of the exporter's, past the link. Raises OSError."""
        return fetch(self.url + path, timeout=timeout, context=self._context)
