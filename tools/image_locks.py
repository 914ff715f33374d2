"""Parts of requirements.lock that go into the container images, as files: a build cannot ask what an extra needs."""

from __future__ import annotations

from tools.locked_extra import LOCK, locked, needed, text

BUILDER = "hatchling"


def exporter() -> bytes:
    """Of the exporter's image."""
    return text(["exporter"]).encode()


def alerter() -> bytes:
    """Of the alerter's, with all that its configuration can ask for."""
    return text(["alerter", "apprise"]).encode()


def build() -> bytes:
    """Of what makes the wheel of this project."""
    lock = locked(LOCK.read_text())
    names = needed((), lock, BUILDER) | {BUILDER}
    return "".join(f"{entry}\n" for name in sorted(names) for entry in lock[name]).encode()
