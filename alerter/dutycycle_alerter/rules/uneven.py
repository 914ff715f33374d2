"""`uneven`: GPUs or nodes of a job that work much less than others."""

from __future__ import annotations

from collections import defaultdict

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import Gpu, JobKind, WindowEvidence
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.verdict import Outcome, Verdict


def judge_uneven(case: Case, *, partially_idle: bool) -> Verdict:
    """1 - min/max over the job's GPUs, or over its nodes' means where it has several, with the busiest clearly at work.

    Does not open on a job that is partially idle (that says it better) or that declared its ranks different by design.
    """
    rule, settings = "uneven", case.settings.rules.uneven
    if case.job.kind is not JobKind.BATCH or len(case.job.gpus) < 2 or case.job.expect_uneven:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    window = case.window(settings.window)
    values = case.utilizations(settings.window)
    # Means of nodes lie between the values of their GPUs: where nodes are this far apart, GPUs are.
    spread = 1 - min(values) / max(values) if max(values) > 0 else 0.0
    figures = {"spread": spread, "busiest_utilization": max(values), "slowest_utilization": min(values)}
    if spread < settings.clear_spread:
        return Verdict(rule, Outcome.CLEAR, settings.window, figures=figures)
    nearly = _behind(case, window, values, settings.clear_spread)
    if spread >= settings.spread and max(values) >= settings.busiest_at_least and not partially_idle:
        behind = _behind(case, window, values, settings.spread)
        return Verdict(rule, Outcome.FIRING, settings.window, Severity.WARNING, behind, figures, nearly=nearly)
    return Verdict(rule, Outcome.HOLDING, settings.window, gpus=nearly, figures=figures)


def _node_means(case: Case, window: WindowEvidence) -> dict[str, float]:
    """Mean utilization of each node's GPUs, weighted by measured time."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for gpu, usage in zip(case.job.gpus, window.gpus, strict=True):
        sums[gpu.node][0] += min(usage.busy, usage.observed)
        sums[gpu.node][1] += usage.observed
    return {node: busy / observed for node, (busy, observed) in sums.items()}


def _behind(case: Case, window: WindowEvidence, values: list[float], spread: float) -> tuple[Gpu, ...]:
    """The GPUs that lag: far below the busiest GPU, or on a node far below the busiest node."""
    by_node = _node_means(case, window)
    gpu_bound, node_bound = (1 - spread) * max(values), (1 - spread) * max(by_node.values())
    return tuple(
        gpu
        for gpu, value in zip(case.job.gpus, values, strict=True)
        if value <= gpu_bound or by_node[gpu.node] <= node_bound
    )
