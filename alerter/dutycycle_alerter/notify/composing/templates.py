"""The templates of messages: the built-in ones, and those of a site that replace them by name.

A site's templates are tried when they are loaded, so that a mistake in one is an error of the configuration that names
the line. Should one fail later all the same, the built-in one speaks: nobody is left untold.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, DictLoader, PackageLoader, TemplateError, TemplateSyntaxError

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.notify.composing.sandbox import Sandbox, render

NAMES = (
    "mail.subject.j2",
    "mail.text.j2",
    "mail.html.j2",
    "slack.head.j2",
    "slack.reply.j2",
    "brief.j2",
    "annotations.j2",
)
"""The templates that a site can replace."""
OF_ONE = frozenset({"slack.reply.j2", "annotations.j2"})
"""Those that are always about one incident."""
_LARGEST = 200_000
_logger = logging.getLogger(__name__)


class Templates:
    """Renders by name. `directory` has the site's templates; None: there are none. Raises ConfigError."""

    def __init__(self, directory: Path | None) -> None:
        built_in = PackageLoader(__package__ or "", "templates")
        self._built_in = _Environments(built_in)
        self._site = {} if directory is None else _read(directory)
        self._paths = {name: str((directory or Path()) / name) for name in self._site}
        self._environments = _Environments(ChoiceLoader([_SiteLoader(self._site, self._paths), built_in]))
        self._told: set[str] = set()
        self._lock = threading.Lock()

    @property
    def replaced(self) -> Sequence[str]:
        """Which templates are the site's."""
        return [name for name in NAMES if name in self._site]

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """What it puts out. Where a site's template fails, the log says so once, and the built-in one speaks; it speaks
        as well where that one puts out nothing.
        """
        if name not in self._site:
            return self._built_in.render(name, values)
        said = ""
        try:
            said = self._environments.render(name, values)
        except Exception as error:  # noqa: BLE001 - a template can raise whatever Python does
            self._say(name, error)
        return said if said.strip() else self._built_in.render(name, values)

    def built_in(self, name: str, values: Mapping[str, Any]) -> str:
        """What the built-in template puts out, whatever the site has."""
        return self._built_in.render(name, values)

    def check(self, name: str, values: Mapping[str, Any]) -> None:
        """Try a site's template. Raises ConfigError with its file and line."""
        try:
            self._environments.render(name, values)
        except Exception as error:
            raise ConfigError(self._fault(name, error)) from error

    def _say(self, name: str, error: Exception) -> None:
        with self._lock:
            if name in self._told:
                return
            self._told.add(name)
        _logger.error("template %s; the built-in one is used in its place", self._fault(name, error))

    def _fault(self, name: str, error: Exception) -> str:
        """`/etc/dutycycle/mail.text.j2:3: 'incident' is undefined`."""
        path, line = self._paths[name], 0
        if isinstance(error, TemplateSyntaxError):
            path, line = error.filename or path, error.lineno
        else:
            mine = set(self._paths.values())
            for frame in traceback.extract_tb(error.__traceback__):
                if frame.filename in mine:
                    path, line = frame.filename, frame.lineno or 0
        said = error.message if isinstance(error, TemplateError) else None
        where = f"{path}:{line}" if line else path
        return f"{where}: {said or f'{type(error).__name__}: {error}'}"


class _Environments:
    """One for HTML, one for everything else: which it is, a template's name says."""

    def __init__(self, loader: BaseLoader) -> None:
        self._html, self._plain = Sandbox(loader, html=True), Sandbox(loader, html=False)

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        return render(self._html if ".html." in name else self._plain, name, values)


class _SiteLoader(DictLoader):
    """Templates by name, each with its file's path, for errors to name."""

    def __init__(self, sources: Mapping[str, str], paths: Mapping[str, str]) -> None:
        super().__init__(sources)
        self._paths = paths

    def get_source(self, environment: Any, template: str) -> Any:
        source, _, fresh = super().get_source(environment, template)
        return source, self._paths[template], fresh


def _read(directory: Path) -> dict[str, str]:
    """The site's templates: those of the known names, and parts (`_NAME.j2`) that these may include."""
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix == ".j2")
    except OSError as error:
        raise ConfigError(f"notify.templates: {directory}: {error.strerror or error}") from error
    found = {}
    for path in files:
        if path.name not in NAMES and not path.name.startswith("_"):
            raise ConfigError(f"notify.templates: {path}: there is no such template; there are {', '.join(NAMES)}")
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST + 1)
            if len(content) > _LARGEST:
                raise ConfigError(f"notify.templates: {path} is larger than {_LARGEST // 1000} kB")
            found[path.name] = content.decode()
        except OSError as error:
            raise ConfigError(f"notify.templates: {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"notify.templates: {path} is not UTF-8: {error.reason}") from error
    return found
