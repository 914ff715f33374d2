"""Jobs as slurmctld tells them: `/slurm/VERSION/jobs` and `squeue --json`, from 21.08 to the present shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dutycycle_alerter.slurm.fields import Fields
from dutycycle_alerter.slurm.gres import gpu_types_in, gpus_in, parse_gres, parse_tres, requested_gpus
from dutycycle_alerter.slurm.hostlist import expand, numbers
from dutycycle_alerter.slurm.model import ExitCode, JobState, NodeGpus, SlurmJob
from dutycycle_alerter.slurm.states import exit_code, job_state

MINUTE = 60.0


def read_job(fields: Fields) -> SlurmJob | None:
    """One job; None without an id and a state, because nothing else is worth anything then."""
    number = fields.number("job_id")
    states = fields.words("job_state")
    if not number or not states:
        fields.wrong()
        return None
    state = job_state(states)
    nodes = fields.parsed(expand, "nodes") or ()
    requested, allocated = _tres(fields, "tres_req_str"), _tres(fields, "tres_alloc_str")
    held = _held(fields, nodes)
    array = fields.number("array_job_id") or None
    het = fields.number("het_job_id") or None
    limit = fields.number("time_limit")
    # What waits has an expected start, what runs an expected end.
    begun = state is not JobState.PENDING
    ended = state is JobState.ENDED
    return SlurmJob(
        id=number,
        state=state,
        states=states,
        array_job_id=array,
        array_task_id=fields.number("array_task_id") if array else None,
        het_job_id=het,
        het_job_offset=fields.number("het_job_offset") if het else None,
        cluster=fields.text("cluster"),
        user=fields.text("user_name"),
        account=fields.text("account"),
        partition=fields.text("partition"),
        qos=fields.text("qos"),
        name=fields.text("name"),
        comment=fields.text("comment"),
        reason=fields.text("state_reason"),
        submit=fields.time("submit_time"),
        eligible=fields.time("eligible_time"),
        start=fields.time("start_time") if begun else None,
        end=fields.time("end_time") if ended else None,
        suspended=fields.time("suspend_time"),
        limit=None if limit is None else limit * MINUTE,
        nodes=nodes,
        gpus=held,
        gpus_allocated=_gpus_allocated(held, allocated) if begun else None,
        gpus_requested=_gpus_requested(fields, requested),
        gpu_types=_types(held) or gpu_types_in(allocated),
        cpus_requested=requested.get("cpu"),
        cpus_allocated=allocated.get("cpu"),
        memory_requested=requested.get("mem"),
        memory_allocated=allocated.get("mem"),
        exit_code=exit_code(fields, "exit_code", states) if ended else ExitCode(),
        batch=fields.flag("batch_flag"),
        restarts=fields.number("restart_cnt", wide=False),
        tasks=_tasks(fields) if state is JobState.PENDING else 1,
    )


def _tres(fields: Fields, name: str) -> Mapping[str, int]:
    return fields.parsed(parse_tres, name) or {}


def _held(fields: Fields, nodes: tuple[str, ...]) -> Mapping[str, tuple[NodeGpus, ...]]:
    """The GPUs on each node: the texts in `gres_detail` belong to the nodes in their order, one to each."""
    details = fields.texts("gres_detail")
    if not details:
        return {}
    names = _allocated_nodes(fields.part("job_resources")) or nodes
    if len(names) != len(details):
        fields.wrong("gres_detail")
        return {}
    try:
        return {name: gpus for name, text in zip(names, details, strict=True) if (gpus := _node_gpus(text))}
    except ValueError:
        fields.wrong("gres_detail")
        return {}


def _allocated_nodes(resources: Fields) -> tuple[str, ...]:
    """From v0.0.40 on `job_resources.nodes` is an object, before it is a text beside a list of nodes."""
    if resources.kind("nodes") is dict:
        listed = [node.text("name") for node in resources.part("nodes").parts("allocation")]
    elif resources.kind("allocated_nodes") is list:
        listed = [node.text("nodename") for node in resources.parts("allocated_nodes")]
    else:
        return ()
    return tuple(listed) if all(listed) else ()


def _node_gpus(text: str) -> tuple[NodeGpus, ...]:
    return tuple(NodeGpus(gres.count, gres.type, gres.indexes) for gres in parse_gres(text) if gres.count)


def _types(held: Mapping[str, tuple[NodeGpus, ...]]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for gpus in held.values():
        for part in gpus:
            if part.type:
                found[part.type] = found.get(part.type, 0) + part.count
    return found


def _gpus_allocated(held: Mapping[str, tuple[NodeGpus, ...]], allocated: Mapping[str, int]) -> int | None:
    """What the nodes list is the truth; a site's TRES need not count GPUs."""
    if held:
        return sum(part.count for gpus in held.values() for part in gpus)
    return gpus_in(allocated)


def _gpus_requested(fields: Fields, requested: Mapping[str, int]) -> int | None:
    """Return the GPUs in the TRES, else those requested per job, node, socket or task; None where they are unknown."""
    counted = gpus_in(requested)
    if counted is not None:
        return counted
    for name, *times in (
        ("tres_per_job",),
        ("tres_per_node", "node_count"),
        ("tres_per_socket", "node_count", "sockets_per_node"),
        ("tres_per_task", "tasks"),
    ):
        if not fields.text(name):
            continue
        asked = fields.parsed(requested_gpus, name)
        if asked is None:
            return None
        if asked:
            factors = [fields.number(one, wide=one != "sockets_per_node") for one in times]
            return asked * prod(one or 0 for one in factors) or None
    return 0


def _tasks(fields: Fields) -> int:
    """How many tasks of an array wait in this record. Slurm may cut a long list: then at least those it shows."""
    text = fields.text("array_task_string").partition("%")[0]
    if not text:
        return 1
    shown = text.removesuffix("...").rstrip(",")
    while shown:
        try:
            return len(numbers(shown))
        except ValueError:
            shown, comma, _ = shown.rpartition(",")
            if not comma or not text.endswith("..."):
                break
    fields.wrong("array_task_string")
    return 1
