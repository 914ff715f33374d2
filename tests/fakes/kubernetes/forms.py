"""In which form an answer is wanted (JSON, YAML, metadata only) and how it is written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from .status import Refusal, failure
from .store import encode

_COMPRESSED_FROM = 128 * 1024
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_UNACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)


@dataclass(frozen=True, slots=True)
class Form:
    """What the Accept header asks for. `partial`: metadata only; `aggregated`: all groups in one answer."""

    yaml: bool = False
    partial: bool = False
    aggregated: bool = False
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `lines` is given in place of a body for a watch."""

    code: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    lines: Iterator[bytes] | None = None


def form(accept: str | None, *, pretty: bool) -> Form:
    """406 where nothing that is asked for can be had."""
    for part in (accept or "*/*").split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        options = dict(piece.partition("=")[::2] for piece in rest)
        wanted = options.get("as", "")
        if media == "application/json" and wanted.startswith("PartialObjectMetadata"):
            return Form(partial=True, pretty=pretty)
        if media == "application/json" and wanted == "APIGroupDiscoveryList" and options.get("v") == "v2":
            return Form(aggregated=True, pretty=pretty)
        if media == "application/yaml" and not wanted:
            return Form(yaml=True)
        if media in ("application/json", "application/*", "*/*") and not wanted:
            return Form(pretty=pretty)
    body = json.dumps(failure(406, "NotAcceptable", _UNACCEPTABLE, {}), indent=2).encode()
    raise Refusal(406, body, (("Content-Type", "application/json"),))


def reply(code: int, body: bytes, wanted: Form, *warnings: str) -> Reply:
    """An answer whose JSON is made."""
    headers = tuple(("Warning", f'299 - "{_quoted(warning)}"') for warning in warnings)
    if wanted.yaml:
        return Reply(code, yaml.safe_dump(json.loads(body)).encode(), (("Content-Type", "application/yaml"), *headers))
    if wanted.pretty:
        body = json.dumps(json.loads(body), indent=2, ensure_ascii=False).encode()
    return Reply(code, body, (("Content-Type", "application/json"), *headers))


def discovery(body: Any) -> Reply:
    headers = (("Content-Type", _DISCOVERY), ("Vary", "Accept"))
    return Reply(200, encode(body), headers)


def refused(no: Refusal) -> Reply:
    if isinstance(no.body, bytes):
        return Reply(no.code, no.body, no.headers)
    return Reply(no.code, encode(no.body) + b"\n", (("Content-Type", "application/json"), *no.headers))


def compressed(answer: Reply, accepted: str | None) -> Reply:
    """As it goes to who takes gzip: only what is large is worth it."""
    if "gzip" not in (accepted or "") or len(answer.body) <= _COMPRESSED_FROM:
        return answer
    headers = (("Content-Encoding", "gzip"), *answer.headers, ("Vary", "Accept-Encoding"))
    return Reply(answer.code, gzip.compress(answer.body, compresslevel=1, mtime=0), headers)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
