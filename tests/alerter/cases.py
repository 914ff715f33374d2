"""Builds evidence for tests: a job whose GPUs did the same thing for as long as anyone asks."""

from collections.abc import Sequence
from dataclasses import replace

from dutycycle_alerter.model import Consumption, Gpu, HostUsage, Job, JobEvidence, Usage, WindowEvidence
from dutycycle_alerter.settings import Judging

SETTINGS = Judging()
START = 1_700_000_000.0
NO_HOST = HostUsage()
LATER = START + 10 * 3600
"""Long after grace: every window but the longest lies within the job's life."""


def usage(utilization: float | None, length: float, *, coverage: float = 1.0, **fields: object) -> Usage:
    """A GPU at a steady utilization; fields given as `<name>_share` are shares of the window."""
    observed = 0.0 if utilization is None else coverage * length
    shares = {name.removesuffix("_share"): value for name, value in fields.items() if name.endswith("_share")}
    plain = {name: value for name, value in fields.items() if not name.endswith("_share")}
    return Usage(
        allocated=length,
        observed=observed,
        busy=(utilization or 0.0) * observed,
        **{name: value * length for name, value in shares.items()},  # type: ignore[operator]
        **plain,  # type: ignore[arg-type]
    )


def job(gpus: int = 1, *, nodes: int = 1, model: str = "H200", mig: str = "", **fields: object) -> Job:
    """A job of `gpus` GPUs, spread evenly over `nodes` nodes."""
    per_node = gpus // nodes
    members = tuple(Gpu(f"node{i // per_node}", str(i % per_node), f"GPU-{i}", mig, model) for i in range(gpus))
    values: dict[str, object] = {
        "id": "slurm/1",
        "scheduler": "slurm",
        "job_id": "1",
        "user": "alice",
        "start": START,
        "first_process": START,
    }
    return Job(gpus=members, **(values | fields))  # type: ignore[arg-type]


def evidence(
    utilizations: Sequence[float | None],
    *,
    at: float = LATER,
    coverage: float | Sequence[float] = 1.0,
    host: HostUsage = NO_HOST,
    by_window: dict[float, Sequence[float | None]] | None = None,
    the_job: Job | None = None,
    nodes: int = 1,
    gpu_fields: dict[str, object] | None = None,
    recent: tuple[Consumption, ...] = (),
    ended: float | None = None,
    visible: bool = True,
    memory_grew_at: float | None = None,
    **job_fields: object,
) -> JobEvidence:
    """A job whose GPUs have these utilizations over every window, but for the windows in `by_window`."""
    the_job = the_job or job(len(utilizations), nodes=nodes, **job_fields)  # type: ignore[arg-type]
    coverages = [coverage] * len(utilizations) if isinstance(coverage, float) else list(coverage)

    def window(length: float) -> WindowEvidence:
        values = (by_window or {}).get(length, utilizations)
        return WindowEvidence(
            length=length,
            gpus=tuple(
                usage(value, length, coverage=share, **(gpu_fields or {}))
                for value, share in zip(values, coverages, strict=True)
            ),
            host=host,
        )

    return JobEvidence(
        job=the_job,
        at=at,
        window=window,
        watched_from=the_job.start,
        memory_grew_at=memory_grew_at,
        ended=ended,
        visible=visible,
        recent=recent,
    )


def moved(item: JobEvidence, at: float) -> JobEvidence:
    """The same evidence at another instant."""
    return replace(item, at=at)
