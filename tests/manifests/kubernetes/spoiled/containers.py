"""What is in a pod: ports, environment, probes, volumes, resources."""

from __future__ import annotations

from ..checks import containers, resources, volumes
from .spoiling import ALERTER, CONTAINER, DAEMONS, POD, Spoil, Spoiled, drop, more, put

_LIVE = f"{CONTAINER} livenessProbe"
_LIMITS = f"{CONTAINER} resources limits"
_REQUESTS = f"{CONTAINER} resources requests"
_GPU = "nvidia.com/gpu"


def _devices(request: str | None, limit: str | None) -> dict[str, dict[str, str]]:
    return {part: {_GPU: n} for part, n in (("requests", request), ("limits", limit)) if n is not None}


def _variable(field: str | None = None, **beside: str) -> Spoil:
    source = {"fieldRef": {"fieldPath": field}} if field else {}
    return more(DAEMONS, f"{CONTAINER} env", {"name": "X", "valueFrom": source, **beside})


ROWS = (
    Spoiled(
        "a port over the last",
        containers.ports,
        put(ALERTER, f"{CONTAINER} ports 0 containerPort", 99999),
        "99999 is not between",
    ),
    Spoiled("a port's name in capitals", containers.ports, put(ALERTER, f"{CONTAINER} ports 0 name", "HTTP"), "'HTTP'"),
    Spoiled(
        "a port's name that is too long",
        containers.ports,
        put(ALERTER, f"{CONTAINER} ports 0 name", "a" * 16),
        "a" * 16,
    ),
    Spoiled(
        "a port's name without a letter",
        containers.ports,
        put(ALERTER, f"{CONTAINER} ports 0 name", "80-80"),
        "'80-80'",
    ),
    Spoiled(
        "a port twice",
        containers.ports,
        more(ALERTER, f"{CONTAINER} ports", {"containerPort": 9837}),
        "9837/TCP is there 2",
    ),
    Spoiled(
        "a port's name twice",
        containers.ports,
        more(ALERTER, f"{CONTAINER} ports", {"containerPort": 1, "name": "http"}),
        "2 ports",
    ),
    Spoiled(
        "a variable twice",
        containers.environment,
        more(DAEMONS, f"{CONTAINER} env", {"name": "NVIDIA_VISIBLE_DEVICES"}),
        "2 times",
    ),
    Spoiled(
        "a variable's name", containers.environment, more(DAEMONS, f"{CONTAINER} env", {"name": "A B"}), "'A B' cannot"
    ),
    Spoiled(
        "a variable from two places", containers.environment, _variable("metadata.name", value="x"), "from elsewhere"
    ),
    Spoiled("a variable from no place", containers.environment, _variable(), "from one place"),
    Spoiled("a variable from what is not offered", containers.environment, _variable("spec.node"), "not offered"),
    Spoiled("a probe of no port", containers.probes, put(ALERTER, f"{_LIVE} httpGet port", "web"), "no port web"),
    Spoiled("a probe of a path", containers.probes, put(ALERTER, f"{_LIVE} httpGet path", "x"), "no slash"),
    Spoiled("a probe of two ways", containers.probes, put(ALERTER, f"{_LIVE} exec", {"command": ["a"]}), "in one way"),
    Spoiled("a probe of no way", containers.probes, drop(ALERTER, f"{_LIVE} httpGet"), "in one way"),
    Spoiled("a probe by nothing", containers.probes, put(ALERTER, _LIVE, {"exec": {"command": []}}), "no command"),
    Spoiled("a probe without time", containers.probes, put(ALERTER, f"{_LIVE} timeoutSeconds", 0), "less than 1"),
    Spoiled("a probe before it began", containers.probes, put(ALERTER, f"{_LIVE} initialDelaySeconds", -1), "negative"),
    Spoiled("alive twice", containers.probes, put(ALERTER, f"{_LIVE} successThreshold", 2), "must be 1"),
    # Volumes.
    Spoiled(
        "a volume twice",
        volumes.sources,
        more(ALERTER, f"{POD} volumes", {"name": "tmp", "emptyDir": {}}),
        "2 are named tmp",
    ),
    Spoiled("a volume's name", volumes.sources, put(ALERTER, f"{POD} volumes 0 name", "a_b"), "cannot be a volume's"),
    Spoiled("a volume of no kind", volumes.sources, drop(ALERTER, f"{POD} volumes 3 emptyDir"), "of one kind"),
    Spoiled("a volume of two kinds", volumes.sources, put(ALERTER, f"{POD} volumes 0 emptyDir", {}), "of one kind"),
    Spoiled(
        "a path back",
        volumes.sources,
        put(DAEMONS, f"{POD} volumes 0 hostPath path", "/var/../etc"),
        "hostPath '/var/../etc'",
    ),
    Spoiled(
        "a path of a kind", volumes.sources, put(DAEMONS, f"{POD} volumes 0 hostPath type", "Folder"), "type Folder"
    ),
    Spoiled(
        "a mode in decimal", volumes.sources, put(ALERTER, f"{POD} volumes 1 secret defaultMode", 1440), "mode 1440"
    ),
    Spoiled(
        "a mount of no volume", volumes.mounts, put(ALERTER, f"{CONTAINER} volumeMounts 0 name", "x"), "no volume x"
    ),
    Spoiled(
        "a volume that nobody mounts",
        volumes.unused,
        drop(ALERTER, f"{CONTAINER} volumeMounts 3"),
        "is mounted nowhere",
    ),
    Spoiled(
        "a mount at no path",
        volumes.mounts,
        put(ALERTER, f"{CONTAINER} volumeMounts 0 mountPath", "etc"),
        "'etc' is no path",
    ),
    Spoiled(
        "a mount's path back",
        volumes.mounts,
        put(ALERTER, f"{CONTAINER} volumeMounts 0 subPath", "../a"),
        "subPath '../a'",
    ),
    Spoiled(
        "two mounts at one path",
        volumes.mounts,
        put(ALERTER, f"{CONTAINER} volumeMounts 3 mountPath", "/etc/dutycycle/"),
        "2 are at",
    ),
    # Resources.
    Spoiled("no quantity", resources.quantities, put(ALERTER, f"{_LIMITS} memory", "1 Gi"), "'1 Gi' is no quantity"),
    Spoiled(
        "a unit that there is not",
        resources.quantities,
        put(ALERTER, f"{_LIMITS} memory", "1GB"),
        "'1GB' is no quantity",
    ),
    Spoiled("less than nothing", resources.quantities, put(ALERTER, f"{_LIMITS} cpu", "-1"), "is negative"),
    Spoiled("a few bytes", resources.quantities, put(ALERTER, f"{_REQUESTS} memory", "256"), "suffix is missing"),
    Spoiled(
        "a resource that there is not", resources.quantities, put(ALERTER, f"{_LIMITS} ram", "1Gi"), "no such resource"
    ),
    Spoiled(
        "more than the limit", resources.quantities, put(ALERTER, f"{_REQUESTS} cpu", "2001m"), "more than its limit, 2"
    ),
    Spoiled(
        "a part of a GPU",
        resources.quantities,
        put(ALERTER, f"{CONTAINER} resources", _devices(None, "500m")),
        "whole number",
    ),
    Spoiled(
        "fewer GPUs than at most",
        resources.quantities,
        put(ALERTER, f"{CONTAINER} resources", _devices("1", "2")),
        "is not its limit",
    ),
    Spoiled(
        "GPUs without a limit",
        resources.quantities,
        put(ALERTER, f"{CONTAINER} resources", _devices("1", None)),
        "needs a limit",
    ),
    Spoiled(
        "a folder of no size",
        resources.quantities,
        put(ALERTER, f"{POD} volumes 3 emptyDir sizeLimit", "1GB"),
        "sizeLimit '1GB'",
    ),
    Spoiled(
        "a claim of no size",
        resources.quantities,
        drop("PersistentVolumeClaim dutycycle-alerter", "spec resources requests storage"),
        "storage is missing",
    ),
)
