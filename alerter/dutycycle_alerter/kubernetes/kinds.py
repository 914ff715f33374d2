"""How jobs are used, by what they are: batch, interactive or serving, and whether their pods are to be alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dutycycle_alerter.declarations import ANNOTATIONS, Declarations, from_annotations
from dutycycle_alerter.kubernetes.model import Owner, Pod
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from dutycycle_alerter.settings.matching import has_label

_KINDS: Mapping[str, JobKind] = {
    # What runs until somebody ends it, and waits for requests.
    "Deployment": JobKind.SERVING,
    "ReplicaSet": JobKind.SERVING,
    "ReplicationController": JobKind.SERVING,
    "StatefulSet": JobKind.SERVING,
    "DaemonSet": JobKind.SERVING,
    "DeploymentConfig": JobKind.SERVING,
    "Rollout": JobKind.SERVING,
    "CloneSet": JobKind.SERVING,
    "LeaderWorkerSet": JobKind.SERVING,
    "DisaggregatedSet": JobKind.SERVING,
    "InferenceService": JobKind.SERVING,
    "LLMInferenceService": JobKind.SERVING,
    "InferenceGraph": JobKind.SERVING,
    "ServingRuntime": JobKind.SERVING,
    "Service": JobKind.SERVING,
    "Configuration": JobKind.SERVING,
    "Revision": JobKind.SERVING,
    "RayService": JobKind.SERVING,
    "SeldonDeployment": JobKind.SERVING,
    "NIMService": JobKind.SERVING,
    "DynamoGraphDeployment": JobKind.SERVING,
    "PodCliqueSet": JobKind.SERVING,
    "BentoDeployment": JobKind.SERVING,
    "InferenceWorkload": JobKind.SERVING,
    # What people sit before. Ray and Dask clusters that no job made are used from notebooks, with pauses to think.
    "Notebook": JobKind.INTERACTIVE,
    "Workspace": JobKind.INTERACTIVE,
    "DevWorkspace": JobKind.INTERACTIVE,
    "InteractiveWorkload": JobKind.INTERACTIVE,
    "RayCluster": JobKind.INTERACTIVE,
    "DaskCluster": JobKind.INTERACTIVE,
    "SparkConnect": JobKind.INTERACTIVE,
    # What comes to an end by itself.
    "Job": JobKind.BATCH,
    "JobSet": JobKind.BATCH,
    "TrainJob": JobKind.BATCH,
    "RayJob": JobKind.BATCH,
    "Workflow": JobKind.BATCH,
    "TaskRun": JobKind.BATCH,
    "PipelineRun": JobKind.BATCH,
}
"""By kind, of any group; kinds that stand nowhere are what the next one below them is, and batch in the end."""

_EXCEPTIONS: Mapping[tuple[str, str], JobKind] = {
    ("kaito.sh", "Workspace"): JobKind.SERVING,
}
"""Kinds that have a name in common with others."""

_WORKBENCH = (
    "component=singleuser-server",
    "app.kubernetes.io/component=singleuser-server",
    "com.coder.workspace.id=*",
    "notebook-name=*",
    "controller.devfile.io/devworkspace_id=*",
)
"""Labels of the pods of JupyterHub, Coder, Kubeflow's notebooks and DevWorkspaces, whatever they are made by."""

_UNLIKE = frozenset(
    {
        # Steps that do different things.
        "Workflow",
        "PipelineRun",
        "JobFlow",
        "FlyteWorkflow",
        "flyteworkflow",
        # A head and groups of workers, among which whoever uses it spreads the work.
        "RayCluster",
        "RayJob",
        "DaskCluster",
        "DaskJob",
        # Workers beside an evaluator that works now and then.
        "TFJob",
    }
)


def kind_of(pods: Sequence[Pod], owner: Owner) -> JobKind:
    """What a job is where neither the configuration nor its annotations say it."""
    if has_label(owner.labels, _WORKBENCH) or any(has_label(pod.labels, _WORKBENCH) for pod in pods):
        return JobKind.INTERACTIVE
    if owner.kind == "Pod":
        # Programs have no terminal: whoever asked for one wants to type.
        return JobKind.INTERACTIVE if any(pod.attended for pod in pods) else JobKind.BATCH
    if owner.kind == "RayCluster" and owner.labels.get("ray.io/originated-from-crd") in ("RayJob", "RayService"):
        # Its own owner may not be read, but KubeRay also writes down what it is for.
        return _KINDS[owner.labels["ray.io/originated-from-crd"]]
    exception = _EXCEPTIONS.get((owner.group, owner.kind))
    known = (_KINDS[kind] for kind in (owner.kind, *owner.chain) if kind in _KINDS)
    return exception or next(known, JobKind.BATCH)


def expects_uneven(owner: Owner) -> bool:
    """Whether a job's pods differ by design, so that one of them doing less than the others says nothing."""
    return not _UNLIKE.isdisjoint((owner.kind, *owner.chain))


def is_node_of_another(pod: Pod, owner: Owner, settings: KubernetesCluster) -> bool:
    """Whether a pod is a node of another scheduler, such as Slurm: what runs on its GPUs is that one's job."""
    return has_label(pod.labels, settings.scheduler_pods) or has_label(owner.labels, settings.scheduler_pods)


def declared(owner: Owner, pods: Iterable[Pod], user_annotation: str = "dutycycle.io/user") -> Declarations:
    """What a job says of itself, in annotations of the job, else of its pods. The one that names its user says nothing
    else.
    """
    merged: dict[str, str] = {}
    for layer in (owner.annotations, *(pod.annotations for pod in pods)):
        for name, text in layer.items():
            if name.startswith(ANNOTATIONS) and name != user_annotation:
                merged.setdefault(name, text)
    return from_annotations(merged)
