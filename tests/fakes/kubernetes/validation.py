"""Which objects are refused, and in which words."""

from __future__ import annotations

import re
from typing import Any

from . import constraints
from .kinds import Kind
from .status import bad_field
from .store import Object

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_BAD_LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_LABEL_NAME}')"
)
_LABEL_VALUE = rf"({_LABEL_NAME})?"
_BAD_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_LABEL_VALUE}')"
)
_IMMUTABLE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_MAY_CHANGE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
_TEMPLATED = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")

Causes = list[tuple[str, str]]


def valid(kind: Kind, content: Object) -> None:
    """422 with everything that is wrong with an object."""
    metadata = content["metadata"]
    name = metadata.get("name", "")
    causes: Causes = []
    if not name and not metadata.get("generateName"):
        causes.append(("metadata.name", "Required value: name or generateName is required"))
    elif name and not re.fullmatch(_SUBDOMAIN, name) and kind.group != "rbac.authorization.k8s.io":
        causes.append(("metadata.name", f'Invalid value: "{name}": {_BAD_NAME}'))
    for key, value in (metadata.get("labels") or {}).items():
        if not re.fullmatch(_LABEL_NAME, key.rpartition("/")[2]):
            causes.append(("metadata.labels", f'Invalid value: "{key}": {_BAD_LABEL_NAME}'))
        if not re.fullmatch(_LABEL_VALUE, str(value)):
            causes.append(("metadata.labels", f'Invalid value: "{value}": {_BAD_LABEL_VALUE}'))
    spec = content.get("spec") or {}
    if kind.name == "Pod":
        causes += _pod(spec, "spec", requests=True)
    elif kind.name in _TEMPLATED and not kind.custom:
        causes += _templated(spec)
    elif kind.name == "Lease" and spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        causes.append(
            ("spec.leaseDurationSeconds", f"Invalid value: {spec['leaseDurationSeconds']}: must be greater than 0")
        )
    told = {field for field, _ in causes}
    causes += [(field, message) for field, message in constraints.broken(kind, content) if field not in told]
    if causes:
        raise bad_field(kind, name, causes)


def _templated(spec: dict[str, Any]) -> Causes:
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    causes: Causes = []
    if any(labels.get(name) != value for name, value in wanted.items()):
        shown = "{" + ",".join(f'"{name}":"{value}"' for name, value in labels.items()) + "}"
        why = f"Invalid value: {shown}: `selector` does not match template `labels`"
        causes.append(("spec.template.metadata.labels", why))
    return causes + _pod(template.get("spec") or {}, "spec.template.spec", requests=False)


def _pod(spec: dict[str, Any], path: str, *, requests: bool) -> Causes:
    if not spec.get("containers"):
        return [(f"{path}.containers", "Required value")]
    causes: Causes = []
    volumes = {one.get("name") for one in spec.get("volumes") or ()}
    for index, container in enumerate(spec["containers"]):
        at = f"{path}.containers[{index}]"
        for number, port in enumerate(container.get("ports") or ()):
            if not 1 <= port.get("containerPort", 0) <= 65535:
                why = f"Invalid value: {port.get('containerPort')}: must be between 1 and 65535, inclusive"
                causes.append((f"{at}.ports[{number}].containerPort", why))
        causes += _resources(container.get("resources") or {}, f"{at}.resources", requests=requests)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            if mount.get("name") not in volumes:
                causes.append((f"{at}.volumeMounts[{number}].name", f'Not found: "{mount.get("name", "")}"'))
    return causes


def _resources(resources: dict[str, Any], at: str, *, requests: bool) -> Causes:
    """Devices cannot be shared out: whole numbers, and as many requested as are the limit."""
    limits, asked = resources.get("limits") or {}, resources.get("requests") or {}
    causes: Causes = []
    for name in sorted({*limits, *asked}):
        if "/" not in name:
            continue
        limit, request = limits.get(name), asked.get(name)
        if limit is None:
            causes.append((f"{at}.limits", "Required value: Limit must be set for non overcommitable resources"))
            continue
        # A request that is not given is the limit, and is looked at as if it had been given.
        for part, value in (("limits", limit), ("requests", (request or limit) if requests else request)):
            if value is not None and not re.fullmatch(r"\+?\d+", str(value)):
                causes.append((f"{at}.{part}[{name}]", f'Invalid value: "{value}": must be an integer'))
        if request is not None and str(request) != str(limit):
            causes.append((f"{at}.requests", f'Invalid value: "{request}": must be equal to {name} limit of {limit}'))
    return causes


def may_become(kind: Kind, old: Object, new: Object) -> None:
    """422 where a pod's specification is changed that cannot be."""
    if kind.name != "Pod" or old.get("spec") == new.get("spec"):
        return
    causes = _pod(new.get("spec") or {}, "spec", requests=True)
    if _frozen(old["spec"]) != _frozen(new.get("spec") or {}):
        causes.append(("spec", _IMMUTABLE))
    if causes:
        raise bad_field(kind, old["metadata"]["name"], causes)


def _frozen(spec: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in spec.items() if name not in _MAY_CHANGE}
    for name in ("containers", "initContainers"):
        if spec.get(name):
            found[name] = [{key: value for key, value in one.items() if key != "image"} for one in spec[name]]
    return found
