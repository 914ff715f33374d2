"""The command's options, in the order of its help: name, type, default and meaning of everything that can be set."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import click

from dutycycle_exporter import config_file
from dutycycle_exporter.parameters import Duration, Finite, Names, PathName, Text
from dutycycle_exporter.settings import COMPATIBLE, SWITCHES

PREFIX = "DUTYCYCLE_EXPORTER"

_FLAGS: dict[str, str] = {}
"""By the names of the fields that they set; filled where the options are made."""
_DURATION = Duration()
_NAMES = Names()
_DIRECTORY = PathName(file_okay=False)
_FILE = PathName(dir_okay=False)


def variable(flag: str) -> str:
    """The environment variable of a flag: that of --sample-interval is DUTYCYCLE_EXPORTER_SAMPLE_INTERVAL."""
    return f"{PREFIX}_{re.sub(r'[^a-z0-9]', '_', flag.removeprefix('--')).upper()}"


def flag(field: str) -> str:
    """The flag of a field of `Settings`; of `collect`, where there are many, what they have in common."""
    return "--collect" if field == "collect" else _FLAGS[field]


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a function every option of `Settings`, and `--config.file`."""
    for option in reversed(list(_options())):
        command = option(command)
    return command


def _option(flag: str, field: str, **attributes: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    positive = flag.partition("/")[0]
    _FLAGS[field] = positive
    attributes.setdefault("show_default", attributes.get("default") not in (None, ""))
    return click.option(flag, field, envvar=variable(positive), **attributes)


def _switch(flag: str, field: str, **attributes: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    shown = "on" if attributes["default"] else "off"
    return _option(f"--{flag}/--no-{flag}", field, show_default=shown, **attributes)


def _options() -> Iterator[Callable[[Callable[..., None]], Callable[..., None]]]:
    yield _option(
        "--config.file",
        "config_path",
        type=_FILE,
        is_eager=True,
        expose_value=False,
        callback=config_file.defaults,
        help="Any of these options in YAML, by the names of their flags. Read again at SIGHUP.",
    )
    yield _option(
        "--web.listen-address",
        "listen",
        metavar="[HOST]:PORT",
        default=":9836",
        help="Where to serve /metrics.",
    )
    yield _option(
        "--web.config.file",
        "web_config",
        type=_FILE,
        help="TLS, client certificates and users, in the format of Prometheus' exporters.",
    )
    yield _option(
        "--node-name",
        "node_name",
        type=Text(),
        default=socket.gethostname,
        show_default="host name",
        help="Label `node`; in Slurm the node's name there.",
    )
    yield _option("--cluster", "cluster", type=Text(), default="", help="Label `cluster` of ownership series.")
    yield _option(
        "--sample-interval",
        "sample_interval",
        type=_DURATION,
        default="5s",
        help="How often NVML is read; its own buffer holds 10 to 16 s: over 10s some time is not measured.",
    )
    yield _option(
        "--series-hold",
        "series_hold",
        type=_DURATION,
        default="30s",
        help="How long a new ownership series stays at 0, and an ended one at its final value once slow counters were "
        "read again: two scrape intervals.",
    )
    for name, (default, about) in SWITCHES.items():
        yield _switch(f"collect.{name}", f"collect_{name}", default=default, help=about)
    yield _option(
        "--compat",
        "compat",
        type=Names(*COMPATIBLE),
        default="",
        metavar="dcgm",
        help="Show measurements under the names of this exporter, too.",
    )
    yield from _attribution()
    yield from _paths()
    yield from _running()


def _attribution() -> Iterator[Callable[[Callable[..., None]], Callable[..., None]]]:
    yield _option(
        "--slurm.prolog-dir",
        "prolog_dir",
        type=_DIRECTORY,
        default="/run/dutycycle/slurm",
        help="Files that the Slurm prolog writes, one per GPU.",
    )
    yield _option(
        "--slurm.job-mapping-dir",
        "job_mapping_dir",
        type=_DIRECTORY,
        help="Files as dcgm-exporter's HPC job mapping has them, one per GPU.",
    )
    yield _switch(
        "kubernetes", "kubernetes", default=True, help="Ask the kubelet whose the GPUs are, where there is one."
    )
    yield _option(
        "--kubernetes.socket",
        "kubernetes_socket",
        type=PathName(),
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
        help="The kubelet's pod-resources socket.",
    )
    yield _option(
        "--kubernetes.container-logs",
        "kubernetes_container_logs",
        type=_DIRECTORY,
        default="/var/log/containers",
        help="The kubelet's links to the logs of containers, which tell pods' uids; no log is read.",
    )
    yield _option(
        "--kubernetes.resources",
        "kubernetes_resources",
        type=_NAMES,
        default="nvidia.com/gpu,nvidia.com/gpu.shared,nvidia.com/mig-*",
        metavar="GLOB,...",
        help="Resources whose devices are GPUs.",
    )
    yield _option(
        "--kubernetes.pod-labels",
        "kubernetes_pod_labels",
        type=_NAMES,
        default="",
        metavar="LABEL,...",
        help="Labels of pods to show; needs the API.",
    )
    yield _option(
        "--kubernetes.user-annotation",
        "kubernetes_user_annotation",
        default="dutycycle.io/user",
        metavar="ANNOTATION",
        help="The pod's annotation that names its user; needs the API.",
    )
    yield _option(
        "--kubernetes.user-label",
        "kubernetes_user_label",
        default="",
        metavar="LABEL",
        help="The pod's label that names its user; needs the API.",
    )
    yield _option(
        "--kubernetes.slurm-labels",
        "kubernetes_slurm_labels",
        type=_NAMES,
        default="app.kubernetes.io/name=slurmd,app.kubernetes.io/name=[sS]lurm[cC]luster,slurm.nebius.ai/worker=true",
        metavar="LABEL=GLOB,...",
        help="Pods with one of these labels run slurmd: a Slurm job on their GPU holds it alone; needs the API.",
    )
    yield _switch(
        "kubernetes.api",
        "kubernetes_api",
        default=False,
        help="Ask the API server for this node's pods: their labels, annotations, owners and end.",
    )
    yield _switch(
        "attribution.local", "local", default=False, help="Without a scheduler, the process group is the job."
    )


def _paths() -> Iterator[Callable[[Callable[..., None]], Callable[..., None]]]:
    for name, default, about in (
        ("procfs", "/proc", "proc"),
        ("cgroup", "/sys/fs/cgroup", "the cgroup tree"),
        ("sysfs", "/sys", "sysfs"),
    ):
        yield _option(f"--path.{name}", name, type=_DIRECTORY, default=default, help=f"Mount point of {about}.")


def _running() -> Iterator[Callable[[Callable[..., None]], Callable[..., None]]]:
    yield _option(
        "--nvml.timeout",
        "nvml_timeout",
        type=_DURATION,
        default="20s",
        help="How long a read of NVML may take before its process is replaced.",
    )
    yield _option(
        "--nvml.release-timeout",
        "release_timeout",
        type=_DURATION,
        default="10m",
        help="How long NVML stays released at most after SIGUSR1.",
    )
    yield _option(
        "--time-scale",
        "time_scale",
        type=Finite(min=0, min_open=True, max=3600),
        default=1.0,
        help="Divides every duration; for tests and replays.",
    )
    yield _option("--replay", "replay", type=_FILE, help="Play this recording instead of reading NVML.")
    yield _option(
        "--replay.node",
        "replay_node",
        default="",
        help="Which of the recording's nodes; needed where it has several.",
    )
    yield _option(
        "--replay.epoch",
        "replay_epoch",
        type=Finite(min=0),
        help="Unix time at which the recording begins; now by default.",
    )
    yield _option(
        "--log-level",
        "log_level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        help="How much is logged to stderr.",
    )
