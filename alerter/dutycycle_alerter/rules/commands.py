"""Exact command lines for the owner of a job: to look into it, to end it, to profile its next run.

What comes from outside (job ids, names of users and pods) is quoted for the shell; nothing else of the job enters a
command.
"""

from __future__ import annotations

import shlex

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import Job
from dutycycle_alerter.rules.advice import may_end
from dutycycle_alerter.rules.kubectl import end_object

# Without --kill=none the program is ended with the collection (Nsight Systems' user guide).
_NSYS = "nsys profile --trace=cuda,nvtx,osrt --delay=60 --duration=60 --kill=none"
_PYTORCH = (
    # Without repeat=1 it traces 10 of every 25 steps until the run ends, each time into a new file.
    "with torch.profiler.profile(schedule=torch.profiler.schedule(wait=10, warmup=5, active=10, repeat=1), "
    'on_trace_ready=torch.profiler.tensorboard_trace_handler("trace")) as profiler: '
    "...  # PyTorch: around the training loop, with profiler.step() after each step"
)
_TENSORFLOW = (
    'tf.keras.callbacks.TensorBoard("trace", profile_batch=(10, 20))  # TensorFlow: as a callback of model.fit; '
    "then: tensorboard --logdir trace"
)
# Of whoever runs it in a pod; on a node of Slurm an operator may, who is not the job's user.
_WHOEVER_RUNS_IT = '"$(id -u)"'

_LOOK_AT_CODE = {Cause.CPU_ONLY, Cause.HOST_WORK, Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.HANG}
_PROFILE = {Cause.DATA_LOADING, Cause.COMMUNICATION, Cause.SMALL_WORK, Cause.MEMORY_BOUND, Cause.CHECKPOINT}


def confirm(job: Job, causes: tuple[Cause, ...], *, ended: bool = False) -> tuple[str, ...]:
    """Commands for the owner, in the order of use; those of Slurm and Kubernetes only for their jobs, and none that
    needs a running job where it has ended.
    """
    named = set(causes)
    if ended:
        return _account(job)
    commands = [_inside(job, "nvidia-smi")]
    if Cause.THROTTLING in named:
        commands.append(_inside(job, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"))
    if _LOOK_AT_CODE & named:
        commands.append(_stacks(job))
    if {Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.HANG} & named and may_end(named):
        commands += _end(job)
    if _PROFILE & named:
        commands += (_nsys(job), _PYTORCH, _TENSORFLOW)
    return tuple(commands)


def _inside(job: Job, command: str, *, in_shell: bool = False) -> str:
    """The command as it is run where the job runs: on each of its nodes, or in its pod."""
    if job.scheduler == "slurm" and job.job_id:
        step = "--pty " if len(job.nodes) == 1 and not in_shell else f"--nodes={len(job.nodes)} --ntasks-per-node=1 "
        # What several nodes write runs together: each line with the number of its node.
        step = f"--label {step}" if len(job.nodes) > 1 else step
        within = f"sh -c {shlex.quote(command)}" if in_shell else command
        return f"srun --jobid={shlex.quote(job.job_id)} --overlap {step}{within}"
    if job.scheduler == "k8s" and job.pod:
        within = f"sh -c {shlex.quote(command)}" if in_shell else command
        return f"kubectl exec -n {shlex.quote(job.namespace)} {shlex.quote(job.pod)} -- {within}"
    return command


def _stacks(job: Job) -> str:
    """Stacks of all its Python processes, shown and added to a file; of several nodes, each under its node's name."""
    several = job.scheduler == "slurm" and len(job.nodes) > 1
    user = shlex.quote(job.user) if job.scheduler == "slurm" and job.user else _WHOEVER_RUNS_IT
    dump = f'for pid in $(pgrep -u {user} python); do py-spy dump --pid "$pid"; done'
    line = _inside(job, f"hostname; {dump}" if several else dump, in_shell=True)
    pods = {gpu.pod for gpu in job.gpus if gpu.pod}
    hint = "  # once for each pod: this is the first" if len(pods) > 1 else ""
    return f"{line} | tee -a stacks.txt{hint}"


def _nsys(job: Job) -> str:
    """Nsight Systems does not attach to a process: it starts the program, one report a rank."""
    if job.scheduler == "slurm":
        return f"srun {_NSYS} --output=profile-%q{{SLURM_JOB_ID}}-%q{{SLURM_PROCID}} python train.py"
    return f"{_NSYS} --output=profile-%h-%p python train.py"


def _end(job: Job) -> tuple[str, ...]:
    if job.scheduler == "slurm" and job.job_id:
        return (f"scancel {shlex.quote(job.job_id)}",)
    if job.scheduler == "k8s" and job.pod:
        return (end_object(job),)
    return ()


def _account(job: Job) -> tuple[str, ...]:
    if job.scheduler == "slurm" and job.job_id:
        fields = "JobID,State,Elapsed,Timelimit,AllocCPUS,TotalCPU,ReqMem,MaxRSS"
        return (f"sacct --jobs={shlex.quote(job.job_id)} --format={fields}",)
    return ()
