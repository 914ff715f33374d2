"""What is asked for, and how much at most: quantities, as Kubernetes writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from .cluster import Cluster, title

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_OWN = ("cpu", "memory", "ephemeral-storage")


def amount(text: object) -> Decimal | None:
    """None for what is no quantity."""
    found = _QUANTITY.fullmatch(str(text)) if isinstance(text, str | int) and not isinstance(text, bool) else None
    if found is None:
        return None
    number, suffix = Decimal(found[1]), found[2] or ""
    if suffix in _BINARY:
        return number * 1024 ** _BINARY[suffix]
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * Decimal(10) ** exponent


def quantities(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for path, container in pod.containers():
            yield from _of(f"{path}.resources", container.get("resources") or {})
        for volume in pod.spec.get("volumes") or ():
            limit = (volume.get("emptyDir") or {}).get("sizeLimit")
            if limit is not None and (amount(limit) or 0) <= 0:
                yield f"{pod}.volumes[{volume.get('name')}]: sizeLimit {limit!r}"
    for claim in cluster.of("PersistentVolumeClaim"):
        resources = claim["spec"].get("resources") or {}
        yield from _of(f"{title(claim)}: spec.resources", resources, known=("storage",))
        if (amount((resources.get("requests") or {}).get("storage")) or 0) <= 0:
            yield f"{title(claim)}: spec.resources.requests.storage is missing"


def _of(path: str, resources: dict[str, Any], known: tuple[str, ...] = _OWN) -> Iterator[str]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, given in (("limits", limits), ("requests", requests)):
        for name, value in given.items():
            found = amount(value)
            if found is None:
                yield f"{path}.{part}.{name}: {value!r} is no quantity"
            elif found < 0:
                yield f"{path}.{part}.{name}: {value} is negative"
            elif "/" in name and found != found.to_integral_value():
                yield f"{path}.{part}.{name}: {value} is not a whole number"
            elif name == "memory" and found < 2**20 and found > 0:
                yield f"{path}.{part}.{name}: {value} is less than a mebibyte: a suffix is missing"
            if "/" not in name and name not in known and not name.startswith("hugepages-"):
                yield f"{path}.{part}.{name}: there is no such resource"
    for name, value in requests.items():
        asked, limit = amount(value), amount(limits.get(name))
        if "/" in name and name not in limits:
            yield f"{path}.requests.{name}: a device needs a limit"
        elif asked is not None and limit is not None and "/" in name and asked != limit:
            yield f"{path}.requests.{name}: {value} is not its limit, {limits[name]}"
        elif asked is not None and limit is not None and asked > limit:
            yield f"{path}.requests.{name}: {value} is more than its limit, {limits[name]}"
