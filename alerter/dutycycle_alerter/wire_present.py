"""The JSON of users, GPUs and the fleet, and of how the alerter itself is doing; what holds in `wire` holds here."""

from __future__ import annotations

from dutycycle_alerter.wire import GpuShape, Moment, Shape, Text


class UserShape(Shape):
    """One user over the range."""

    user: Text
    jobs: int
    incidents: int
    allocated_gpu_hours: float
    observed_gpu_hours: float
    busy_gpu_hours: float
    wasted_gpu_hours: float
    mean_utilization_percent: float | None
    energy_kwh: float | None


class UsersAnswer(Shape):
    """Users over a range, most wasted GPU-hours first."""

    replay: bool
    total: int
    """How many there are; `users` is a part of them, from `offset` on."""
    offset: int
    since: Moment
    until: Moment
    incomplete: str | None
    """Why jobs and GPUs may be missing here: no evaluation yet, or a source that does not answer. Null where nothing
    suggests that any is missing.
    """
    users: list[UserShape]
    users_under_15: int
    median_utilization_percent: float | None
    """Of users' mean utilizations; null where nothing was measured."""
    users_histogram: list[int]
    """Users per 5-point bin of mean utilization, 20 bins."""
    gpu_hours_histogram: list[float]
    """Measured GPU-hours of the users in each of these bins."""


class OwnerShape(Shape):
    """A workload that holds the GPU."""

    workload: Text
    user: Text
    share: float


class GpuNowShape(GpuShape):
    """One GPU at its last scrape."""

    scraped_at: Moment
    stale: bool
    """Its exporter does not answer: every reading is null."""
    utilization_ratio: float | None
    """Mean of the last minute before the scrape."""
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_celsius: float | None
    processes: float | None
    last_busy_at: Moment | None
    lost_since: Moment | None
    """When it was last seen, where NVML does not show it any more; null where it does."""
    workloads: list[OwnerShape]


class GpusAnswer(Shape):
    """GPUs, by node and index."""

    replay: bool
    total: int
    """How many there are; `gpus` is a part of them, from `offset` on."""
    offset: int
    incomplete: str | None
    """Why GPUs may be missing here: no evaluation yet, a source that does not answer, or Prometheus as the source. Null
    where nothing suggests that any is missing.
    """
    gpus: list[GpuNowShape]


class FleetShape(Shape):
    """GPU-hours of one model of GPU. The first five are disjoint."""

    cluster: Text
    model: Text
    """Empty for the scheduler's queue, whose requests name no model."""
    allocated_gpu_hours: float
    unallocated_gpu_hours: float
    drained_gpu_hours: float
    """Not allocated, on nodes that take no jobs."""
    down_gpu_hours: float
    """Not allocated, on nodes that cannot run any."""
    unknown_gpu_hours: float
    """Their exporters did not show them."""
    pending_gpu_hours: float
    """For which requests waited in the scheduler's queue."""
    held_gpu_hours: float
    """The part of them that waited for something else than GPUs."""
    waited_gpu_hours: float | None
    """Unallocated while others waited for as many: of all models of the cluster together, in the row of the queue.
    Null in other rows, where no scheduler reports its queue, and where no exporter shows a GPU."""


class FleetAnswer(Shape):
    """The fleet over a range, beside what waited for it, by cluster and model."""

    replay: bool
    total: int
    """How many rows there are; `fleet` is a part of them, from `offset` on."""
    offset: int
    since: Moment
    until: Moment
    fleet: list[FleetShape]


class TargetShape(Shape):
    """One source: an exporter, Prometheus, Slurm."""

    url: Text
    node: Text
    last_success: Moment | None
    error: Text
    """Empty while it answers."""
    note: Text
    """What else there is to say of it, also while it answers; empty where there is nothing."""


class NotEvaluableShape(Shape):
    """A rule that cannot be judged for some jobs, and why."""

    rule: str
    reason: Text
    jobs: int


class EvaluatingShape(Shape):
    """Which of the alerters on one database evaluates, or did last."""

    replica: Text
    epoch: int
    """One more at each term."""
    expires_at: Moment
    """Until when, unless it is renewed."""


class StatusAnswer(Shape):
    """How the alerter itself is doing."""

    replay: bool
    now: Moment
    time_scale: float
    last_pass: Moment | None
    first_verdict_at: Moment | None
    """Set while no verdict was possible yet."""
    jobs_judged: int
    targets: list[TargetShape]
    not_evaluable: list[NotEvaluableShape]
    notices: list[Text]
    """What the policies have to say: expired or about to, maintenance, jobs left out."""
    evaluating: EvaluatingShape | None
    """None before any alerter did."""
