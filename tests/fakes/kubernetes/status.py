"""Status objects: how the server says no."""

from __future__ import annotations

from typing import Any

from .kinds import Kind


class Refusal(Exception):  # noqa: N818 - it is an answer, not a mishap
    """An answer that is not what was asked for."""

    def __init__(self, code: int, body: dict[str, Any] | bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(code)
        self.code = code
        self.body = body
        """A Status, or a text that is none."""
        self.headers = headers


def failure(
    code: int,
    reason: str | None,
    message: str,
    details: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A Status object. `reason` None: a real server has none for errors it did not expect."""
    shown: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}, "status": "Failure"}
    shown["message"] = message
    if reason is not None:
        shown["reason"] = reason
    if details is not None:
        shown["details"] = details
    return {**shown, "code": code}


def refusal(
    code: int, reason: str | None, message: str, details: dict[str, Any] | None = None, **metadata: Any
) -> Refusal:
    return Refusal(code, failure(code, reason, message, details, metadata))


def unauthorized() -> Refusal:
    return refusal(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> Refusal:
    return refusal(400, "BadRequest", message)


def no_such_path() -> Refusal:
    """Nothing is served there at all: plain text."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return Refusal(404, b"404 page not found\n", headers)


def no_such_resource() -> Refusal:
    """The group is there and the resource is not."""
    return refusal(404, "NotFound", "the server could not find the requested resource", {})


def wrong_method() -> Refusal:
    return refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def about(kind: Kind, name: str, *, by_kind: bool = False) -> dict[str, Any]:
    """`details` that name an object: by its resource, or by its kind, as each error has it."""
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": kind.name if by_kind else kind.plural}


def not_found(kind: Kind, name: str) -> Refusal:
    return refusal(404, "NotFound", f'{kind.qualified} "{name}" not found', about(kind, name))


def already_exists(kind: Kind, name: str) -> Refusal:
    return refusal(409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', about(kind, name))


def conflict(kind: Kind, name: str, why: str, *, by_kind: bool = False) -> Refusal:
    shown = kind.qualified_kind if by_kind else kind.qualified
    message = f'Operation cannot be fulfilled on {shown} "{name}": {why}'
    return refusal(409, "Conflict", message, about(kind, name, by_kind=by_kind))


def modified(kind: Kind, name: str) -> Refusal:
    """The resourceVersion that was sent is not the one that is stored."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


_CAUSES = {
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
}


def invalid(who: str, details: dict[str, Any], causes: list[tuple[str, str]]) -> Refusal:
    """422. `causes` are (field, message); the reason of each follows from how its message begins."""
    listed = [
        {"reason": _CAUSES.get(message.partition(":")[0], "FieldValueInvalid"), "message": message, "field": field}
        for field, message in causes
    ]
    shown = [f"{field}: {message}" for field, message in causes]
    told = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    return refusal(422, "Invalid", f"{who} is invalid: {told}", {**details, "causes": listed})


def bad_options(causes: list[tuple[str, str]]) -> Refusal:
    """Query parameters that do not go together."""
    details = {"group": "meta.k8s.io", "kind": "ListOptions"}
    return invalid('ListOptions.meta.k8s.io ""', details, causes)


def bad_dry_run(verb: str, value: str) -> Refusal:
    """A dry run is of all stages or of none."""
    options = f"{verb.removesuffix('collection').title()}Options"
    why = f'Unsupported value: ["{value}"]: supported values: "All"'
    return invalid(f'{options}.meta.k8s.io ""', {"group": "meta.k8s.io", "kind": options}, [("dryRun", why)])


def bad_field(kind: Kind, name: str, causes: list[tuple[str, str]]) -> Refusal:
    """An object that breaks the rules of its kind."""
    return invalid(f'{kind.qualified_kind} "{name}"', about(kind, name, by_kind=True), causes)


def expired(message: str, **metadata: Any) -> Refusal:
    return refusal(410, "Expired", message, **metadata)


def too_large(revision: int, current: int) -> Refusal:
    """A resourceVersion that has not been reached, after the wait for it."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return Refusal(504, failure(504, "Timeout", message, details), (("Retry-After", "1"),))
