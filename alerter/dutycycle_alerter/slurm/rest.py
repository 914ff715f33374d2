"""Slurm by slurmrestd: versions negotiated, token read anew for each call, errors said with their remedy."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from dutycycle_alerter.bounded_http import Answer, Connections
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.slurm import UNIX, Slurm
from dutycycle_alerter.slurm import documents
from dutycycle_alerter.slurm.documents import Table
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.figures import read_figures
from dutycycle_alerter.slurm.model import FinalFigures, SlurmNode

VERSIONS = tuple(f"v0.0.{number}" for number in (43, 42, 41, 40, 39, 38, 37, 36, 44, 45))
"""In the order in which they are tried: the newest whose shapes are known, then older ones, then what came after."""
_CONTROLLER, _ACCOUNTING = "slurm", "slurmdb"
_TOKEN_BYTES = 65536
_NO_CHANGES = re.compile(r"No (?:job|node)s? changes? since", re.IGNORECASE)


class Slurmrestd:
    """One slurmrestd. Not for several threads at once."""

    def __init__(self, settings: Slurm) -> None:
        url = settings.url or ""
        unix = url.removeprefix(UNIX) if url.startswith(UNIX) else None
        self._shown = f"slurmrestd at {url}"
        self._base = "http://localhost" if unix else url
        self._settings = settings
        self._connections = Connections(settings.timeout, tls=_tls(settings.ca_file), unix_socket=unix)
        self._versions: dict[str, str] = {}

    def jobs(self, since: int | None, nonsense: Nonsense) -> Table | None:
        """All jobs; None where none has changed since that time of the server's. Raises SourceError."""
        answer, where = self._call(_CONTROLLER, "jobs" if since is None else f"jobs?update_time={since}")
        if answer.status == 304:
            return None
        document = self._document(answer, where)
        if since is not None and document.get("jobs") == [] and _says_unchanged(document):
            return None
        return documents.read_jobs(document, where, nonsense)

    def nodes(self, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
        """All nodes. Raises SourceError."""
        answer, where = self._call(_CONTROLLER, "nodes")
        return documents.read_nodes(self._document(answer, where), where, nonsense)

    def figures(self, jobs: Sequence[int], since: float, nonsense: Nonsense) -> list[FinalFigures]:
        """Every run of these jobs that is over and was there since that time. Raises SourceError."""
        # 22.05 takes no bare comma in a query. A time as "uts" is the same in every time zone.
        query = f"jobs?step={quote(','.join(map(str, jobs)), safe='')}&start_time=uts{int(since)}"
        answer, where = self._call(_ACCOUNTING, query)
        document = self._document(answer, where, nothing_found=True)
        return read_figures(document, where, nonsense)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _call(self, service: str, path: str) -> tuple[Answer, str]:
        """The answer of the version that is known to work, or of the first that does: 404 is another version's."""
        headers = self._headers()
        known = self._versions.pop(service, None)
        for version in (*((known,) if known else ()), *VERSIONS):
            where = f"{self._shown}: /{service}/{version}/{path.partition('?')[0]}"
            try:
                answer = self._connections.request(
                    "GET",
                    f"{self._base}/{service}/{version}/{path}",
                    headers=headers,
                    max_bytes=self._settings.max_bytes,
                )
            except SourceError as error:
                if known:
                    self._versions[service] = known
                raise type(error)(f"{self._shown}: {error} (slurm.timeout, slurm.max_bytes)") from error
            if answer.status != 404:
                self._versions[service] = version
                return answer, where
        remedy = (
            "set slurm.accounting to false or have it load the plugin for slurmdbd (slurmrestd -s)"
            if service == _ACCOUNTING
            else "is slurm.url right? It ends before /slurm"
        )
        raise SourceError(f"{self._shown}: /{service} answers for no version from v0.0.36 to v0.0.45: {remedy}")

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._settings.user:
            headers["X-SLURM-USER-NAME"] = self._settings.user
        if token := self._token():
            headers["X-SLURM-USER-TOKEN"] = token
        return headers

    def _token(self) -> str:
        path = self._settings.token_file
        if path is not None:
            try:
                with path.open("rb") as file:
                    text = file.read(_TOKEN_BYTES + 1).decode("ascii")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not a token"
                raise SourceError(f"slurm.token_file {path}: {reason}") from error
        elif self._settings.token is not None:
            text = self._settings.token.get_secret_value()
        else:
            text = os.environ.get("SLURM_JWT", "")
        # What scontrol token prints may be written to the file as it is.
        token = text.strip().removeprefix("SLURM_JWT=")
        if not re.fullmatch(r"[\x21-\x7e]*", token) or len(token) > _TOKEN_BYTES or (path and not token):
            raise SourceError(f"slurm.token_file {path}: no token in it; `scontrol token` makes one")
        return token

    def _document(self, answer: Answer, where: str, *, nothing_found: bool = False) -> dict[str, object]:
        if answer.status in (401, 403):
            raise SourceError(
                f"{where}: answered {answer.status}: no token, or one that has ended or is not the user's: see "
                "slurm.token_file and slurm.user"
            )
        if answer.status == 200:
            return documents.parse(answer.body, where)
        try:
            document = documents.parse(answer.body, where)
        except SourceError:
            document = {}
        if nothing_found and documents.error_number(document) == documents.NOTHING_FOUND:
            return document
        reason = documents.complaint(document)
        # What 22.05 answers to a wrong token is the same as where slurmctld is down.
        raise SourceError(
            f"{where}: answered {answer.status}{': ' if reason else ''}{reason}. Is slurmctld up (scontrol ping)? "
            "A token that has ended is answered like this, too: see slurm.token_file"
        )


def _tls(ca_file: Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:
        raise SourceError(f"slurm.ca_file {ca_file}: {error.strerror or error}") from error


def _says_unchanged(document: Mapping[str, object]) -> bool:
    """From 23.02 on it is a warning beside an empty list, and not a status."""
    warnings = document.get("warnings")
    return isinstance(warnings, list) and any(
        isinstance(warning, dict) and _NO_CHANGES.search(str(warning.get("description", ""))) for warning in warnings
    )
