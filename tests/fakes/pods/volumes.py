"""Makes a pod's volumes on disk as the kubelet does: files, their modes, and whose they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .fields import Fields, UnsupportedFieldError

_READABLE, _WRITABLE = 0o440, 0o660
_TYPES = {"Directory": stat.S_ISDIR, "File": stat.S_ISREG, "Socket": stat.S_ISSOCK, "CharDevice": stat.S_ISCHR}


@dataclass(frozen=True)
class Sources:
    """Where volumes come from. `host` finds a path of the node, `claim` a claim's directory, `object_of` the data of a
    ConfigMap or Secret, `token` what a service account shows to an audience.
    """

    host: Callable[[str], Path]
    claim: Callable[[str], Path]
    object_of: Callable[[str, str], Mapping[str, str] | None]
    token: Callable[[str], str]
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Volume:
    """A directory or file, and whether every mount of it is for reading."""

    path: Path
    read_only: bool


class Volumes:
    """Below a pod's directory. What an emptyDir holds has no limit here."""

    def __init__(self, directory: Path, sources: Sources, fs_group: int | None) -> None:
        self._directory, self._sources, self._group = directory, sources, fs_group

    def make(self, name: str, volume: Mapping[str, Any], nested: Iterable[str]) -> Volume:
        """`nested` are directories in it that other volumes are mounted on."""
        with Fields(f"volumes.{name}", volume) as fields:
            if host := fields.get("hostPath"):
                return self._host(name, host)
            if claim := fields.get("persistentVolumeClaim"):
                with Fields(f"volumes.{name}.persistentVolumeClaim", claim) as one:
                    path = self._sources.claim(one.get("claimName"))
                    self._owned(path, _WRITABLE)
                    return Volume(path, one.get("readOnly", False))
            path = self._directory / name
            path.mkdir(parents=True)
            if "emptyDir" in volume:
                with fields.within("emptyDir", ("sizeLimit",)) as empty:
                    empty.only("medium", "", "Memory")
                path.chmod(0o777)
                self._owned(path, _WRITABLE)
                read_only = False
            else:
                self._fill(path, name, fields)
                read_only = True
            for each in nested:
                (path / each).mkdir(parents=True, exist_ok=True)
            return Volume(path, read_only)

    def _host(self, name: str, given: Mapping[str, Any]) -> Volume:
        with Fields(f"volumes.{name}.hostPath", given) as fields:
            path, kind = self._sources.host(fields.get("path")), fields.get("type", "")
            if kind == "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            elif kind and not (path.exists() and _TYPES[kind](path.stat().st_mode)):
                raise UnsupportedFieldError(
                    f"volumes.{name}: hostPath type check failed: {given['path']} is not a {kind}"
                )
            return Volume(path, read_only=False)

    def _fill(self, path: Path, name: str, fields: Fields) -> None:
        for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
            if (given := fields.get(key)) is not None:
                with Fields(f"volumes.{name}.{key}", given) as one:
                    mode = one.get("defaultMode", 0o644)
                    owner = one.get("name" if kind == "ConfigMap" else "secretName")
                    self._write(path, self._items(kind, owner, one), mode)
                return
        with fields.within("projected") as projected:
            mode = projected.get("defaultMode", 0o644)
            for source in projected.get("sources", ()):
                with Fields(f"volumes.{name}.projected.sources", source) as one:
                    self._write(path, self._projected(one), mode)

    def _projected(self, fields: Fields) -> dict[str, str]:
        for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
            with fields.within(key) as one:
                if owner := one.get("name"):
                    return self._items(kind, owner, one)
        with fields.within("serviceAccountToken", ("expirationSeconds",)) as one:
            if path := one.get("path"):
                return {path: self._sources.token(one.get("audience", ""))}
        with fields.within("downwardAPI") as one:
            return {
                item["path"]: str(self._sources.metadata[item["fieldRef"]["fieldPath"].partition(".")[2]])
                for item in one.get("items", ())
            }

    def _items(self, kind: str, owner: str, fields: Fields) -> dict[str, str]:
        optional, items = fields.get("optional", False), fields.get("items")
        data = self._sources.object_of(kind, owner)
        if data is None and not optional:
            raise UnsupportedFieldError(f"{fields.path}: there is no {kind} {owner}")
        return dict(data or {}) if items is None else {one["path"]: (data or {})[one["key"]] for one in items}

    def _write(self, path: Path, files: Mapping[str, str], mode: int) -> None:
        for name, content in files.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            target.chmod(mode)
            if self._group is not None:
                os.chown(target, 0, self._group)
                target.chmod(mode | _READABLE)

    def _owned(self, path: Path, rights: int) -> None:
        """All in it is the group's, and what is made in it will be."""
        if self._group is None:
            return
        for each in (path, *path.rglob("*")):
            if each.is_symlink():
                continue
            os.chown(each, -1, self._group)
            mode = each.stat().st_mode
            each.chmod(mode | rights | (stat.S_ISGID | 0o110 if each.is_dir() else 0))
