"""What dashboards must show of the fleet, computed apart from PromQL."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.dashboards.answers.fleet import DOWN, END, HOLD, HOUR, NODES, Fleet

BINS = range(0, 100, 5)


def jobs(fleet: Fleet) -> pd.DataFrame:
    """GPU-hours of each job: allocated, observed, busy."""
    rows = []
    for job in fleet.jobs:
        allocated = job.seconds * job.share * len(job.gpus) / HOUR
        measured = job.utilization is not None
        rows.append(
            {
                **job.owner,
                "seconds": job.seconds,
                "allocated": allocated,
                "observed": allocated if measured else 0.0,
                "busy": allocated * (job.utilization or 0.0),
            }
        )
    return pd.DataFrame(rows)


def users(jobs: pd.DataFrame) -> pd.DataFrame:
    """By user: hours, the mean in percent (NaN where nothing was measured), and the bin's lower edge."""
    found = jobs.groupby("user")[["allocated", "observed", "busy"]].sum()
    observed = found["observed"].where(found["observed"] > 0)
    found["mean"] = 100 * found["busy"] / observed
    # A mean on an edge but for rounding belongs to the upper bin; 100 % to the last.
    found["bin"] = np.minimum(np.floor(found["mean"] / 5 + 1e-9) * 5, 95)
    found["wasted"] = found["observed"] - found["busy"]
    found["shortest"] = jobs.groupby("user")["seconds"].min()
    return found


def histogram(users: pd.DataFrame) -> dict[int, int]:
    """Users by bin."""
    counted = users["bin"].value_counts()
    return {edge: int(counted.get(edge, 0)) for edge in BINS}


def weights(users: pd.DataFrame) -> dict[int, float]:
    """Measured GPU-hours by their user's bin."""
    hours = users.groupby("bin")["observed"].sum()
    return {edge: float(hours.get(edge, 0.0)) for edge in BINS}


def low_share(users: pd.DataFrame) -> float:
    """Of those that were measured, under 15 %."""
    measured = users["mean"].dropna()
    return float((measured < 15).mean())


def median(users: pd.DataFrame) -> float:
    return float(users["mean"].median())


def capacity_hours() -> float:
    """GPU-hours that stood there."""
    return sum(node.gpus for node in NODES) * END / HOUR


def quiet(fleet: Fleet, since: float, until: float) -> bool:
    """Whether no job began or ended, and no exporter was away or had just begun, from `since` to `until`."""
    edges = {moment for job in fleet.jobs for moment in (job.start, job.until)}
    down = [(moment, moment + DOWN + HOLD) for node in NODES for moment in node.restarts]
    away = [span for node in NODES for span in node.away]
    held = any(since <= edge + HOLD and edge <= until for edge in edges)
    return not held and not any(begin <= until and since <= end for begin, end in (*down, *away))


def means_of_gpus(fleet: Fleet, at: float) -> pd.Series[float]:
    """Mean utilization in percent of each GPU that is held and measured."""
    rows = [
        {"gpu": (gpu.uuid, gpu.mig), "observed": job.share, "busy": job.share * job.utilization}
        for job in fleet.jobs
        if job.utilization is not None and job.start <= at <= job.until
        for gpu in job.gpus
    ]
    found = pd.DataFrame(rows).groupby("gpu").sum()
    return 100 * found["busy"] / found["observed"]
