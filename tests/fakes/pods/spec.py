"""What a pod's specification says of its containers: as whom, with which environment and mounts, probed how. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .fields import Fields, UnsupportedFieldError

_DEFAULT_CAPABILITIES = (
    "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
    "AUDIT_WRITE"
)
"""What engines leave to a container."""

_SCHEDULING = (
    *("affinity", "nodeSelector", "nodeName", "tolerations", "topologySpreadConstraints", "schedulerName"),
    *("priorityClassName", "priority", "preemptionPolicy"),
)
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 1000, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class Mount:
    """A volume at a path of a container."""

    volume: str
    path: str
    read_only: bool


@dataclass(frozen=True)
class Probe:
    """An HTTP request, in seconds and numbers as the kubelet has them."""

    path: str
    port: int
    headers: Mapping[str, str]
    delay: float
    period: float
    timeout: float
    failures: int
    successes: int


@dataclass(frozen=True)
class Container:
    """All that an engine is told of one."""

    name: str
    image: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    capabilities: frozenset[str]
    no_new_privileges: bool
    read_only: bool
    mounts: tuple[Mount, ...]
    ports: Mapping[str, int]
    memory: int | None
    probes: Mapping[str, Probe]


@dataclass(frozen=True)
class Image:
    """What a container's image gives."""

    env: Mapping[str, str]
    user: tuple[int, int]
    workdir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]


@dataclass(frozen=True)
class Surroundings:
    """What a pod is told of itself and of its cluster. `object_of` finds the data of a ConfigMap or Secret by name."""

    metadata: Mapping[str, Any]
    node: str
    ip: str
    host_ip: str
    services: Mapping[str, str]
    """Variables that every container has of the cluster's services."""
    object_of: Callable[[str, str], Mapping[str, str] | None]
    image: Callable[[str], Image]


@dataclass(frozen=True)
class PodPlan:
    """All of a pod."""

    containers: tuple[Container, ...]
    volumes: Mapping[str, Mapping[str, Any]]
    fs_group: int | None
    host_pid: bool
    grace: float
    account: str
    token: bool | None
    """Whether it has the service account's token; None: as the account says."""
    runtime_class: str
    ignored: tuple[str, ...] = field(default=())
    """What is asked for and not applied here."""


def plan(spec: Mapping[str, Any], around: Surroundings) -> PodPlan:
    """Raises UnsupportedFieldError for whatever would be left out."""
    with Fields("spec", spec, _SCHEDULING) as pod:
        pod.only("restartPolicy", "Always")
        pod.only("dnsPolicy", "ClusterFirst")
        pod.only("enableServiceLinks", False, False)
        pod.only("hostNetwork", False)
        pod.only("hostIPC", False)
        pod.only("shareProcessNamespace", False)
        pod.only("hostUsers", True)
        with pod.within("securityContext") as security:
            shared = {name: security.get(name) for name in ("runAsUser", "runAsGroup", "runAsNonRoot")}
            groups = tuple(security.get("supplementalGroups", ()))
            fs_group = security.get("fsGroup")
            security.only("fsGroupChangePolicy", "Always", "OnRootMismatch")
            ignored = _ignored(security)
        if fs_group is not None:
            groups = (*groups, fs_group)
        volumes = {one["name"]: {key: one[key] for key in one if key != "name"} for one in pod.get("volumes", ())}
        containers = tuple(_container(one, around, shared, groups) for one in pod.get("containers", ()))
        account = pod.get("serviceAccountName", "default")
        pod.only("serviceAccount", account, account)
        unknown = {mount.volume for one in containers for mount in one.mounts} - volumes.keys()
        if unknown:
            raise UnsupportedFieldError(f"volumeMounts of no volume: {sorted(unknown)}")
        return PodPlan(
            containers=containers,
            volumes=volumes,
            fs_group=fs_group,
            host_pid=pod.get("hostPID", False),
            grace=pod.get("terminationGracePeriodSeconds", 30),
            account=account,
            token=pod.get("automountServiceAccountToken"),
            runtime_class=pod.get("runtimeClassName", ""),
            ignored=ignored,
        )


def _ignored(security: Fields) -> tuple[str, ...]:
    with security.within("seccompProfile") as profile:
        kind = profile.only("type", "", "RuntimeDefault", "Unconfined")
    return ("seccomp RuntimeDefault",) if kind == "RuntimeDefault" else ()


def _container(
    given: Mapping[str, Any], around: Surroundings, shared: Mapping[str, Any], groups: tuple[int, ...]
) -> Container:
    name = given["name"]
    effectless = ("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy")
    with Fields(f"containers.{name}", given, ("name", *effectless)) as fields:
        image = around.image(fields.get("image"))
        environment = _environment(fields, image, around)
        command, args = fields.get("command"), fields.get("args")
        words = (*(command or image.entrypoint), *(args if args is not None else () if command else image.cmd))
        with fields.within("securityContext") as security:
            user = [security.get(f"runAs{what}", shared[f"runAs{what}"]) for what in ("User", "Group", "NonRoot")]
            uid = image.user[0] if user[0] is None else user[0]
            gid = (image.user[1] if user[0] is None else 0) if user[1] is None else user[1]
            if user[2] and uid == 0:
                raise UnsupportedFieldError(f"container {name} has runAsNonRoot and runs as root")
            security.only("privileged", False)
            no_new_privileges = not security.get("allowPrivilegeEscalation", True)
            read_only = security.get("readOnlyRootFilesystem", False)
            capabilities = _capabilities(security)
            _ignored(security)
        ports = {}
        for port in fields.get("ports", ()):
            with Fields(f"containers.{name}.ports", port) as one:
                one.only("protocol", "TCP")
                ports[one.get("name", "")] = one.get("containerPort")
        with fields.within("resources", ("requests",)) as resources, resources.within("limits", ("cpu",)) as limits:
            memory = limits.get("memory")
        return Container(
            name=name,
            image=fields.get("image"),
            argv=tuple(expanded(word, environment) for word in words),
            environment=environment,
            workdir=fields.get("workingDir", image.workdir),
            uid=uid,
            gid=gid,
            groups=groups,
            capabilities=capabilities,
            no_new_privileges=no_new_privileges,
            read_only=read_only,
            mounts=tuple(_mount(one, name) for one in fields.get("volumeMounts", ())),
            ports=ports,
            memory=None if memory is None else in_bytes(memory),
            probes={
                kind: _probe(fields, f"{kind}Probe", ports)
                for kind in ("startup", "readiness", "liveness")
                if fields.get(f"{kind}Probe")
            },
        )


def _capabilities(security: Fields) -> frozenset[str]:
    with security.within("capabilities") as said:
        dropped, added = said.get("drop", ()), said.get("add", ())
    kept = frozenset() if "ALL" in dropped else frozenset(_DEFAULT_CAPABILITIES.split()) - set(dropped)
    return kept | set(added)


def _mount(given: Mapping[str, Any], container: str) -> Mount:
    with Fields(f"containers.{container}.volumeMounts", given) as one:
        one.only("mountPropagation", None, "None")
        return Mount(one.get("name"), one.get("mountPath"), one.get("readOnly", False))


def _probe(fields: Fields, name: str, ports: Mapping[str, int]) -> Probe:
    with fields.within(name) as probe:
        with probe.within("httpGet") as request:
            request.only("scheme", "HTTP")
            port, path = request.get("port"), request.get("path", "/")
            headers = {one["name"]: one["value"] for one in request.get("httpHeaders", ())}
        return Probe(
            path=path,
            port=ports[port] if isinstance(port, str) else port,
            headers=headers,
            delay=probe.get("initialDelaySeconds", 0),
            period=probe.get("periodSeconds", 10),
            timeout=probe.get("timeoutSeconds", 1),
            failures=probe.get("failureThreshold", 3),
            successes=probe.get("successThreshold", 1),
        )


def _environment(fields: Fields, image: Image, around: Surroundings) -> dict[str, str]:
    found: dict[str, str] = {}
    for given in fields.get("env", ()):
        with Fields(f"{fields.path}.env.{given['name']}", given) as one, one.within("valueFrom") as source:
            name = one.get("name")
            value: str | None = expanded(one.get("value", ""), {**around.services, **found})
            with source.within("fieldRef", ("apiVersion",)) as reference:
                if path := reference.get("fieldPath", ""):
                    value = _field(path, around)
            for kind in ("ConfigMap", "Secret"):
                with source.within(f"{kind[0].lower()}{kind[1:]}KeyRef") as reference:
                    owner, key, optional = (reference.get(each) for each in ("name", "key", "optional"))
                    if owner is None:
                        continue
                    data = around.object_of(kind, owner) or {}
                    if key not in data and not optional:
                        raise UnsupportedFieldError(f"{one.path}: there is no key {key} in the {kind} {owner}")
                    value = data.get(key)
            if value is not None:
                found[name] = value
    return {**image.env, **around.services, "HOSTNAME": around.metadata["name"], **found}


def _field(path: str, around: Surroundings) -> str:
    simple = {
        "spec.nodeName": around.node,
        "status.podIP": around.ip,
        "status.hostIP": around.host_ip,
        **{f"metadata.{name}": str(around.metadata[name]) for name in ("name", "namespace", "uid")},
    }
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if keyed:
        return str(around.metadata.get(keyed[1], {}).get(keyed[2], ""))
    if path not in simple:
        raise UnsupportedFieldError(f"fieldRef {path}")
    return simple[path]


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` is the variable's value where there is one; `$$` is a dollar sign."""
    return re.sub(
        r"\$\$|\$\(([-._a-zA-Z0-9]+)\)",
        lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]),
        text,
    )


def in_bytes(quantity: str | int) -> int:
    """Of memory: 64Mi."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(quantity)).groups()  # type: ignore[union-attr]
    return round(float(number) * _UNITS[unit])
