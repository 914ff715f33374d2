"""Which jobs a part of the configuration is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Annotated

from pydantic import BeforeValidator

from dutycycle_alerter.model import Job, JobKind, workload_of
from dutycycle_alerter.settings.types import Section

_WILD = re.compile(r"[*?\[]")

ANY = "*"
"""The pattern of what is not asked for: it matches also what is not known."""


def _patterns(value: object) -> object:
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ValueError("expected a pattern or a list of patterns")
    if not value:
        raise ValueError("an empty list matches nothing: leave the key out to match everything")
    return tuple(value)


def _label_patterns(value: object) -> object:
    checked = _patterns(value)
    for pattern in _listed(checked):
        if pattern != ANY and not pattern.partition("=")[0].strip():
            raise ValueError("a label is asked for as name=pattern, such as team=vision-* or team=*")
        if pattern != ANY and "=" not in pattern:
            raise ValueError(f"a label is asked for as name=pattern: write {pattern[:80]}=* for any value")
    return checked


Patterns = Annotated[str | tuple[str, ...], BeforeValidator(_patterns)]
"""A shell-style pattern, or several of which one must match. Upper and lower case differ."""
LabelPatterns = Annotated[str | tuple[str, ...], BeforeValidator(_label_patterns)]
"""The same of labels: `name=pattern`."""


def matches_any(value: str, patterns: str | tuple[str, ...]) -> bool:
    """Whether a text matches the pattern, or one of them."""
    return patterns == ANY or any(fnmatchcase(value, pattern) for pattern in _listed(patterns))


def _listed(patterns: object) -> tuple[str, ...]:
    return patterns if isinstance(patterns, tuple) else (str(patterns),)


class JobMatch(Section):
    """Jobs of which every field matches the given shell-style pattern, or one of a list of them."""

    workload: Patterns = ANY
    """Pattern of the job's id, such as `slurm/12*`."""
    job_name: Patterns = ANY
    """Pattern of the name that its user gave it."""
    user: Patterns = ANY
    """Pattern of its user."""
    account: Patterns = ANY
    """Pattern of its account."""
    partition: Patterns = ANY
    """Pattern of its Slurm partition."""
    qos: Patterns = ANY
    """Pattern of its Slurm quality of service."""
    namespace: Patterns = ANY
    """Pattern of its Kubernetes namespace."""
    cluster: Patterns = ANY
    """Pattern of its cluster."""
    scheduler: Patterns = ANY
    """Pattern of its scheduler: `slurm`, `k8s`, `local`."""
    owner: Patterns = ANY
    """Pattern of the kind of Kubernetes object that it is, such as `PyTorchJob`; `Pod` for a pod that nobody owns."""
    label: LabelPatterns = ANY
    """Pattern of a label of its pods, as `name=pattern`."""
    model: Patterns = ANY
    """Pattern of the model of some GPU of it, such as `*H100*`."""

    def matches_job(self, job: Job) -> bool:
        """Whether this job is meant."""
        # A pass asks this of every job and entry: most entries ask for one or two fields.
        for name, text in _TEXTS.items():
            patterns = getattr(self, name)
            if patterns != ANY and not matches_any(text(job), patterns):
                return False
        if self.label != ANY and not has_label(job.labels, self.label):
            return False
        return self.model == ANY or any(matches_any(gpu.model, self.model) for gpu in job.gpus)


_TEXTS: Mapping[str, Callable[[Job], str]] = {
    "workload": lambda job: workload_of(job.id, job.cluster),
    "job_name": attrgetter("name"),
    **{
        name: attrgetter(name)
        for name in ("user", "account", "partition", "qos", "namespace", "cluster", "scheduler", "owner")
    },
}
"""Where a job has the text that each field is compared with."""


class KindMatch(JobMatch):
    """Jobs of this kind; the first match counts."""

    kind: JobKind
    """What such jobs are."""


def kind_of(job: Job, kinds: Iterable[KindMatch]) -> JobKind | None:
    """The kind that the configuration gives a job; None where no entry is about it."""
    return next((match.kind for match in kinds if match.matches_job(job)), None)


def has_label(labels: Mapping[str, str], patterns: str | tuple[str, ...]) -> bool:
    """Whether one of the labels matches the pattern `name=pattern`, or one of them."""
    return patterns == ANY or any(_has(labels, wanted) for wanted in _listed(patterns))


def _has(labels: Mapping[str, str], wanted: str) -> bool:
    name, _, pattern = wanted.partition("=")
    if not _WILD.search(name):
        # Most names are no patterns, and a pass asks this of every pod.
        return name in labels and fnmatchcase(labels[name], pattern)
    return any(fnmatchcase(label, name) and fnmatchcase(value, pattern) for label, value in labels.items())
