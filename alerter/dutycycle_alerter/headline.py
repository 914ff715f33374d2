"""What is wrong in one line, for titles, lists and subjects: it says how many GPUs, never why."""

from __future__ import annotations

from dutycycle_alerter.figures import count, gibibytes
from dutycycle_alerter.incidents.model import Incident, Severity
from dutycycle_alerter.model import workload_of
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.views import NotEvaluable

_SAYS = {
    # rule: (what one GPU does, what several do)
    "hung": ("spins without working", "spin or wait without working"),
    "idle": ("is idle", "are idle"),
    "partially_idle": ("is idle", "are idle"),
    "stalled": ("keeps waiting for work", "keep waiting for work"),
    "uneven": ("lags behind", "lag behind"),
    "low_sm_activity": ("looks busy and hardly computes", "look busy and hardly compute"),
    "underused": ("is hardly used", "are hardly used"),
    "memory_underused": ("had most of its memory unused", "had most of their memory unused"),
    "memory_pressure": ("ran with its memory full", "ran with their memory full"),
}


def headline(incident: Incident) -> str:
    """`All 8 GPUs are idle`, `4 of 8 GPUs are idle`, `The GPU keeps waiting for work`; no text from outside in it."""
    one, several = _SAYS.get(
        incident.rule, (f"shows “{rule_name(incident.rule)}”", f"show “{rule_name(incident.rule)}”")
    )
    if incident.about != "job":
        return _of_device(incident)
    if incident.rule == "overallocated":
        return "The job asked for far more than it used"
    concerned, whole = len(incident.gpus), max(incident.job_gpus, len(incident.gpus))
    if incident.rule == "uneven" and 2 * concerned > whole:
        # Where most lag behind a few, it may be the few that hold them up.
        return f"The {whole} GPUs work unevenly"
    if whole <= 1:
        return f"The GPU {one}"
    if concerned == whole:
        return f"All {whole} GPUs {several}" if whole > 2 else f"Both GPUs {several}"
    return f"{concerned} of {whole} GPUs {one if concerned == 1 else several}"


def _of_device(incident: Incident) -> str:
    """What is wrong with a GPU or a node; there its figures say more than a number of GPUs."""
    figures = incident.figures
    if incident.rule == "leaked_memory":
        return f"{gibibytes(figures.get('memory_used'))} of GPU memory held by nobody"
    if incident.rule == "throttled":
        at_limit = incident.severity is Severity.INFO
        return "The GPU runs at its power limit" if at_limit else "The GPU is slowed down by heat or the power brake"
    if "expected" in figures:
        lost = int(figures["expected"] - figures["visible"])
        return f"{lost} of {int(figures['expected'])} GPUs {'is' if lost == 1 else 'are'} lost"
    return f"The GPU reported XID {int(figures['xid'])}" if "xid" in figures else "The GPU needs attention"


def duration(incident: Incident, now: float, time_scale: float) -> str:
    """Return for how long it has lasted, or lasted until it was resolved: `5 h 41 min, with breaks`."""
    end = now if incident.resolved_at is None else incident.resolved_at
    lasted = format_duration(max(0.0, end - incident.started_at) * time_scale)
    return f"{lasted}, with breaks" if incident.interrupted else lasted


def subject_name(incident: Incident) -> str:
    """What it is about, for people: `Job`, `GPU` or `Node`."""
    return {"job": "Job", "gpu": "GPU", "node": "Node"}[incident.about]


def shown_subject(incident: Incident) -> str:
    """Its subject without the uid at the end of a Kubernetes object, which tells people nothing."""
    workload = workload_of(incident.subject, incident.cluster)
    ending = workload.removeprefix(without_uid(incident.subject, incident.cluster, incident.scheduler))
    return incident.subject.removesuffix(ending)


def without_uid(subject: str, cluster: str, scheduler: str) -> str:
    """A job's id without its cluster, and without the uid of a Kubernetes object."""
    workload = workload_of(subject, cluster)
    return workload.rpartition("/")[0] if scheduler == "k8s" and workload.count("/") > 2 else workload


def rule_name(rule: str) -> str:
    """The rule's name for people: `partially idle`."""
    return rule.replace("_", " ")


def not_evaluable(lacking: NotEvaluable) -> str:
    """Which rule lacks evidence, of how many jobs, and why."""
    return f"{rule_name(lacking.rule)} cannot be judged for {count(lacking.jobs, 'job')}: {lacking.reason}"
