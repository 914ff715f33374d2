"""What a pod and its containers say of themselves: waiting, running, over, and why."""

from __future__ import annotations

from typing import Any

import pytest

from dutycycle_alerter.kubernetes.model import Standing
from tests.alerter.kubernetes.decoded import AT, asking, kept, made
from tests.fakes.kubernetes import builders


def state(**states: Any) -> dict[str, Any]:
    return {"name": "c", "restartCount": 2, "state": states}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {"containerStatuses": [state(running={}), state(waiting={"reason": "CrashLoopBackOff"})]},
            {"waiting": "CrashLoopBackOff", "restarts": 4, "finished": None},
            id="crash loop",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "initContainerStatuses": [state(waiting={"reason": "ImagePullBackOff"})],
                "containerStatuses": [state(waiting={"reason": "PodInitializing"})],
            },
            {"waiting": "ImagePullBackOff", "phase": "Pending"},
            id="image",
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [state(waiting={"reason": "ContainerCreating"})]},
            {"waiting": "ContainerCreating"},
            id="about to run",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": None,
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            {"waiting": "SchedulingGated"},
            id="gated",
        ),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, {"reason": "Evicted", "over": True}, id="evicted"),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [state(terminated={"reason": "Error", "finishedAt": "2026-11-20T22:14:21Z"})],
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            },
            {"reason": "PreemptionByScheduler", "finished": AT},
            id="preempted",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [
                    state(terminated={"reason": "Completed", "finishedAt": "2026-11-20T22:14:20Z"}),
                    state(terminated={"reason": "OOMKilled", "finishedAt": "2026-11-20T22:14:21Z"}),
                ],
            },
            {"reason": "OOMKilled", "finished": AT},
            id="the last one's end",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    state(terminated={"reason": "Completed", "finishedAt": "2026-11-20T22:14:21Z"}),
                    state(running={}),
                ]
            },
            {"finished": None, "over": False},
            id="one still runs",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [state(running={})],
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-20T22:14:21Z"}],
            },
            {"finished": AT},
            id="its node was lost",
        ),
    ],
)
def test_what_a_pod_says_of_itself(status: dict[str, Any], expected: dict[str, Any]) -> None:
    pod = made(status=status)
    assert {name: getattr(pod, name) for name in expected} == expected


def status(name: str, before: str = "", **states: Any) -> dict[str, Any]:
    last = {"terminated": {"reason": before, "finishedAt": "2026-11-20T22:14:21Z"}} if before else {}
    return {"name": name, "restartCount": 0, "state": states, "lastState": last}


RUNS = {"running": {"startedAt": "2026-11-20T22:14:21Z"}}
TRAINER, PROXY = asking({"nvidia.com/gpu": "1"}, name="trainer"), asking(name="proxy")


def over(reason: str) -> dict[str, Any]:
    return {"terminated": {"reason": reason, "finishedAt": "2026-11-20T22:14:21Z"}}


@pytest.mark.parametrize(
    ("spec", "statuses", "expected"),
    [
        pytest.param(
            {"restartPolicy": "Never"},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="completed",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            [status("proxy", **RUNS), status("trainer", **over("Error"))],
            Standing("trainer", "Error", AT),
            id="failed",
        ),
        pytest.param(
            {"restartPolicy": "OnFailure"},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="not made anew, for it completed",
        ),
        pytest.param(
            {"restartPolicy": "OnFailure"},
            [status("trainer", **over("Error")), status("proxy", **RUNS)],
            None,
            id="is made anew, for it failed",
        ),
        pytest.param(
            {"restartPolicy": "Always"},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            None,
            id="is made anew always",
        ),
        pytest.param(
            {"restartPolicy": "Always", "containers": [TRAINER | {"restartPolicy": "Never"}, PROXY]},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="a policy of its own",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            [status("trainer", **RUNS), status("proxy", **over("Completed"))],
            None,
            id="the one without GPUs",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            [status("trainer", **over("Completed")), status("proxy", **over("Completed"))],
            None,
            id="all have",
        ),
        pytest.param(
            {"restartPolicy": "Never", "containers": [TRAINER, TRAINER | {"name": "other"}]},
            [status("trainer", **over("Completed")), status("other", **RUNS)],
            None,
            id="another one with GPUs works on",
        ),
        pytest.param(
            {"restartPolicy": "Never", "resourceClaims": [{"name": "gpu"}]}
            | {"containers": [{"name": "trainer", "resources": {"claims": [{"name": "gpu"}]}}, PROXY]},
            [status("trainer", **over("Completed")), status("proxy", **RUNS)],
            Standing("trainer", "Completed", AT),
            id="a claim",
        ),
        pytest.param({}, [status("trainer", **over("Completed")), status("proxy", **RUNS)], None, id="no policy"),
        pytest.param({"restartPolicy": "Never"}, None, None, id="nothing yet"),
    ],
)
def test_a_container_with_gpus_that_is_over_while_another_runs_on(
    spec: dict[str, Any], statuses: Any, expected: Standing | None
) -> None:
    content = builders.pod("train-0", status={"containerStatuses": statuses})
    content["spec"] = {"containers": [TRAINER, PROXY], **spec}
    found = kept(content)
    assert found is not None
    assert found.ended == expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([status("get", **RUNS)], Standing("get", "", AT)),
        ([status("proxy", **RUNS), status("get", **RUNS)], Standing("get", "", AT)),
        ([status("proxy", **RUNS)], None),
        ([status("get", **over("Completed"))], None),
        ([status("get", running={"startedAt": "then"})], Standing("get")),
        ([status("x" * 9000, **RUNS)], Standing("x" * 79 + "…", "", AT)),
        (None, None),
    ],
)
def test_an_init_container_that_runs_is_known_but_none_that_stays_beside(
    statuses: Any, expected: Standing | None
) -> None:
    content = builders.pod("train-0", phase="Pending", status={"initContainerStatuses": statuses})
    content["spec"]["initContainers"] = [asking(name="get"), asking(name="proxy", restartPolicy="Always")]
    found = kept(content)
    assert found is not None
    assert found.starting == expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([status("proxy", **RUNS), status("trainer", "OOMKilled", **RUNS)], Standing("trainer", "OOMKilled", AT)),
        ([status("trainer", **over("OOMKilled"))], Standing("trainer", "OOMKilled", AT)),
        ([status("trainer", "Error", **RUNS)], None),
        ([status("trainer", **RUNS)], None),
    ],
)
def test_a_container_that_took_too_much_memory_last_time(statuses: Any, expected: Standing | None) -> None:
    assert made(status={"containerStatuses": statuses}).killed == expected
