"""Everything that can be set, as one value: what the command line, the environment and the file come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from dutycycle_exporter.collected import COLLECTED

SWITCHES: Mapping[str, tuple[bool, str]] = {
    **COLLECTED,
    "host": (True, "CPU time, limit and pressure of a workload's cgroup."),
}
"""Collectors that `--collect.NAME` switches: whether they are on by default, and what they give."""

COMPATIBLE = ("dcgm",)
"""Exporters under whose names measurements can be shown too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One field for each option, durations in seconds as they were given, not yet divided by the time scale."""

    listen: str
    web_config: Path | None
    node_name: str
    cluster: str
    sample_interval: float
    series_hold: float
    collect: frozenset[str]
    """Names of `SWITCHES` that are on."""
    compat: tuple[str, ...]
    """Names of `COMPATIBLE`."""
    prolog_dir: Path
    job_mapping_dir: Path | None
    kubernetes: bool
    kubernetes_socket: Path
    kubernetes_container_logs: Path
    kubernetes_resources: tuple[str, ...]
    """Globs over resource names."""
    kubernetes_pod_labels: tuple[str, ...]
    kubernetes_user_annotation: str
    kubernetes_user_label: str
    kubernetes_slurm_labels: tuple[str, ...]
    """Each `label=glob`."""
    kubernetes_api: bool
    local: bool
    procfs: Path
    cgroup: Path
    sysfs: Path
    nvml_timeout: float
    release_timeout: float
    time_scale: float
    replay: Path | None
    replay_node: str
    replay_epoch: float | None
    log_level: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From click's values; those that no field has (`probe`) are left out."""
        collect = frozenset(name for name in SWITCHES if values[f"collect_{name}"])
        own = {field.name: values[field.name] for field in fields(cls) if field.name != "collect"}
        return cls(collect=collect, **own)


FIXED = frozenset(
    {
        *("listen", "web_config", "node_name", "procfs", "cgroup", "sysfs"),
        *("kubernetes", "kubernetes_socket", "kubernetes_container_logs", "kubernetes_api"),
        *("time_scale", "replay", "replay_node", "replay_epoch"),
    }
)
"""Fields that hold from the start to the end of the process; all others can be changed while it runs."""


def changed(before: Settings, after: Settings) -> frozenset[str]:
    """The names of the fields that differ."""
    return frozenset(
        field.name for field in fields(Settings) if getattr(before, field.name) != getattr(after, field.name)
    )


def reloaded(before: Settings, after: Settings) -> Settings:
    """What holds after a reload: `after`, but for the fields that need a restart."""
    return replace(after, **{name: getattr(before, name) for name in FIXED})
