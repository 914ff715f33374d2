"""What runs pods, and pods as a whole: how they are replaced, who they run as and where."""

from __future__ import annotations

from ..checks import pods, workloads
from .spoiling import ALERTER, CONTAINER, DAEMONS, POD, Spoiled, drop, every, more, new, put

_SECURITY = f"{CONTAINER} securityContext"
_TERMS = f"{POD} affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms"
_PREFERRED = f"{POD} affinity nodeAffinity preferredDuringSchedulingIgnoredDuringExecution"
_APART = f"{POD} affinity podAntiAffinity"
_OTHERS = {"labelSelector": {"matchLabels": {"app.kubernetes.io/name": "alerter"}}}
_SPREAD = f"{POD} topologySpreadConstraints"
_TOLERATION = f"{POD} tolerations 0"
_ANNOTATIONS = "spec template metadata annotations"
_TEMPLATE = {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}


ROWS = (
    Spoiled(
        "a selector of others' pods",
        workloads.selectors,
        put(DAEMONS, "spec selector matchLabels a", "b"),
        "does not match its own",
    ),
    Spoiled("a selector of all", workloads.selectors, put(DAEMONS, "spec selector", {}), "spec.selector is empty"),
    Spoiled(
        "a selector of both's pods",
        workloads.selectors,
        put(DAEMONS, "spec selector matchLabels", {"app.kubernetes.io/part-of": "dutycycle"}),
        "takes the pods of Deployment",
    ),
    Spoiled("fewer than none", workloads.replicas, put(ALERTER, "spec replicas", -1), "replicas is negative"),
    Spoiled("no history, and less", workloads.replicas, put(ALERTER, "spec revisionHistoryLimit", -1), "is negative"),
    Spoiled(
        "Recreate by and by", workloads.strategies, put(ALERTER, "spec strategy rollingUpdate", {}), "with Recreate"
    ),
    Spoiled(
        "a strategy that there is not",
        workloads.strategies,
        put(ALERTER, "spec strategy type", "Replace"),
        "is Replace",
    ),
    Spoiled(
        "a strategy of daemons",
        workloads.strategies,
        put(DAEMONS, "spec updateStrategy type", "Recreate"),
        "is Recreate",
    ),
    Spoiled(
        "a rolling update that never begins",
        workloads.strategies,
        put(DAEMONS, "spec updateStrategy rollingUpdate maxUnavailable", 0),
        "are both 0",
    ),
    Spoiled(
        "a rolling update both ways",
        workloads.strategies,
        put(DAEMONS, "spec updateStrategy rollingUpdate maxSurge", 1),
        "one of both is 0",
    ),
    Spoiled(
        "a surge on a port of the host",
        workloads.strategies,
        every(
            put(DAEMONS, "spec updateStrategy rollingUpdate", {"maxSurge": 1, "maxUnavailable": 0}),
            put(DAEMONS, f"{CONTAINER} ports 0 hostPort", 9836),
        ),
        "ports of the host",
    ),
    Spoiled(
        "a share that is none",
        workloads.strategies,
        put(DAEMONS, "spec updateStrategy rollingUpdate maxUnavailable", "ten"),
        "neither a number",
    ),
    Spoiled(
        "less than none at a time",
        workloads.strategies,
        put(DAEMONS, "spec updateStrategy rollingUpdate maxUnavailable", -1),
        "maxUnavailable is negative",
    ),
    Spoiled(
        "two on one node's volume", workloads.volumes_of_one_node, put(ALERTER, "spec replicas", 2), "several replicas"
    ),
    Spoiled("one after the other on it", workloads.volumes_of_one_node, put(ALERTER, "spec strategy", {}), "Recreate"),
    Spoiled("a daemon that ends", workloads.restarts, put(DAEMONS, f"{POD} restartPolicy", "Never"), "only Always"),
    Spoiled("a job that does not", workloads.restarts, new("Job", "x", spec=_TEMPLATE), "OnFailure or Never"),
    # The pod as a whole.
    Spoiled("no containers", pods.containers_are_named, put(ALERTER, f"{POD} containers", []), "there is none"),
    Spoiled(
        "a container's name", pods.containers_are_named, put(ALERTER, f"{CONTAINER} name", "a_b"), "cannot be 'a_b'"
    ),
    Spoiled("no image", pods.containers_are_named, drop(ALERTER, f"{CONTAINER} image"), "image: is missing"),
    Spoiled(
        "two of a name",
        pods.containers_are_named,
        put(ALERTER, f"{POD} initContainers", [{"name": "alerter", "image": "b"}]),
        "2 are named alerter",
    ),
    Spoiled(
        "no time to end",
        pods.containers_are_named,
        put(ALERTER, f"{POD} terminationGracePeriodSeconds", -1),
        "is negative",
    ),
    Spoiled(
        "root, and not",
        pods.security,
        put(DAEMONS, f"{_SECURITY} runAsNonRoot", True),
        "runAsNonRoot, with runAsUser 0",
    ),
    Spoiled("privileged, and not", pods.security, put(DAEMONS, f"{_SECURITY} privileged", True), "privileged, without"),
    Spoiled(
        "an administrator, and not",
        pods.security,
        put(DAEMONS, f"{_SECURITY} capabilities add", ["CAP_SYS_ADMIN"]),
        "CAP_SYS_ADMIN, without",
    ),
    Spoiled(
        "a capability that is dropped",
        pods.security,
        put(DAEMONS, f"{_SECURITY} capabilities", {"add": ["KILL"], "drop": ["CAP_KILL"]}),
        "at once",
    ),
    Spoiled(
        "a profile of nowhere",
        pods.security,
        put(DAEMONS, f"{_SECURITY} seccompProfile", {"type": "Localhost"}),
        "localhostProfile",
    ),
    Spoiled(
        "a user that there is not",
        pods.security,
        put(ALERTER, f"{POD} securityContext runAsUser", 2**31),
        "out of range",
    ),
    Spoiled(
        "processes of two kinds",
        pods.host,
        every(put(DAEMONS, f"{POD} hostPID", True), put(DAEMONS, f"{POD} shareProcessNamespace", True)),
        "with hostPID",
    ),
    Spoiled(
        "two ports at once",
        pods.host,
        every(put(DAEMONS, f"{POD} hostNetwork", True), put(DAEMONS, f"{CONTAINER} ports 0 hostPort", 80)),
        "hostPort is containerPort",
    ),
    Spoiled(
        "an operator of tolerations",
        pods.tolerations,
        put(DAEMONS, f"{_TOLERATION} operator", "All"),
        "operator is All",
    ),
    Spoiled(
        "a value of what is there", pods.tolerations, put(DAEMONS, f"{_TOLERATION} value", "a"), "a value, with Exists"
    ),
    Spoiled("a toleration of nothing", pods.tolerations, drop(DAEMONS, f"{_TOLERATION} operator"), "no key, without"),
    Spoiled("a toleration's key", pods.tolerations, put(DAEMONS, f"{_TOLERATION} key", "a b"), "key 'a b'"),
    Spoiled(
        "a toleration's effect", pods.tolerations, put(DAEMONS, f"{_TOLERATION} effect", "NoRun"), "effect is NoRun"
    ),
    Spoiled(
        "a toleration for a time",
        pods.tolerations,
        put(DAEMONS, f"{_TOLERATION} tolerationSeconds", 1),
        "NoExecute alone",
    ),
    Spoiled("a node's label", pods.placement, put(DAEMONS, f"{POD} nodeSelector gpu", "a b"), "nodeSelector: gpu"),
    Spoiled("nodes by nothing", pods.placement, put(DAEMONS, _TERMS, []), "without terms"),
    Spoiled("nodes by an empty term", pods.placement, more(DAEMONS, _TERMS, {}), "matches no node"),
    Spoiled(
        "nodes by no value", pods.placement, put(DAEMONS, f"{_TERMS} 0 matchExpressions 0 values", []), "node affinity:"
    ),
    Spoiled(
        "nodes by a strange value",
        pods.placement,
        put(DAEMONS, f"{_TERMS} 0 matchExpressions 0 values", ["a b"]),
        "values ['a b']",
    ),
    Spoiled(
        "nodes by a strange key", pods.placement, put(DAEMONS, f"{_TERMS} 0 matchExpressions 0 key", "a b"), "key 'a b'"
    ),
    Spoiled(
        "nodes by what is there, with a value",
        pods.placement,
        put(DAEMONS, f"{_TERMS} 0 matchExpressions 0 operator", "Exists"),
        "Exists",
    ),
    Spoiled(
        "nodes by an unknown operator",
        pods.placement,
        put(DAEMONS, f"{_TERMS} 0 matchExpressions 0 operator", "Is"),
        " Is ",
    ),
    Spoiled(
        "nodes by too great a wish",
        pods.placement,
        put(
            DAEMONS,
            _PREFERRED,
            [{"weight": 101, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}],
        ),
        "weight 101",
    ),
    Spoiled(
        "apart from others by nothing",
        pods.placement,
        put(ALERTER, f"{_APART} requiredDuringSchedulingIgnoredDuringExecution", [{"labelSelector": {}}]),
        "topologyKey is None",
    ),
    Spoiled(
        "apart from pods of others",
        pods.placement,
        put(ALERTER, f"{_APART} requiredDuringSchedulingIgnoredDuringExecution", [{"topologyKey": "a", **_OTHERS}]),
        "podAntiAffinity: labelSelector does not match",
    ),
    Spoiled(
        "spread with pods of others",
        pods.placement,
        put(ALERTER, _SPREAD, [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", **_OTHERS}]),
        "topologySpreadConstraints: labelSelector does not match",
    ),
    Spoiled(
        "apart from others by no wish",
        pods.placement,
        put(
            ALERTER,
            f"{_APART} preferredDuringSchedulingIgnoredDuringExecution",
            [{"podAffinityTerm": {"topologyKey": "a"}}],
        ),
        "weight None",
    ),
    Spoiled(
        "spread over nothing",
        pods.placement,
        put(ALERTER, _SPREAD, [{"whenUnsatisfiable": "ScheduleAnyway"}]),
        "topologyKey",
    ),
    Spoiled(
        "spread or what",
        pods.placement,
        put(ALERTER, _SPREAD, [{"maxSkew": 1, "topologyKey": "a"}]),
        "whenUnsatisfiable is None",
    ),
    Spoiled(
        "a first container that is not there",
        pods.annotations,
        put(ALERTER, f"{_ANNOTATIONS} kubectl.kubernetes.io/default-container", "x"),
        "no container x",
    ),
    Spoiled(
        "devices for a container that is not there",
        pods.annotations,
        put(DAEMONS, f"{_ANNOTATIONS} nvidia.cdi.k8s.io/container.exportr", "nvidia.com/gpu=all"),
        "no container exportr",
    ),
    Spoiled(
        "scraped by a port that is not there",
        pods.annotations,
        put(DAEMONS, f"{_ANNOTATIONS} prometheus.io/port", "9835"),
        "no port 9835",
    ),
)
