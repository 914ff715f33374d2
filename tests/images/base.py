"""The base of the images: what the image `debian:SUITE-slim` has, made by debootstrap."""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
import subprocess
from pathlib import Path

from tests.images import machine
from tests.images.store import Store

PROGRAMS = ("debootstrap", "unshare", "chroot", "setpriv")

_DOCUMENTS = ("doc/*", "info", "linda", "lintian", "locale", "man")
_EXCLUDED = "".join(f"path-exclude /usr/share/{name}{'' if name.endswith('*') else '/*'}\n" for name in _DOCUMENTS)
_SOURCES = """\
Types: deb
URIs: {0}
Suites: {2} {2}-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: {1}
Suites: {2}-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def base(name: str, store: Store) -> Path:
    """The root of the image of that name; nobody may write to it. Raises ValueError where it is not Debian's slim."""
    match = re.fullmatch(r"debian:([a-z]+)-slim", name)
    if match is None:
        raise ValueError(f"{name}: only debian:SUITE-slim can be made here")
    debian, security = machine.mirrors()
    suite = match[1]
    making = (suite, debian, security, inspect.getsource(inspect.getmodule(base)))  # type: ignore[arg-type]
    key = hashlib.sha256(repr(making).encode()).hexdigest()
    return store.get(f"base-{suite}", key, lambda directory: _bootstrap(directory / "root", suite)) / "root"


def _bootstrap(root: Path, suite: str) -> None:
    debian, security = machine.mirrors()
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", suite, str(root), debian],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"debootstrap ended with {done.returncode}\n{done.stdout[-4000:]}")
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(_SOURCES.format(debian, security, suite))
    (root / "etc/dpkg/dpkg.cfg.d/docker").write_text(
        f"force-unsafe-io\n{_EXCLUDED}path-include /usr/share/doc/*/copyright\n"
    )
    for pattern in (
        "dev/*",
        "var/cache/apt/*",
        "var/lib/apt/lists/*",
        "var/log/*",
        *(f"usr/share/{d}" for d in _DOCUMENTS),
    ):
        for path in root.glob(pattern):
            _remove(path)
    # An engine mounts its own on these.
    for name in ("resolv.conf", "hosts", "hostname"):
        (root / "etc" / name).unlink(missing_ok=True)
        (root / "etc" / name).touch()


def _remove(path: Path) -> None:
    """All but who holds which rights."""
    if not path.is_dir() or path.is_symlink():
        path.unlink()
    elif (path / "copyright").exists():
        for other in path.iterdir():
            if other.name != "copyright":
                _remove(other)
    else:
        shutil.rmtree(path)
