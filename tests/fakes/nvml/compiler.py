"""Compiles the double with gcc."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import layout

FLAGS = (
    "-std=c11",
    "-D_DEFAULT_SOURCE",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Werror",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-shared",
)
PUBLISHER = "publish.c"


@dataclass(frozen=True)
class Libraries:
    """What the build made."""

    directory: Path
    """For LD_LIBRARY_PATH: holds libnvidia-ml.so.1 and nothing else that a program could load by accident."""

    publisher: Path
    """The writer's side, which the driver loads."""


def find_gcc() -> str | None:
    """The C compiler's path, None where there is none."""
    return shutil.which("gcc")


def compile_c(arguments: list[str]) -> None:
    """Runs gcc in the source folder; what it says when it fails is the error's text."""
    done = subprocess.run(
        ["gcc", *arguments], cwd=layout.SOURCE, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise RuntimeError(f"gcc {' '.join(arguments)}\n{done.stderr}")


def build(directory: Path) -> Libraries:
    """Compiles both libraries below `directory`, checking first that C and Python agree about the shared block."""
    library = directory / "lib"
    library.mkdir(parents=True, exist_ok=True)
    check = directory / "layout_check.c"
    structures = {f"struct {name}": structure for name, structure in layout.STRUCTURES.items()}
    check.write_text('#include "state.h"\n' + layout.assertions(structures))
    compile_c(["-std=c11", f"-I{layout.SOURCE}", "-fsyntax-only", str(check)])

    sources = sorted(path.name for path in layout.SOURCE.glob("*.c") if path.name != PUBLISHER)
    # No soname: loaded by its path into a process of tests, it must not answer for the real library afterwards.
    target = library / "libnvidia-ml.so.1"
    compile_c([*FLAGS, "-o", str(target), *sources])
    publisher = directory / "publish.so"
    compile_c([*FLAGS, "-o", str(publisher), PUBLISHER])
    return Libraries(directory=library, publisher=publisher)


def load_publisher(libraries: Libraries) -> ctypes._NamedFuncPointer:
    """The function `publish(sequence, to, from, size)` of src/publish.c."""
    publish = ctypes.CDLL(str(libraries.publisher)).publish
    publish.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
    publish.restype = None
    return publish
