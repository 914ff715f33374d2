"""What this machine knows of the network that a build needs: proxies, where pip finds packages, mirrors of Debian."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BELOW = "/run/host"
"""Where files of the machine are seen during a build."""

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_DEBIAN = "http://deb.debian.org/debian"
_SECURITY = "http://deb.debian.org/debian-security"


@dataclass(frozen=True)
class Access:
    """For a build's commands: variables, pip's configuration, and files of the machine that it names."""

    environment: dict[str, str]
    pip_conf: str
    files: tuple[Path, ...]


@cache
def access() -> Access:
    """What an engine is told by `--build-arg` and `--secret`, where a site needs that."""
    environment = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    lines = ["[global]"]
    files: list[Path] = []
    for name, value in settings.items():
        words = []
        for word in value.split():
            scheme, path = re.fullmatch(r"(file://)?(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
            if path.startswith("/") and Path(path).exists():
                # The pages of an index link to what lies beside it.
                files.append(Path(path).parent if scheme and Path(path).parent.name else Path(path))
                words.append(f"{scheme or ''}{BELOW}{path}")
            else:
                words.append(word)
        lines.append(f"{name} = {' '.join(words)}")
    return Access(environment, "\n".join(lines) + "\n", tuple(dict.fromkeys(files)))


@cache
def mirrors() -> tuple[str, str]:
    """Of Debian and of its security updates: those of this machine where it is a Debian itself."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    uris = [uri.rstrip("/") for uri in done.stdout.split()]
    debian = next((uri for uri in uris if uri.endswith("/debian")), _DEBIAN)
    security = next((uri for uri in uris if uri.endswith("/debian-security")), _SECURITY)
    return debian, security
