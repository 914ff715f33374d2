"""The file of an SQLite store."""

from pathlib import Path


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))
