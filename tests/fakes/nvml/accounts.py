"""Accounting mode: what each process did to a GPU over its life."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from . import layout
from .timeline import GpuProcess, Run


@dataclass
class Account:
    """One process; times in microseconds since the epoch, busy times in seconds, memory in bytes."""

    pid: int
    start_us: int
    seen_us: int
    busy: float = 0.0
    memory_busy: float = 0.0
    memory_peak: int = 0
    running: bool = True


class Accounts:
    """The accounts of one GPU, while accounting mode is on. Processes that were there before are not accounted."""

    def __init__(self, device: layout.Device) -> None:
        self._device = device
        self._since_us: int | None = None
        self._accounts: deque[Account] = deque(maxlen=layout.MAX_ACCOUNTS)

    def switch(self, now_us: int, *, on: bool) -> None:
        """Turns the mode on or off. Off forgets everything."""
        if on == (self._since_us is not None):
            return
        self._since_us = now_us if on else None
        self._accounts.clear()
        self._device.telemetry.accounting_mode = int(on)
        self._write()

    def advance(
        self, runs: Iterable[tuple[Run, float]], present: Iterable[tuple[GpuProcess, int]], now_us: int
    ) -> None:
        """Adds the busy seconds that runs had until now, and the memory that processes have now."""
        if self._since_us is None:
            return
        running = {account.pid: account for account in self._accounts if account.running}
        for run, busy in runs:
            for process in run.load.processes:
                account = running.get(process.pid)
                if account is None and run.start_us >= self._since_us:
                    account = running[process.pid] = Account(process.pid, run.start_us, now_us)
                    self._accounts.append(account)
                if account is not None:
                    own = busy / len(run.load.processes)
                    account.busy += own
                    account.memory_busy += own * run.load.memory_activity
                    account.memory_peak = max(account.memory_peak, process.memory if not run.load.memory_growth else 0)
                    account.seen_us = now_us if run.end_us is None else min(now_us, run.end_us)
        memory = {process.pid: used for process, used in present}
        for pid, account in running.items():
            account.running = pid in memory
            account.memory_peak = max(account.memory_peak, memory.get(pid, 0))
        self._write()

    def _write(self) -> None:
        self._device.account_count = len(self._accounts)
        for block, account in zip(self._device.accounts, self._accounts, strict=False):
            lived = max(1, account.seen_us - account.start_us)
            block.pid = account.pid
            block.running = int(account.running)
            block.utilization_gpu = round(account.busy * 1e8 / lived)
            block.utilization_memory = round(account.memory_busy * 1e8 / lived)
            block.memory_peak = account.memory_peak
            block.time_ms = 0 if account.running else (account.seen_us - account.start_us) // 1000
            block.start_us = account.start_us
