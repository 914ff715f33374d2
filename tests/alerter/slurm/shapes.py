"""The same jobs and nodes as four releases of Slurm write them: what a reader makes of all must be equal.

`PLAIN` is 22.05 (v0.0.36 to 38), `MIXED` 23.02 (v0.0.39), `OBJECTS` 23.11 and later (v0.0.40 to 43), `COMPLEX` the same
with the data parser's flag of that name. Checked against answers of the real ones.
"""

from __future__ import annotations

from typing import Any

PLAIN, MIXED, OBJECTS, COMPLEX = "22.05", "23.02", "24.11", "24.11+complex"
SHAPES = (PLAIN, MIXED, OBJECTS, COMPLEX)

MINUTES_UNLIMITED = -1


def number(shape: str, value: int | None) -> Any:
    """A number that need not be set. MINUTES_UNLIMITED is infinite."""
    infinite = value == MINUTES_UNLIMITED
    if shape == PLAIN:
        return None if infinite else value
    if shape == COMPLEX:
        return "Infinity" if infinite else value
    return {"set": value is not None and not infinite, "infinite": infinite, "number": 0 if infinite else value or 0}


def instant(shape: str, value: int) -> Any:
    """A time: an object from v0.0.40 on."""
    return number(shape, value) if shape == OBJECTS else value


def words(shape: str, *listed: str) -> Any:
    """A state: one word until v0.0.39, then a list."""
    return listed[0] if shape in (PLAIN, MIXED) else list(listed)


def exit_code(shape: str, status: int, signal: int = 0) -> Any:
    if shape == PLAIN:
        return status << 8 | signal
    if shape == MIXED:
        return number(shape, status << 8 | signal)
    kind = "SIGNALED" if signal else "ERROR" if status else "SUCCESS"
    name = {"id": number(shape, signal or None), "name": "Terminated" if signal else ""}
    return {"status": [kind], "return_code": number(shape, status), "signal": name}


def resources(shape: str, nodes: list[str]) -> Any:
    if not nodes:
        return {} if shape == PLAIN else None
    if shape in (PLAIN, MIXED):
        return {"nodes": ",".join(nodes), "allocated_nodes": [{"nodename": name, "cpus_used": 0} for name in nodes]}
    allocation = [{"index": index, "name": name} for index, name in enumerate(nodes)]
    return {"select_type": ["CORE"], "nodes": {"count": len(nodes), "list": "", "allocation": allocation}}


def job(shape: str, **changed: Any) -> dict[str, Any]:
    """A running job of eight GPUs on two nodes. `allocated_nodes` are its nodes one by one."""
    allocated = changed.pop("allocated_nodes", ["gpu02", "gpu03"])
    made = {
        "account": "research",
        "array_job_id": number(shape, 0),
        "array_task_id": number(shape, None),
        "array_task_string": "",
        "batch_flag": True,
        "cluster": "lab",
        "comment": "dutycycle:expect-uneven",
        "eligible_time": instant(shape, 1700000001),
        "end_time": instant(shape, 1700086400),
        "exit_code": exit_code(shape, 0),
        "gres_detail": ["gpu:h200:4(IDX:0-3)", "gpu:h200:4(IDX:4,6-7,5)"],
        "het_job_id": number(shape, 0),
        "het_job_offset": number(shape, 0),
        "job_id": 3,
        "job_resources": resources(shape, allocated),
        "job_state": words(shape, "RUNNING"),
        "name": "train",
        "node_count": number(shape, 2),
        "nodes": "gpu[02-03]",
        "partition": "gpu",
        "qos": "normal",
        "restart_cnt": 0,
        "start_time": instant(shape, 1700000010),
        "state_reason": "None",
        "submit_time": instant(shape, 1700000000),
        "tasks": number(shape, 2),
        "time_limit": number(shape, 1440),
        "tres_alloc_str": "cpu=16,mem=200G,node=2,billing=16,gres/gpu=8",
        "tres_per_job": "",
        "tres_per_node": "gres:gpu:4" if shape in (PLAIN, MIXED) else "gres/gpu:4",
        "tres_per_task": "",
        "tres_req_str": "cpu=8,mem=200G,node=2,billing=8,gres/gpu=8",
        "user_name": "alice",
    }
    return made | changed


def node(shape: str, *states: str, **changed: Any) -> dict[str, Any]:
    state: dict[str, Any] = {"state": list(states)}
    if shape == PLAIN:
        state = {"state": states[0].lower(), "state_flags": list(states[1:])}
    made = {
        "name": "gpu02",
        "hostname": "rack1-2",
        "address": "10.0.0.2",
        "gres": "gpu:h200:8(S:0-1)",
        "gres_used": "gpu:h200:4(IDX:0-3)",
        "partitions": ["gpu"],
        "reason": "",
        "tres": "cpu=64,mem=500000M,billing=64,gres/gpu=8",
    }
    return made | state | changed


def answer(shape: str, name: str, items: list[Any], **changed: Any) -> dict[str, Any]:
    """A whole answer."""
    made: dict[str, Any] = {name: items, "errors": [], "meta": {"plugin": {"type": "openapi/slurmctld"}}}
    if shape != PLAIN:
        made["warnings"] = []
    if shape in (OBJECTS, COMPLEX):
        made["last_update"] = number(shape, 1700000500)
    return made | changed


def accounted(shape: str, **changed: Any) -> dict[str, Any]:
    """A job as the accounting database tells it: failed with status 3 after an hour on two GPUs."""
    state = words(shape, "FAILED")
    made = {
        "account": "research",
        "array": {"job_id": 0, "task_id": number(shape, None), "task": ""},
        "association": {"account": "research", "cluster": "lab", "partition": "", "user": "alice"},
        "cluster": "lab",
        "exit_code": ({"status": "ERROR", "return_code": 3} if shape in (PLAIN, MIXED) else exit_code(shape, 3)),
        "het": {"job_id": 0, "job_offset": number(shape, None)},
        "job_id": 8,
        "name": "train",
        "nodes": "gpu[02-03]",
        "partition": "gpu",
        "qos": "normal",
        "state": {"current": state, "reason": "None"},
        "steps": [_step(shape, 3 * 2**30), _step(shape, 5 * 2**30), _step(shape, None)],
        "time": {
            "elapsed": 3600,
            "end": 1700003610,
            "start": 1700000010,
            "submission": 1700000000,
            "limit": number(shape, 120),
            "total": {"seconds": 7200, "microseconds": 500000},
        },
        "tres": {
            "allocated": [
                _tres("cpu", "", 4),
                _tres("mem", "", 1024),
                _tres("energy", "", -2),
                _tres("gres", "gpu", 2),
            ],
            "requested": [_tres("cpu", "", 4), _tres("mem", "", 512), _tres("gres", "gpu", 2)],
        },
        "user": "alice",
    }
    return made | changed


def _tres(kind: str, name: str, count: int) -> dict[str, Any]:
    return {"type": kind, "name": name, "id": 1, "count": count}


def _step(shape: str, rss: int | None) -> dict[str, Any]:
    used = [] if rss is None else [{**_tres("mem", "", rss), "task": 0, "node": "gpu02"}]
    return {"state": words(shape, "FAILED"), "tres": {"requested": {"max": used}, "consumed": {"max": []}}}
