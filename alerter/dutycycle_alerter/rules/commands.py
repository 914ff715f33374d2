"""Exact command lines that would confirm a cause on a running job.

What comes from outside (job ids) is quoted for the shell; nothing else of the job enters a command.
"""

from __future__ import annotations

import shlex

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import Job

_PROFILE = "nsys profile --trace=cuda,nvtx,osrt --delay=60 --duration=60 --output=profile python train.py"


def confirm(job: Job, causes: tuple[Cause, ...]) -> tuple[str, ...]:
    """Commands for the owner, in the order of use; those of Slurm and Kubernetes only for their jobs."""
    commands = list(_look(job))
    if Cause.NO_PROCESS in causes or Cause.IDLE_NOTEBOOK in causes:
        commands += _end(job)
    if {Cause.CPU_ONLY, Cause.DATA_LOADING, Cause.COMMUNICATION} & set(causes):
        commands.append("py-spy dump --pid PID  # what the program waits for right now")
    if {Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK, Cause.CHECKPOINT} & set(causes):
        commands.append(_PROFILE)
    return tuple(commands)


def _look(job: Job) -> tuple[str, ...]:
    if job.scheduler == "slurm" and job.job_id:
        return (f"srun --jobid={shlex.quote(job.job_id)} --overlap --pty nvidia-smi",)
    if job.scheduler == "k8s" and job.pod:
        return (f"kubectl exec -n {shlex.quote(job.namespace)} {shlex.quote(job.pod)} -- nvidia-smi",)
    return ("nvidia-smi",)


def _end(job: Job) -> tuple[str, ...]:
    if job.scheduler == "slurm" and job.job_id:
        return (f"scancel {shlex.quote(job.job_id)}",)
    if job.scheduler == "k8s" and job.pod:
        return (f"kubectl delete pod -n {shlex.quote(job.namespace)} {shlex.quote(job.pod)}",)
    return ()
