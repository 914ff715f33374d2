"""What a Slurm prolog and epilog leave on a node: one file for each GPU of each job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


class PrologWriter:
    """Writes as the exporter's schema says: whole, under another name, then renamed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o755)

    def start(
        self, job_id: int, gpu_uuids: Iterable[str], *, uid: int = 1000, shared: bool = False, **fields: object
    ) -> None:
        """The job's prolog. `shared`: with the job's number in the name, as other jobs may hold the same GPUs."""
        for uuid in gpu_uuids:
            self.write(self._name(job_id, uuid, shared), json.dumps({"job_id": job_id, "uid": uid, **fields}).encode())

    def end(self, job_id: int, gpu_uuids: Iterable[str], *, shared: bool = False) -> None:
        """The job's epilog."""
        for uuid in gpu_uuids:
            (self.directory / self._name(job_id, uuid, shared)).unlink()

    def write(self, name: str, content: bytes) -> Path:
        """Any content, for those that are not as they should be."""
        aside = self.directory / f".{name}"
        aside.write_bytes(content)
        aside.chmod(0o644)
        return aside.replace(self.directory / name)

    def _name(self, job_id: int, uuid: str, shared: bool) -> str:
        return f"{uuid}.{job_id}.json" if shared else f"{uuid}.json"
