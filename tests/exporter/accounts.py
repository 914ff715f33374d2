"""Accounts of one GPU that are told what it did and who held it."""

from __future__ import annotations

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Snapshot, Span, Workload

T = 1_750_000_000.0
UUID = "GPU-0"
A, B, C = (Workload(id=f"slurm/{number}", scheduler="slurm", job_id=str(number)) for number in (1, 2, 3))
EMPTY = Ownership()


def spans_of(start, end, utilization=0.5, period=0.25):
    count = round((end - start) / period)
    return tuple(Span(start + n * period, start + (n + 1) * period, utilization) for n in range(count))


def reading(spans=(), **values):
    return GpuReading(uuid=UUID, index=0, model="H100", spans=tuple(spans), **values)


def held_by(*workloads, start=None, pids=None):
    return Ownership(tuple(Allocation(UUID, workload, start) for workload in workloads), pids or {})


class Run:
    """Accounts that are told one GPU's snapshots."""

    def __init__(self, *, hold=0.0, time_scale=1.0):
        self.accounts = Accounts(hold=hold, time_scale=time_scale)
        self.view = None

    def at(self, t, ownership=EMPTY, spans=(), *, visible=True, elapsed=None, **values):
        gpus = (reading(spans, **values),) if visible else ()
        self.view = self.accounts.update(Snapshot(t=t, gpus=gpus, elapsed=elapsed), ownership)
        return self

    @property
    def device(self):
        [device] = self.view.devices
        return device

    def owned(self, workload):
        [owned] = [owned for owned in self.view.owned if owned.workload.id == workload.id]
        return owned

    @property
    def workloads(self):
        return [owned.workload.id for owned in self.view.owned]
