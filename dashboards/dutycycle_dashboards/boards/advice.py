"""What to try about each cause that findings can name: the first steps, in a line each."""

from __future__ import annotations

from dutycycle_dashboards.boards.incidents import CAUSES
from dutycycle_dashboards.building.graphs import text
from dutycycle_dashboards.building.panel import Panel

STEPS = {
    "no process": "Cancel the job if nothing will start in it; set up and download in a job without GPUs.",
    "idle notebook": "Save and shut the kernel down; explore on a MIG slice or a smaller GPU.",
    "CPU-only code": "Check `torch.cuda.is_available()` and `.to('cuda')`; run CPU work in a job without GPUs.",
    "host work between GPU phases": "Compile, tokenise and simulate in a job without GPUs, or beside the GPUs' work.",
    "data loading": "Raise `num_workers`, pin memory, prefetch; copy data to the node; pack small files into shards.",
    "small work per step": "Raise the batch size; no `.item()` or print in a step; `torch.compile`; or a smaller GPU.",
    "memory-bound": "Mixed precision and fused kernels (FlashAttention, `torch.compile`); larger batches.",
    "communication or straggler": "Compare the ranks for one that lags; larger gradient buckets; one full node.",
    "checkpoint or evaluation pauses": "Save asynchronously or less often, to local disk first; evaluate apart.",
    "hang": "Dump the stacks of every rank, then cancel; set a collective time-out.",
    "throttling": "Nothing in the job causes it: tell the operators.",
    "over-request": "One process per GPU (`torchrun --nproc-per-node`), or ask for as many GPUs as are used.",
    "fault": "Checkpoint, and tell the operators.",
}
"""What to try first, by cause; the alerter's page has all of it, with the commands."""


_PAGE = "[the alerter's page](${alerter:raw}/?user=${person:percentencode})"


def advice() -> Panel:
    """A text for the one whose jobs have incidents."""
    rows = [f"| {name} | {STEPS[cause]} |" for cause, name in CAUSES.items()]
    return text(
        "What to try",
        "The first steps for each cause. What was measured, the whole advice and commands are on the incident's page.",
        "\n".join(
            (
                f"The evidence, the whole advice and commands are on {_PAGE}.",
                "",
                "| cause | what to try first |",
                "| --- | --- |",
                *rows,
            )
        ),
        height=14,
    )
