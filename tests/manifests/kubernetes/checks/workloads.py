"""What runs pods: that they are its own, how many there are, and how they are replaced."""

from __future__ import annotations

from collections.abc import Iterator

from .cluster import WORKLOADS, Cluster, Object, matches, namespace, title

_SELECTING = ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")


def selectors(cluster: Cluster) -> Iterator[str]:
    """Each takes its own pods, and no other's."""
    for one in cluster.of(*_SELECTING):
        selector = one["spec"].get("selector") or {}
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            yield f"{title(one)}: spec.selector is empty"
            continue
        for pod in cluster.pods:
            taken = matches(selector, pod.labels)
            if pod.owner is one and not taken:
                yield f"{title(one)}: spec.selector does not match its own template's labels"
            elif pod.owner is not one and pod.namespace == namespace(one) and taken:
                yield f"{title(one)}: spec.selector takes the pods of {title(pod.owner)}, too"


def replicas(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("Deployment", "StatefulSet", "ReplicaSet"):
        if one["spec"].get("replicas", 1) < 0:
            yield f"{title(one)}: spec.replicas is negative"
        for key in ("revisionHistoryLimit", "minReadySeconds", "progressDeadlineSeconds"):
            if one["spec"].get(key, 1) < 0:
                yield f"{title(one)}: spec.{key} is negative"


def strategies(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("Deployment"):
        strategy = one["spec"].get("strategy") or {}
        if strategy.get("type") == "Recreate" and "rollingUpdate" in strategy:
            yield f"{title(one)}: spec.strategy.rollingUpdate may not be there with Recreate"
        if strategy.get("type", "RollingUpdate") not in ("Recreate", "RollingUpdate"):
            yield f"{title(one)}: spec.strategy.type is {strategy['type']}"
        yield from _rolling(one, strategy.get("rollingUpdate") or {}, {"maxUnavailable": "25%", "maxSurge": "25%"})
    for one in cluster.of("DaemonSet"):
        strategy = one["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") not in ("OnDelete", "RollingUpdate"):
            yield f"{title(one)}: spec.updateStrategy.type is {strategy['type']}"
        rolling = strategy.get("rollingUpdate") or {}
        yield from _rolling(one, rolling, {"maxUnavailable": 1, "maxSurge": 0})
        if all(_some(rolling.get(key, 0)) for key in ("maxUnavailable", "maxSurge")):
            yield f"{title(one)}: maxUnavailable and maxSurge: one of both is 0"
        if _some(rolling.get("maxSurge", 0)) and any(
            port.get("hostPort") or pod.spec.get("hostNetwork")
            for pod in cluster.pods
            if pod.owner is one
            for port in pod.ports()
        ):
            yield f"{title(one)}: maxSurge, with ports of the host"


def _rolling(one: Object, given: Object, defaults: Object) -> Iterator[str]:
    values = {key: given.get(key, default) for key, default in defaults.items()}
    for key, value in values.items():
        if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit() and int(value[:-1]) <= 100):
            yield f"{title(one)}: {key} is {value!r}: neither a number nor a percentage up to 100%"
        elif isinstance(value, int) and value < 0:
            yield f"{title(one)}: {key} is negative"
    if not any(_some(value) for value in values.values()):
        yield f"{title(one)}: maxUnavailable and maxSurge are both 0"


def _some(value: object) -> bool:
    return value not in (0, "0%")


def volumes_of_one_node(cluster: Cluster) -> Iterator[str]:
    """A new pod never starts while the old one holds such a volume on another node."""
    for pod in cluster.pods:
        one = pod.owner
        if one["kind"] != "Deployment":
            continue
        for volume in pod.spec.get("volumes") or ():
            claimed = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
            claim = cluster.find("PersistentVolumeClaim", claimed, pod.namespace)
            if claim is None or "ReadWriteMany" in claim["spec"].get("accessModes", ()):
                continue
            if one["spec"].get("replicas", 1) > 1:
                yield f"{title(one)}: several replicas share the volume {claimed} of one node"
            if (one["spec"].get("strategy") or {}).get("type") != "Recreate":
                yield f"{title(one)}: a rolling update waits for the volume {claimed} of one node: Recreate"


def restarts(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        policy = pod.spec.get("restartPolicy", "Always")
        if pod.owner["kind"] in WORKLOADS[:4] and policy != "Always":
            yield f"{pod}.restartPolicy: only Always is supported"
        if pod.owner["kind"] in ("Job", "CronJob") and pod.spec.get("restartPolicy") not in ("OnFailure", "Never"):
            yield f"{pod}.restartPolicy: OnFailure or Never is required"
