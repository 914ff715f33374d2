"""The end of a job by its scheduler's word, or by its beginning anew: it closes the job's incident, and adds the final
figures of accounting.
"""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Resolution, State, Step
from dutycycle_alerter.model import Job
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.workloads import End

ELAPSED = "elapsed_seconds"
"""The figure by which an incident is known to have its final ones."""


def lacks_final(incident: Incident) -> bool:
    """Whether the job of an incident has ended and its final figures are not known."""
    ended = incident.state is State.RESOLVED and incident.resolution is Resolution.ENDED
    # A report has those that it was made from.
    return ended and incident.kind == "efficiency" and ELAPSED not in incident.figures


def is_of_former_run(incident: Incident, job: Job, *, apart: float) -> bool:
    """Whether the job began anew since the incident was last known: it was requeued while nobody looked.

    `apart` is by how many seconds the clocks of its node and of the alerter may differ. A start that nobody tells says
    nothing, and neither does that of a process.
    """
    # Where neither a prolog's file nor the scheduler tells it, an exporter has it from the oldest process that lives,
    # as it has that of the first process: a job that replaces its processes while nobody looks goes on.
    of_a_process = job.start == job.first_process
    # Not `updated_at`: people act on an incident of which nothing is known.
    last = max(incident.opened_at, incident.known_at)
    return job.start_told and not of_a_process and job.start > last + apart


def close_former_run(incident: Incident, job: Job, end: End | None, *, now: float, time_scale: float = 1.0) -> Step:
    """The incident of a run that is over, of a job that runs again, resolved as ended; unchanged where it is resolved.

    `end` is the scheduler's word. Without it the run ended when it was last known: nobody says when.
    """
    if not incident.state.active:
        return Step(incident)
    last = max(incident.opened_at, incident.known_at)
    end = replace(end, at=min(end.at, job.start)) if end is not None else End(last, "")
    step = close(incident, end, now=now, time_scale=time_scale)
    resolved = replace(step.events[0], text="the job started again: its previous run is over")
    return Step(step.incident, (resolved, *step.events[1:]))


def close(incident: Incident, end: End, *, now: float, time_scale: float = 1.0) -> Step:
    """The incident resolved as ended at the scheduler's time, with final figures where `end` has them.

    One that was resolved otherwise stays as it is. Twice the same end changes nothing.
    """
    if not incident.state.active and not lacks_final(incident):
        return Step(incident)
    changed, events = incident, []
    if incident.state.active:
        changed = replace(
            changed,
            state=State.RESOLVED,
            resolution=Resolution.ENDED,
            snoozed_until=None,
            rules=(),
            updated_at=now,
        )
        text = f"the job ended: {end.outcome}" if end.outcome else "the job ended"
        events.append(Event(now, EventKind.RESOLVED, text, data={"resolution": Resolution.ENDED.value}))
    changed = replace(changed, resolved_at=max(end.at, incident.opened_at))
    figures = _figures(end)
    if figures:
        changed = replace(changed, figures={**changed.figures, **figures}, updated_at=now)
        events.append(Event(now, EventKind.FINAL, _sentence(end, time_scale), data=dict(figures)))
    return Step(changed, tuple(events)) if events else Step(incident)


def _figures(end: End) -> dict[str, float]:
    run = end.figures
    if run is None or run.elapsed is None:
        return {}
    known = {ELAPSED: run.elapsed, "cpu_seconds": run.cpu_seconds, "allocated_gpu_seconds": run.gpu_seconds}
    return {name: float(value) for name, value in known.items() if value is not None}


def _sentence(end: End, time_scale: float) -> str:
    run = end.figures
    assert run is not None  # noqa: S101 - there are figures
    assert run.elapsed is not None  # noqa: S101
    parts = [f"{end.outcome or 'ended'} after {format_duration(run.elapsed * time_scale)}"]
    if run.gpu_seconds is not None:
        parts.append(f"{run.gpu_seconds * time_scale / 3600:.2f} GPU-hours allocated")
    if run.cpu_seconds is not None and run.elapsed > 0:
        parts.append(f"{run.cpu_seconds / run.elapsed:.1f} CPU cores busy on average")
    return ", ".join(parts)
