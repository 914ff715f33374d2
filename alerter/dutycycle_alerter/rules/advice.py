"""What to do about each cause, and how to tell apart causes between which the evidence does not decide."""

from __future__ import annotations

from collections.abc import Collection

from dutycycle_alerter.incidents.model import NOTHING_WORKS, Cause

_RANKS = (
    (
        "Compare the ranks: one slow rank makes all others wait. Look for one GPU, node or loader that lags, "
        "and for uneven shards or sequence lengths."
    ),
    (
        "Overlap communication with computation: larger gradient buckets (DDP bucket_cap_mb), "
        "gradient accumulation with no_sync(), FSDP prefetch."
    ),
    "Check that NCCL uses the fast network (NCCL_DEBUG=INFO); prefer one full node over pieces of several.",
)
_COLLECTIVES = (
    "Set a collective time-out (init_process_group timeout=) so that a hang ends the job.",
    (
        "For the next time, let PyTorch's flight recorder write a file for each rank when a collective times out: "
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/shared/rank_ "
        "(PyTorch 2.5 and later; newer ones call the first TORCH_FR_BUFFER_SIZE, the last TORCH_FR_DUMP_TEMP_FILE)."
    ),
)
_OF_SEVERAL = frozenset({*_RANKS, *_COLLECTIVES})
_CANCEL = "Cancel it once the stacks are saved: what hangs does not recover, and holds its GPUs until its time limit."

ADVICE: dict[Cause, tuple[str, ...]] = {
    Cause.NO_PROCESS: (
        "Cancel the job if nothing will start in it any more: an allocation lasts until its time limit, used or not.",
        (
            "Check the log: the program may have failed, or may still be installing or downloading. "
            "Do that in a job without GPUs first."
        ),
        "Chain steps with job dependencies (sbatch --dependency=afterok:ID) instead of holding GPUs between them.",
    ),
    Cause.IDLE_NOTEBOOK: (
        (
            "Save your work and end the process: an open notebook holds its GPUs until its kernel stops, "
            "a batch job until what its script started has ended."
        ),
        "For exploration, ask for a MIG slice or a smaller GPU with a time limit; keep whole GPUs for batch runs.",
        "Let the server cull idle kernels (Jupyter: MappingKernelManager.cull_idle_timeout).",
    ),
    Cause.CPU_ONLY: (
        (
            "The program computes on the CPU. Check that it sees a GPU: "
            "python -c 'import torch; print(torch.cuda.is_available())'."
        ),
        "A framework built without CUDA, or a model and batches never moved with .to('cuda'), look exactly like this.",
        "If it is CPU work (preprocessing, tokenising, evaluation metrics), run it in a job without GPUs.",
    ),
    Cause.HOST_WORK: (
        "Move what the CPUs do before the GPUs can work (tokenising, simulation) to a job of its own without GPUs.",
        "Keep what is compiled: set TORCHINDUCTOR_CACHE_DIR or JAX_COMPILATION_CACHE_DIR to a directory that stays.",
        "Let the CPUs work on the next step while the GPUs work on this one, and ask for more CPU cores.",
    ),
    Cause.DATA_LOADING: (
        (
            "Raise DataLoader num_workers towards the job's CPU cores, with pin_memory=True, persistent_workers=True "
            "and prefetch_factor of 2 to 4."
        ),
        "Ask for more CPU cores per GPU if the workers use all of theirs.",
        "Copy the data set to node-local disk or memory at the start of the job, or cache decoded samples.",
        (
            "Pack small files into shards (WebDataset, TFRecord, Parquet, LMDB): "
            "reading many small files is what a shared file system does worst."
        ),
        "Decode and augment on the GPU (DALI, torchvision v2 transforms), or once, ahead of time.",
    ),
    Cause.COMMUNICATION: _RANKS,
    Cause.SMALL_WORK: (
        (
            "Raise the batch size step by step while throughput rises and GPU memory is not full, and adapt the "
            "learning rate: a larger batch trains differently. "
            "Where memory is the limit, use gradient accumulation or activation checkpointing."
        ),
        (
            "Take the host out of the step: no .item(), print or metric computation per step, keep data on the GPU, "
            "capture the step with torch.compile or CUDA graphs."
        ),
        "Use mixed precision (bf16) once the GPU is the limit, not before: it makes short kernels shorter.",
        "If the model stays this small, take a MIG slice or a smaller GPU, or run several processes on one with MPS.",
    ),
    Cause.MEMORY_BOUND: (
        "Use mixed precision and fused kernels (torch.compile, FlashAttention): the memory bus is the limit.",
        "Raise the arithmetic per byte: larger batches, channels-last layout, no needless copies.",
        "Where capacity is the limit: activation checkpointing, sharded optimizer states (FSDP, ZeRO).",
    ),
    Cause.CHECKPOINT: (
        "Save checkpoints asynchronously (torch.distributed.checkpoint.async_save) or less often, to local disk first.",
        "Evaluate less often, on a sample, in larger batches, or in a job of its own.",
    ),
    Cause.HANG: (
        "Dump the stacks before you cancel; with several ranks, look at the one that differs from the others.",
        *_COLLECTIVES,
        _CANCEL,
    ),
    Cause.THROTTLING: ("The hardware slows the GPU down; nothing in the job causes it. Tell the operators.",),
    Cause.OVER_REQUEST: (
        (
            "Ask for as many GPUs as the program uses: to use several it needs one process per GPU "
            "(torchrun --nproc-per-node, accelerate launch)."
        ),
        "If it is meant to use all: check the launch command and CUDA_VISIBLE_DEVICES in every process.",
    ),
    Cause.FAULT: ("The GPU reports an error. Checkpoint and let the operators drain the node.",),
}
"""Steps for the owner of the job, most useful first (ICSE'24: few changes fixed 85 % of low-utilization issues)."""

SIGNS: dict[Cause, str] = {
    Cause.NO_PROCESS: "no process: nvidia-smi inside the job lists none",
    Cause.IDLE_NOTEBOOK: (
        "idle notebook or process holding memory: its stack waits for input or for requests, "
        "or the log says that its work is done"
    ),
    Cause.CPU_ONLY: "CPU-only code: the process uses CPU all the time, and nvidia-smi does not list it",
    Cause.HOST_WORK: (
        "host work between GPU phases: its stack shows a compiler, a tokenizer, a simulator or a metric at work, "
        "and the GPUs work again afterwards"
    ),
    Cause.DATA_LOADING: "data loading: with one cached batch fed again and again, utilization rises",
    Cause.COMMUNICATION: "communication or straggler: alone on one GPU, utilization rises",
    Cause.SMALL_WORK: "small work per step: with twice the batch size, a step takes hardly longer",
    Cause.CHECKPOINT: (
        "checkpoint or evaluation: the pauses, or the times of little work, come at a fixed period, "
        "and the log names them"
    ),
    Cause.OVER_REQUEST: "over-request: the idle GPUs have no process, or one that never launches a kernel",
    Cause.MEMORY_BOUND: "memory-bound: in a kernel profile memory throughput is high and tensor cores wait for it",
    Cause.HANG: (
        "hang: the log stops in the middle of its work, two stack dumps a minute apart are the same, "
        "and with several ranks, the stack of one differs from all others"
    ),
    Cause.THROTTLING: "throttling: nvidia-smi -q -d PERFORMANCE names heat or a brake as the reason for its clocks",
    Cause.FAULT: "fault: the kernel log of the node has an XID for the GPU",
}
"""What each cause looks like, to whoever has to choose between several."""


def steps(causes: Collection[Cause], *, gpus: int) -> list[str]:
    """The steps of each cause for a job that holds so many GPUs: one GPU has no ranks that could wait for others."""
    left_out = set(_OF_SEVERAL if gpus == 1 else ())
    if not may_end(causes):
        left_out.add(_CANCEL)
    return [step for cause in causes for step in ADVICE[cause] if step not in left_out]


def may_end(causes: Collection[Cause]) -> bool:
    """Whether a job is one to end by any of its causes: by none of them does it work, on some of its GPUs or slowly."""
    return (NOTHING_WORKS - {Cause.HOST_WORK}).issuperset(causes)


def tell_apart(causes: tuple[Cause, ...]) -> str:
    """How to settle a hesitation; empty where one cause is named."""
    if len(causes) < 2:
        return ""
    return "; ".join(SIGNS[cause] for cause in causes) + "."
