"""pytest fixtures of the double; tests/conftest.py offers them to every test."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml
import pytest

from .compiler import Libraries, build, find_gcc
from .driver import Driver


@pytest.fixture(scope="session")
def nvml_libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """The double, compiled once a session. Skips where there is no gcc, except in CI, which must have it."""
    if find_gcc() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("gcc is missing; CI must test against the NVML double")
        pytest.skip("the NVML double needs gcc")
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def nvml_library(nvml_libraries: Libraries) -> Path:
    """The directory to put on LD_LIBRARY_PATH."""
    return nvml_libraries.directory


@pytest.fixture
def nvml_driver(nvml_libraries: Libraries, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Makes drivers with the arguments of Driver after the libraries, closed at the test's end."""
    with ExitStack() as stack:

        def make(name: str = "nvml-state", **options: Any) -> Driver:
            return stack.enter_context(Driver(tmp_path / name, nvml_libraries, **options))

        yield make


@pytest.fixture
def pynvml_double(nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """pynvml in this process, bound to the double for one test.

    For tests of what NVML answers; it finds the driver that NVML_DOUBLE_STATE names when nvmlInit is called.
    """
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library / "libnvidia-ml.so.1")))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    module: ModuleType = pynvml
    return module
