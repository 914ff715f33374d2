"""What a request sends: read, and refused in the words of a real server where it is no object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from . import decoding, fields
from .kinds import Kind
from .routing import Target
from .status import bad_request, refusal
from .store import Object

_MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def media(headers: Mapping[str, str]) -> str:
    return (headers.get("Content-Type") or "").partition(";")[0].strip()


def manager(target: Target, headers: Mapping[str, str]) -> str:
    return target.query.get("fieldManager") or (headers.get("User-Agent") or "unknown").partition("/")[0]


def decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise bad_request(f"error decoding patch: {_parse_error(body)}") from None


def _parse_error(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    found = re.match(r"\s*([^\s\[{\"\-0-9tfn])", text)
    if found:
        return f"invalid character '{found[1]}' looking for beginning of value"
    return "unexpected end of JSON input"


def parsed(kind: Kind, headers: Mapping[str, str], body: bytes) -> Object:
    """The object of a request; without a Content-Type it is taken for JSON."""
    sent = media(headers)
    if sent not in ("", "application/json", "application/yaml"):
        why = f"the body of the request was in an unknown format - accepted media types include: {_MEDIA}"
        raise refusal(415, "UnsupportedMediaType", why)
    try:
        found = yaml.safe_load(body) if sent == "application/yaml" else fields.read(body)
    except (ValueError, yaml.YAMLError, RecursionError):
        shown = body.decode("utf-8", "replace") or "<empty>"
        why = f"couldn't get version/kind; json parse error: {_parse_error(body)} ({shown})"
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.name}): {why}") from None
    if not isinstance(found, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.name})")
    return found


def content(kind: Kind, found: Object, target: Target) -> tuple[Object, tuple[str, ...]]:
    """An object that is to be stored: of the right kind, for the right namespace, with metadata; and warnings."""
    named = found.get("kind", kind.name)
    if named != kind.name:
        why = f"converting (v1.{named}) to (core.{kind.name}): unknown conversion"
        raise bad_request(f'{named} in version "v1" cannot be handled as a {kind.name}: {why}')
    metadata = found.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}')
    if kind.namespaced and metadata.get("namespace", target.namespace) not in ("", target.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    kept, warnings = fields.checked(kind, {**found, "metadata": metadata}, target.query.get("fieldValidation", "Warn"))
    return decoding.typed(kind, kept), warnings
