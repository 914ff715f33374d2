"""Grafana's HTTP API, versions 10 to 13: the one module that touches grafana-client and translates its errors.

The client and what it brings are imported when a Grafana is made: everything else works without them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dutycycle_dashboards.errors import ConflictError, GrafanaError, MissingError, TakenError, UsageError
from dutycycle_dashboards.publishing.address import is_loopback
from dutycycle_dashboards.publishing.deadline import within
from dutycycle_dashboards.publishing.inert import inert

Model = dict[str, Any]

_BYTES = 32 * 2**20
"""Of one answer."""
_WAITS = (1.0, 3.0, 9.0)
"""Seconds before it is asked again what it was too busy for."""

_TAKEN = "something else already has that uid or name"

_REMEDIES = {
    400: "it refused what was sent",
    401: "the token is unknown or expired: make one of a service account (Administration, Users and access)",
    403: "the token may not: its service account needs the role Editor, or the permissions for folders, dashboards and "
    "annotations",
    404: "it has no such thing: look whether the address is Grafana's, with the path that it is served under",
    406: "somebody saved it in a form of Grafana 13's that it does not translate",
    409: _TAKEN,
    412: "it was changed by somebody else meanwhile",
    429: "it has had too many requests: try again later",
}


@dataclass(frozen=True)
class Stored:
    """A dashboard as Grafana has it."""

    model: Model
    version: int
    folder: str
    """Its folder's uid, empty for none."""
    provisioned: bool
    newer: bool = False
    """Somebody saved it in Grafana 13's own form, which has nothing in common with the model that we write."""


@dataclass(frozen=True)
class Annotation:
    """An annotation as Grafana has it. Times are in ms since 1970; one without an end has its beginning as its end."""

    number: int
    time: int
    end: int
    text: str
    tags: tuple[str, ...]


class Grafana:
    """One Grafana, with a token. Every method raises GrafanaError."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: Path | None = None,
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import grafana_client  # noqa: PLC0415 - only push and annotate need it
            import niquests  # noqa: PLC0415
            from grafana_client import client  # noqa: PLC0415
        except ImportError as error:
            raise UsageError(
                f"{error.name} is not installed: push and annotate need the extra `dashboards`, in an environment "
                "of its own, for it replaces urllib3: in a checkout, pipx install '.[dashboards]', or make dashboards"
            ) from error
        self._url, self._token, self._sleep = url, token, sleep
        self._refused = client.GrafanaException
        self._timeouts = (client.GrafanaTimeoutError, niquests.exceptions.Timeout, TimeoutError)
        self._redirected = niquests.exceptions.TooManyRedirects
        self._failures = (niquests.exceptions.RequestException, OSError, ValueError, RecursionError)
        parts = urlsplit(url)
        host = parts.hostname or ""
        self._api = grafana_client.GrafanaApi(
            token,
            protocol=parts.scheme,
            host=f"[{host}]" if ":" in host else host,
            port=parts.port,
            # The client writes `api` right behind it.
            url_path_prefix=f"{parts.path.strip('/')}/".lstrip("/"),
            verify=True if ca_file is None else str(ca_file),
            timeout=timeout,
        )
        self._api.client.s.request = _bounded(self._api.client.s.request, timeout)
        # A redirect would carry what is sent to where nobody sent it.
        self._api.client.s.max_redirects = 0
        if is_loopback(host):
            # Nor does a proxy have a place between this machine and itself.
            self._api.client.s.trust_env = False

    def has_folder(self, uid: str) -> bool | None:
        """Whether there is a folder; None where the token is not let see it, as newer Grafana answers an Editor about
        a folder that is not there.
        """
        try:
            self._object(self._asked(f"reading the folder {uid}", lambda: self._api.folder.get_folder(uid)))
        except MissingError:
            return False
        except GrafanaError as error:
            if error.status not in (403, 500):
                raise
            return None
        return True

    def make_folder(self, uid: str, title: str) -> bool:
        """Make a folder at the top; False where it is there already. Raises TakenError where another has its title."""
        try:
            self._asked(f"making the folder {uid}", lambda: self._api.folder.create_folder(title, uid=uid))
        except (ConflictError, TakenError) as error:
            # 409 before Grafana 12, 412 since.
            if self.has_folder(uid) is False:
                raise TakenError(f"{error}. Choose another title: --folder") from error
            return False
        return True

    def dashboard(self, uid: str) -> Stored | None:
        """A dashboard, None where there is none."""
        what = f"reading the dashboard {uid}"
        try:
            answer = self._object(self._asked(what, lambda: self._api.dashboard.get_dashboard(uid)))
        except MissingError:
            return None
        except GrafanaError as error:
            if error.status != 406:
                raise
            return Stored({}, 0, "", provisioned=False, newer=True)
        model, meta = answer.get("dashboard"), answer.get("meta")
        if not isinstance(model, dict) or not isinstance(meta, dict):
            raise self._no_grafana()
        # What is in the newer form has no version in the model.
        versions = [one for one in (meta.get("version"), model.get("version")) if isinstance(one, int)]
        return Stored(
            model,
            versions[0] if versions else 0,
            str(meta.get("folderUid") or ""),
            meta.get("provisioned") is True,
            newer="apiVersion" in model and "spec" in model,
        )

    def save(self, model: Model, *, folder: str, overwrite: bool, message: str) -> int | None:
        """Make or change a dashboard; returns its new version, where Grafana says it. Raises ConflictError where
        `model["version"]` is no longer the newest, TakenError where another dashboard in the folder has its title.
        """
        sent = {"dashboard": model, "folderUid": folder, "overwrite": overwrite, "message": message}
        what = f"writing the dashboard {model['uid']}"
        answer = self._object(self._asked(what, lambda: self._api.dashboard.update_dashboard(sent)))
        version = answer.get("version")
        return version if isinstance(version, int) else None

    def annotations(self, tags: Sequence[str], *, since: int, until: int, limit: int) -> list[Annotation]:
        """Annotations of the organization that have all these tags and overlap a time range, in ms since 1970."""
        # The client's own method puts tags into the address as they are.
        listed: list[tuple[str, Any]] = [("type", "annotation"), ("limit", limit), ("from", since), ("to", until)]
        params = [*listed, *(("tags", tag) for tag in tags)]
        answer = self._asked("reading annotations", lambda: self._api.client.GET("/annotations", params=params))
        found = list(map(_annotation, answer)) if isinstance(answer, list) else [None]
        if None in found:
            raise self._no_grafana()
        return [one for one in found if one is not None]

    def add_annotation(self, fields: Mapping[str, Any]) -> None:
        """Add one to the organization, for every dashboard."""
        self._asked("writing an annotation", lambda: self._api.client.POST("/annotations", json=dict(fields)))

    def change_annotation(self, number: int, fields: Mapping[str, Any]) -> None:
        """Change these fields of one."""
        # The client's own method would send every field, and empty tags take the tags away.
        path = f"/annotations/{number}"
        self._asked("changing an annotation", lambda: self._api.client.PATCH(path, json=dict(fields)))

    def remove_annotation(self, number: int) -> None:
        """Remove one, if it is still there."""
        with suppress(MissingError):
            self._asked("removing an annotation", lambda: self._api.client.DELETE(f"/annotations/{number}"))

    def _asked(self, what: str, call: Callable[[], Any]) -> Any:
        waits = iter(_WAITS)
        while True:
            try:
                return call()
            except self._timeouts as error:
                raise self._error(what, "it did not answer in time; --timeout gives it longer") from error
            except self._refused as error:
                if error.status_code == 429 and (wait := next(waits, None)) is not None:
                    self._sleep(wait)
                    continue
                raise self._refusal(what, error.status_code, error.response) from error
            except self._redirected as error:
                raise self._error(what, "it redirects to another address; give the address that it ends at") from error
            except self._failures as error:
                raise self._error(what, inert(str(error), 300)) from error

    def _refusal(self, what: str, status: int, response: object) -> GrafanaError:
        said = response.get("message") if isinstance(response, dict) else None
        kind = {404: MissingError, 409: TakenError, 412: ConflictError}.get(status, GrafanaError)
        taken = isinstance(response, dict) and response.get("status") == "name-exists"
        if taken:
            kind = TakenError
        if status == 404 and not isinstance(response, dict):
            # Not even Grafana's own "not found".
            kind = GrafanaError
        remedy = (
            _TAKEN if taken else _REMEDIES.get(status, "it failed: its log says why" if status >= 500 else "it refused")
        )
        quoted = f' ("{inert(str(said), 300)}")' if said else ""
        error = self._error(what, f"{status}, {remedy}{quoted}", kind)
        error.status = status
        return error

    def _error(self, what: str, why: str, kind: type[GrafanaError] = GrafanaError) -> GrafanaError:
        return kind(f"Grafana at {self._url}, {what}: {why}".replace(self._token, "(the token)"))

    def _object(self, answer: object) -> Model:
        if not isinstance(answer, dict):
            raise self._no_grafana()
        return answer

    def _no_grafana(self) -> GrafanaError:
        return GrafanaError(
            f"{self._url} answers, but not as Grafana does: look whether the address is Grafana's, with the path that "
            "it is served under, and whether a log-in page stands before it"
        )


def _bounded(request: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The session's method with an end in time and in bytes: its own limit of time is for each piece of an answer."""

    def bounded(*arguments: Any, **options: Any) -> Any:
        with within(seconds):
            response = request(*arguments, **options, stream=True)
            parts, size = [], 0
            for part in response.iter_content(2**16):
                size += len(part)
                if size > _BYTES:
                    response.close()
                    raise ValueError(f"the answer is more than {_BYTES >> 20} MiB")
                parts.append(part)
            response._content, response._content_consumed = b"".join(parts), True  # noqa: SLF001 - it has no other way
            return response

    return bounded


def _annotation(said: object) -> Annotation | None:
    """None where it is none."""
    if not isinstance(said, dict):
        return None
    number, time, end = (said.get(key) or 0 for key in ("id", "time", "timeEnd"))
    text, tags = said.get("text") or "", said.get("tags") or []
    if not all(isinstance(one, int) for one in (number, time, end)) or number <= 0 or not isinstance(text, str):
        return None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return None
    return Annotation(number, time, end or time, text, tuple(tags))
