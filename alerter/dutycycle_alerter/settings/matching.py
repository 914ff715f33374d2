"""Which jobs a part of the configuration is about."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from dutycycle_alerter.model import JobKind
from dutycycle_alerter.settings.types import Section


class JobMatch(Section):
    """Jobs of which every field matches the given shell-style pattern."""

    workload: str = "*"
    """Pattern of the job's id, such as `slurm/12*`."""
    user: str = "*"
    """Pattern of its user."""
    account: str = "*"
    """Pattern of its account."""
    partition: str = "*"
    """Pattern of its Slurm partition."""
    namespace: str = "*"
    """Pattern of its Kubernetes namespace."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a job with these labels is meant."""
        return all(fnmatchcase(labels.get(name, ""), getattr(self, name)) for name in JobMatch.model_fields)


class KindMatch(JobMatch):
    """Jobs of this kind; the first match counts."""

    kind: JobKind
    """What such jobs are."""
