"""Slurm: where its REST daemon is and how to get in, or where its commands are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from dutycycle_alerter.settings.types import Duration, RealDuration, Section, Whole

UNIX = "unix://"


def _url(url: str) -> str:
    remedy = "expected a URL like http://slurm:6820, https://slurm/rest or unix:///run/slurmrestd.socket"
    if url.startswith(UNIX):
        if not re.fullmatch(r"unix:///\S{1,100}", url):
            raise ValueError(remedy)
        return url
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(remedy) from None
    if not re.fullmatch(r"https?://[^\s/?#\\][^\s\\]*", url) or not parts.hostname or port == 0:
        raise ValueError(remedy)
    if parts.username is not None:
        raise ValueError("a user in the URL would be logged: give user and token_file")
    if parts.query or parts.fragment or re.search(r"/slurm(db)?(/|$)", parts.path):
        raise ValueError("ends before /slurm/v0.0..., which is added")
    return url.rstrip("/")


def _token(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x21-\x7e]+", value.get_secret_value()):
        raise ValueError("is empty or has characters that a token cannot have")
    return value


class Slurm(Section):
    """Whom Slurm says that jobs belong to, what they asked for and how they ended."""

    url: Annotated[str, AfterValidator(_url)] | None = None
    """slurmrestd's address: http(s)://host:6820 or unix:///path. Without it Slurm's commands are run."""
    user: str = Field(default="", max_length=256, pattern=r"^[\x21-\x7e]*$")
    """The user that the token is for, where slurmrestd asks for it."""
    token: Annotated[SecretStr, AfterValidator(_token)] | None = None
    """A JSON web token, as `scontrol token` makes them. Without token and token_file that of the environment variable
    SLURM_JWT is taken, if there is one.
    """
    token_file: Path | None = None
    """The file that holds the token, read for every call: tokens end, and a timer renews it."""
    ca_file: Path | None = None
    """Certificates (PEM) of those who may have signed the server's, instead of the system's."""
    command_directory: Path | None = None
    """Where squeue, scontrol, sinfo and sacct are, if not on the PATH."""
    cluster: str = Field(default="", max_length=256)
    """Only jobs whose exporters have this --cluster are Slurm's jobs here; all, where it is empty."""
    gpu_order: Literal["nvml", "unknown"] = "unknown"
    """What Slurm's GPU indexes count, where metrics name no jobs: `nvml` if each node lists all its GPUs by PCI address
    (AutoDetect=nvml). Otherwise only jobs that hold whole nodes are found.
    """
    timeout: RealDuration = 30
    """How long one call may take, the whole answer included."""
    max_bytes: Whole = Field(default=2**28, ge=2**16)
    """An answer that is larger than this is refused; a job takes 3 to 10 kB."""
    full_interval: Duration = 300
    """How often all jobs are read even if Slurm says that nothing has changed, so that no clock can hide a change."""
    nodes_interval: Duration = 60
    """How often nodes are read; jobs are at every pass."""
    accounting: bool = True
    """Whether the accounting database (slurmdbd) is asked for the final figures of jobs that have ended."""
    accounting_lookback: Duration = 7 * 86400
    """How far back a job that ended is looked for there, from its start."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file exclude each other: remove one")
        if self.url is None:
            for key in ("user", "token", "token_file", "ca_file"):
                if getattr(self, key):
                    raise ValueError(f"{key} is given, but no url: Slurm's commands need none of it")
        elif self.command_directory is not None:
            raise ValueError("url and command_directory exclude each other: remove one")
        if self.ca_file is not None and not (self.url or "").startswith("https:"):
            raise ValueError("ca_file means nothing for this url: it must begin with https")
        return self
