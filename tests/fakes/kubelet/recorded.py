"""The 49 exchanges that were recorded of a real kubelet, which are kept beside the repository and not in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).parents[3] / "../shared/data/kubernetes"

LIST = "/v1.PodResourcesLister/List"
"""What was called where a record does not say."""


@dataclass(frozen=True)
class Exchange:
    """One call: `reply` and `textproto` are None where the answer was an error. `number` is the gRPC status."""

    name: str
    method: str
    request: bytes
    number: int
    message: str
    reply: bytes | None
    textproto: str | None
    elsewhere: bool
    """Whether the status was the client's own: there was no kubelet."""


def exchanges() -> list[str]:
    """The names of what was recorded; none where the recordings are missing."""
    found = (DIRECTORY / "09-podresources").glob("*.grpc.json")
    return sorted(path.name.removesuffix(".grpc.json") for path in found)


def exchange(name: str) -> Exchange:
    """One of them."""
    directory = DIRECTORY / "09-podresources"
    record = json.loads((directory / f"{name}.grpc.json").read_text())
    body, text = directory / f"{name}.bin", directory / f"{name}.textproto"
    return Exchange(
        name=name,
        method=record.get("grpc", LIST),
        request=bytes.fromhex(record.get("request_hex", "")),
        number=record.get("code_number", 0 if record["code"] == "OK" else 14),
        message=record["message"],
        reply=body.read_bytes() if body.exists() else None,
        textproto=text.read_text() if text.exists() else None,
        elsewhere=record["code"] == "UNAVAILABLE",
    )


@dataclass(frozen=True)
class Recordings:
    """Everything that was recorded."""

    directory: Path

    def __iter__(self) -> Iterator[Exchange]:
        return (exchange(name) for name in exchanges())

    def __getitem__(self, name: str) -> Exchange:
        return exchange(name)

    def http(self, name: str) -> bytes:
        """The body of a recorded reply of the API server."""
        return (self.directory / f"{name}.res.json").read_bytes()


@pytest.fixture(scope="session")
def recordings() -> Recordings:
    """Skips where there are none, except in CI."""
    if not exchanges():
        missing = "no recorded exchanges of a kubelet beside the repository (../shared/data)"
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(f"{missing}: a run that decides must not leave out what they show")
        pytest.skip(missing)
    return Recordings(DIRECTORY)
