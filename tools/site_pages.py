"""MkDocs' hook for `make docs`: pages that documents link to outside docs/, and the runbooks' place in the navigation.

On a repository's page a link from a document to a manifest, an example or a measurement leads to the file. The site has
only docs/: so each such file becomes a page below `repository/`, and the links lead there. It imports MkDocs, and so
runs in the site's own environment alone.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python", ".sh": "bash", ".service": "ini"}
_OUTSIDE = "repository/"

_pages: dict[str, str] = {}
"""Path in the repository -> path of the page in the site, of everything that is linked."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A folder in the navigation stands for its pages, by name."""
    config.nav = [_opened(entry, Path(config.docs_dir)) for entry in config.nav or []]
    return config


def _opened(entry: Any, docs: Path) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {title: _listed(value, docs) for title, value in entry.items()}


def _listed(value: Any, docs: Path) -> Any:
    if isinstance(value, list):
        return [_opened(entry, docs) for entry in value]
    if not value.endswith("/"):
        return value
    names = sorted(path.name for path in (docs / value).glob("*.md"))
    return [value + name for name in sorted(names, key=lambda name: name not in ("index.md", "README.md"))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page links to, also by way of another such page."""
    root = Path(config.config_file_path).parent
    _pages.clear()
    _pages.update({f"docs/{file.src_uri}": file.src_uri for file in files})
    waiting = [path for path in _pages if path.endswith(".md")]
    while waiting:
        source = waiting.pop()
        for path in _linked(source, (root / source).read_text(encoding="utf-8")):
            if path in _pages or not (root / path).exists():
                continue
            path_of_text, text = _page(root, path)
            _pages[path] = _OUTSIDE + (path if path.endswith(".md") else f"{path}.md")
            files.append(File.generated(config, _pages[path], content=text))
            if path_of_text.endswith(".md"):
                _pages.setdefault(path_of_text, _pages[path])
                waiting.append(path_of_text)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links out of docs/ to the pages that were added."""
    uri = page.file.src_uri
    source = next((path for path, found in _pages.items() if found == uri and path.endswith(".md")), f"docs/{uri}")

    def led(match: re.Match[str]) -> str:
        target = _pages.get(_path(source, match[2]))
        inside = not uri.startswith(_OUTSIDE) and target is not None and not target.startswith(_OUTSIDE)
        if target is None or inside:
            return match[0]
        return match[1] + posixpath.relpath(target, posixpath.dirname(uri)) + match[3]

    return _LINK.sub(led, markdown)


def _linked(source: str, text: str) -> list[str]:
    return [path for match in _LINK.finditer(text) if not (path := _path(source, match[2])).startswith("..")]


def _path(source: str, link: str) -> str:
    """Where a link leads, from the repository's root."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _page(root: Path, path: str) -> tuple[str, str]:
    """(the file that a page shows, the page) of a file or folder."""
    file = root / path
    if file.is_dir():
        if (file / "README.md").exists():
            return f"{path}/README.md", (file / "README.md").read_text(encoding="utf-8")
        names = "\n".join(f"- `{child.name}`" for child in sorted(file.iterdir()) if not child.name.startswith("__"))
        return path, f"# {path}\n\nIn the repository:\n\n{names}\n"
    text = file.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return path, text
    fence, language = "`" * 4, _LANGUAGES.get(file.suffix, "")
    return path, f"# {file.name}\n\n`{path}` in the repository:\n\n{fence}{language}\n{text}\n{fence}\n"
