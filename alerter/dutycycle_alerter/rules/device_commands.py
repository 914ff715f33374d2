"""Exact command lines for operators: look at a GPU, keep new work off its node, reset it, test it.

What comes from outside (names of nodes, ids of GPUs) is quoted for the shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection

from dutycycle_alerter.model import Gpu


def look(gpu: Gpu, *sections: str) -> str:
    """What the driver says of a GPU, in `nvidia-smi`'s sections."""
    return f"nvidia-smi -q -d {','.join(sections)} -i {_id(gpu)}"


def kernel_log() -> str:
    """The driver's own words on every XID."""
    return "dmesg -T | grep -i -e xid -e nvrm"


def count_on_bus() -> str:
    """What the PCI bus shows, to be compared with `nvidia-smi -L`."""
    return "lspci -d 10de: && nvidia-smi -L"


def links(gpu: Gpu) -> str:
    """Error counters of each NVLink."""
    return f"nvidia-smi nvlink -e -i {_id(gpu)}"


def who_uses(gpu: Gpu) -> tuple[str, ...]:
    """Processes as the driver sees them, and as the kernel does: a dead one's children may still hold the device."""
    fields = "pid,process_name,used_memory"
    return f"nvidia-smi --query-compute-apps={fields} --format=csv -i {_id(gpu)}", "fuser -v /dev/nvidia*"


def keep_work_off(node: str, reason: str, schedulers: Collection[str]) -> tuple[str, ...]:
    """No new job on the node, by each scheduler that there is; where none is known, by either."""
    commands = {
        "slurm": f"scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={shlex.quote(reason)}",
        "k8s": f"kubectl cordon {shlex.quote(node)}",
    }
    return tuple(text for name, text in commands.items() if name in schedulers) or tuple(commands.values())


def reset(gpu: Gpu) -> str:
    """Only once no process is on it, nor on those that it is linked with; whatever watches GPUs by NVML is one."""
    return f"nvidia-smi --gpu-reset -i {_id(gpu)}  # when no process uses it, dutycycle-exporter included"


def diagnose(gpu: Gpu) -> str:
    """NVIDIA's own test, where DCGM is installed; it takes minutes and needs the GPU for itself."""
    return f"dcgmi diag -r 2 -i {shlex.quote(gpu.index or '0')}  # on the idle GPU"


def _id(gpu: Gpu) -> str:
    return shlex.quote(gpu.uuid or gpu.index)
