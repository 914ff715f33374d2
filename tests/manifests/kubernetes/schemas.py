"""Whether an object is what the published schema of its kind says, at a version of Kubernetes, and nothing besides."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs
import kubernetes_validate

from tests.required import lacking

from .rendering import ROOT, Object

CUSTOM = ROOT / ".venv" / "crd-schemas.json"
OLDEST, NEWEST = "1.30", "1.37"
SINCE = {
    "MutatingAdmissionPolicy": "1.36",
    "MutatingAdmissionPolicyBinding": "1.36",
}
"""Kinds that we use though the oldest Kubernetes does not have them, in a component that says so."""


def objections(one: Object, version: str) -> list[str]:
    """What the schema has against it. A kind that nobody has published is an objection, too."""
    return list(_objections(json.dumps(one, sort_keys=True), version))


# The same objects are in many renderings.
@cache
def _objections(text: str, version: str) -> tuple[str, ...]:
    one = json.loads(text)
    where = f"{one.get('kind')} {one.get('metadata', {}).get('name')}"
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return (f"{where}: {'.'.join(str(part) for part in error.path)}: {error.message[:300]}",)
    except kubernetes_validate.SchemaNotFoundError:
        return tuple(f"{where}: {found}" for found in _custom(one))
    return ()


def _custom(one: Object) -> list[str]:
    name = f"{one.get('apiVersion')}/{one.get('kind')}"
    validator = _validators().get(name)
    if validator is None:
        return [f"no schema is published for {name}"]
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in validator.iter_errors(one)]


@cache
def _validators() -> dict[str, jsonschema_rs.Draft202012Validator]:
    if not CUSTOM.exists():
        lacking(f"{CUSTOM.name} (`make test` fetches it)")
    published: dict[str, Any] = json.loads(CUSTOM.read_text())

    def validator(name: str) -> jsonschema_rs.Draft202012Validator:
        pointer = name.replace("/", "~1")
        return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{pointer}", "$defs": published["$defs"]})

    return {name: validator(name) for name in published["$defs"] if "/" in name}
