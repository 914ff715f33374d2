"""CEL, the language of admission policies, as an API server compiles and evaluates it: by CEL's own implementation."""

from __future__ import annotations

import functools
import re
from typing import Any

from tests.required import lacking

_TYPES = re.compile(r"\bObject(?:\.\w+)+(?=\s*\{)")
"""`Object.metadata{`: types that are named after the fields that are of them, which protobuf's names cannot be."""
_SEVERAL = "\nERROR: "


class CompileError(Exception):
    """What the compiler says is wrong."""


@functools.cache
def _environment() -> tuple[Any, Any]:
    """The compiler, and the class of requests."""
    try:
        from cel_expr_python import cel
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        lacking("cel-expr-python (`make test` installs it)")
    file = descriptor_pb2.FileDescriptorProto(name="tests/admission.proto", syntax="proto3")
    text, message = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for number, (field, of) in enumerate(fields.items(), start=1):
            if of == "map":
                entry = made.nested_type.add(name=f"{field.capitalize()}Entry")
                entry.options.map_entry = True
                for at, part in enumerate(("key", "value"), start=1):
                    entry.field.add(name=part, number=at, type=text, label=1)
                made.field.add(name=field, number=number, type=message, type_name=f".{name}.{entry.name}", label=3)
            elif of:
                made.field.add(name=field, number=number, type=message, type_name=f".{of.strip('*')}", label=1)
            else:
                made.field.add(name=field, number=number, type=text, label=3 if field == "groups" else 1)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    variables = {"request": cel.Type("AdmissionRequest"), "object": cel.Type.DYN, "oldObject": cel.Type.DYN}
    request = message_factory.GetMessageClass(pool.FindMessageTypeByName("AdmissionRequest"))
    return cel.NewEnv(pool, variables=variables), request


_MESSAGES: dict[str, dict[str, str]] = {
    "Object_metadata": {"annotations": "map", "labels": "map"},
    "Object_spec_template_metadata": {"annotations": "map"},
    "Object_spec_template": {"metadata": "Object_spec_template_metadata"},
    "Object_spec_jobTemplate_spec_template_metadata": {"annotations": "map"},
    "Object_spec_jobTemplate_spec_template": {"metadata": "Object_spec_jobTemplate_spec_template_metadata"},
    "Object_spec_jobTemplate_spec": {"template": "Object_spec_jobTemplate_spec_template"},
    "Object_spec_jobTemplate": {"spec": "Object_spec_jobTemplate_spec"},
    "Object_spec": {"template": "Object_spec_template", "jobTemplate": "Object_spec_jobTemplate"},
    "Object": {"metadata": "Object_metadata", "spec": "Object_spec"},
    "UserInfo": {"username": "", "uid": "", "groups": ""},
    "AdmissionRequest": {"operation": "", "namespace": "", "name": "", "userInfo": "UserInfo"},
}
"""What expressions may speak of: their fields, and what these are. Not all of what a real server has."""


@functools.lru_cache(maxsize=256)
def program(expression: str) -> Any:
    """Compiled once. Raises CompileError in the words of an API server."""
    environment, _ = _environment()
    try:
        return environment.compile(_TYPES.sub(lambda name: name[0].replace(".", "_"), expression))
    except RuntimeError as error:
        raise CompileError(_words(str(error), expression)) from None


def _words(told: str, expression: str) -> str:
    first = told.partition("ERROR: ")[2].partition(_SEVERAL)[0].removesuffix(" [INVALID_ARGUMENT]")
    position, _, below = first.partition("\n")
    mark = below.rpartition("\n")[2]
    return f"ERROR: {position.partition(' not found in struct')[0]}\n | {expression}\n{mark}"


def evaluate(expression: str, request: dict[str, Any], content: dict[str, Any], old: dict[str, Any] | None) -> Any:
    """Truth, or an object as a dictionary. Raises CompileError, or RuntimeError where it fails on this object."""
    from google.protobuf import json_format

    _, message = _environment()
    asked = json_format.ParseDict(request, message(), ignore_unknown_fields=True)
    found = program(expression).eval(data={"request": asked, "object": content, "oldObject": old})
    if found.type().name() == "*error*":
        raise RuntimeError(str(found.value()))
    value = found.value()
    return value if isinstance(value, bool) else json_format.MessageToDict(value, preserving_proto_field_name=True)
