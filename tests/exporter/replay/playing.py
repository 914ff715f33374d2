"""Recordings written for a test, played through the reader and the exporter's own accounting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import GpuReading, Snapshot
from dutycycle_exporter.replay import ReplayReader
from dutycycle_exporter.views import OwnedView

EPOCH = 1.8e9
START = 1.7e9
"""Where the recordings of these tests begin."""

Row = Mapping[str, object]


def row(t: float, utilization: float | None, **cells: object) -> Row:
    """A row of job 7 on GPU 0 of node n, `t` seconds after START."""
    return {
        "t": START + t,
        "node": "n",
        "gpu": 0,
        "workload": "slurm/7",
        "utilization_ratio": utilization,
        **cells,
    }


def write(path: Path, rows: Iterable[Row]) -> Path:
    rows = list(rows)
    columns = list(dict.fromkeys(name for one in rows for name in one))
    lines = [",".join("" if one.get(name) is None else str(one[name]) for name in columns) for one in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def play(path: Path, times: Iterable[float], *, node: str = "n", time_scale: float = 1.0) -> list[Snapshot]:
    """Snapshots at these times of the recording (seconds since START), by one reader."""
    reader = ReplayReader(path, node=node, epoch=EPOCH, time_scale=time_scale)
    try:
        return [reader.read(EPOCH + t / time_scale) for t in times]
    finally:
        reader.close()


def gpu(snapshot: Snapshot, index: int = 0) -> GpuReading:
    return next(reading for reading in snapshot.gpus if reading.index == index)


def account(snapshots: Sequence[Snapshot], time_scale: float = 1.0) -> list[dict[str, OwnedView]]:
    """What the exporter would show after each snapshot: by "workload@index"."""
    accounts = Accounts(hold=0.0, time_scale=time_scale)
    shown = []
    for snapshot in snapshots:
        assert snapshot.ownership is not None
        view = accounts.update(snapshot, snapshot.ownership)
        shown.append({f"{owned.workload.id}@{owned.index}": owned for owned in view.owned})
    return shown


def final(snapshots: Sequence[Snapshot], key: str = "slurm/7@0", time_scale: float = 1.0) -> OwnedView:
    """The account of one workload on one GPU as it was shown last."""
    return next(shown[key] for shown in reversed(account(snapshots, time_scale)) if key in shown)
