"""The two images, made by what their Dockerfiles say, and kept as long as nothing changes that goes into them."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.images import building, container, context, dockerfile, machine
from tests.images.base import base
from tests.images.building import Build, Surroundings
from tests.images.context import Context
from tests.images.store import Store

REPOSITORY = Path(__file__).parents[2]
STORE = Path(sys.prefix) / "images"
ELSEWHERE = Surroundings(host="elsewhere", environment={"TZ": "<+13>-13"})
"""Where a second image is built: by the clock on its wall it is mostly tomorrow."""


@dataclass(frozen=True)
class Image:
    """What an engine knows of an image. `root` is shared by all tests: it is for reading."""

    root: Path
    env: Mapping[str, str]
    user: tuple[int, int]
    workdir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    labels: Mapping[str, str]
    exposed: tuple[int, ...]
    stop_signal: str
    arguments: Mapping[str, str]
    """What the build was told of the commit."""
    base: Path
    """The root that it was made from."""
    seconds: float
    """How long that took, without the base."""


def arguments() -> dict[str, str]:
    """Those of `make images`."""
    done = subprocess.run(
        ["make", "--silent", "image-arguments"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return dict(line.split("=", 1) for line in done.stdout.split())


def build(component: str, store: Store, *, like: Image | None = None) -> Image:
    """The image of `exporter` or `alerter`; with `like`, a second one that is told the same, elsewhere."""
    path = REPOSITORY / component / "Dockerfile"
    text = path.read_text()
    seen = Context(REPOSITORY)
    given = dict(like.arguments) if like else arguments()
    found = [each for each in dockerfile.parse(text) if each.name == "ARG" and each.words[0].startswith("BASE=")]
    root = base(found[0].words[0].partition("=")[2], store)
    modules = [
        inspect.getsource(module)
        for module in (building, container, context, dockerfile, machine, sys.modules[__name__])
    ]
    sources = [
        word
        for each in dockerfile.parse(text)
        if each.name == "COPY" and "from" not in each.flags
        for word in each.words[:-1]
    ]
    # The commit alone changes no file: a new one would be a new image each time.
    parts = [
        text,
        root.name,
        str(root),
        seen.digest(sources),
        *modules,
        *sorted(like.arguments.values() if like else ()),
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def make(directory: Path) -> None:
        started = time.monotonic()
        scratch = directory / "stages"
        scratch.mkdir()
        pip_conf = scratch / "pip.conf"
        pip_conf.touch(0o600)
        pip_conf.write_text(machine.access().pip_conf)
        elsewhere = ELSEWHERE if like else None
        stage = Build(seen, lambda _: root, scratch, elsewhere, {"pip.conf": pip_conf}).run(text, given)
        stage.root.rename(directory / "root")
        building.remove(scratch)
        config = {name: getattr(stage, name) for name in _FIELDS}
        config["arguments"] = given
        config["seconds"] = time.monotonic() - started
        (directory / "image.json").write_text(json.dumps(config))

    directory = store.get(f"second-{component}" if like else component, key, make)
    config = json.loads((directory / "image.json").read_text())
    tuples = {name: tuple(config[name]) for name in ("user", "entrypoint", "cmd", "exposed")}
    return Image(root=directory / "root", base=root, **{**config, **tuples})


_FIELDS = [
    field.name for field in dataclasses.fields(Image) if field.name not in {"root", "arguments", "base", "seconds"}
]
