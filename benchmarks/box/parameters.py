"""The file of parameters: all numbers of a workload, checked on loading."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .distributions import Distribution, parse
from .mechanisms import registry

DEFAULT = Path(__file__).with_name("parameters.toml")
HELD_OUT = Path(__file__).with_name("parameters-held-out.toml")

Drawn = Annotated[Any, BeforeValidator(parse)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


class ParametersError(Exception):
    """A file that cannot be used: says where, and what is meant."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Fleet(_Section):
    """The machines."""

    nodes: Annotated[int, Field(gt=0)]
    gpus_per_node: Annotated[int, Field(gt=0)]
    older: Share
    """Of the nodes, those with A100s, which have no GPM."""
    kubernetes: Share
    """Of the nodes, those that Kubernetes has; the others are Slurm's."""
    hours: Positive
    sample_period: Positive
    """Seconds between two samples of a driver's utilization."""
    full: Share
    """The highest utilization that a driver reports."""


class Arrivals(_Section):
    """When jobs come, and whose they are."""

    occupancy: Share
    """Of the GPUs, on average."""
    rhythm: Share
    """How much more work comes at the busiest hour than on average; 0 is flat."""
    begins: float
    """Hour of the day at which the run begins."""
    users: Annotated[int, Field(gt=0)]
    zipf: float
    """A user's share falls with this power of their rank."""
    accounts: Annotated[int, Field(gt=0)]
    kubernetes: Share
    """Of the batch jobs that fit on a node: those that are pods."""
    cores_per_gpu: Drawn
    minutes: Drawn
    """How long jobs last, unless their mechanism says otherwise."""
    sizes: Drawn
    """GPUs, of the sizes that a mechanism allows."""


class Mixed(_Section):
    """Jobs with two mechanisms, or near a threshold."""

    share: Share
    """Of all jobs."""
    near: Share
    """Of the mixed ones, those near a threshold: the rest are in turn."""
    turns: Annotated[tuple[tuple[str, str, float], ...], Field(min_length=1)]
    """First mechanism, second one, weight."""
    turn: Drawn
    """At which share of its time a job turns."""
    minutes: Drawn


class Faults(_Section):
    """What happens to GPUs. How many of them in a run; the heat of `hot rank` comes beside."""

    xids: Annotated[int, Field(ge=0)]
    """XIDs, each of which ends a job's process."""
    xid: Drawn
    lost: Annotated[int, Field(ge=0)]
    """GPUs that fall off the bus while nobody has them."""
    leaks: Annotated[int, Field(ge=0)]
    """GPUs on which a job leaves memory behind."""
    leak: Drawn
    """GiB."""
    shortest: Positive
    """Minutes for which a GPU must be free so that it can be lost or leak."""


@dataclass(frozen=True)
class Recipe:
    """A mechanism as a workload has it: what simulates it, and where its parameters are drawn from."""

    name: str
    model: str
    weight: float
    near_weight: float
    partition: str
    mixed: bool
    sizes: tuple[int, ...] | None
    minutes: Distribution | None
    burst: Distribution | None
    """How many such jobs come at once."""
    cores: Distribution | None
    """A GPU, where not as all jobs have."""

    draws: Mapping[str, Distribution]
    near: Mapping[str, Distribution]
    """In the place of `draws`, so that what comes of it lies near a threshold."""


@dataclass(frozen=True)
class Parameters:
    """A whole file."""

    name: str
    fleet: Fleet
    arrivals: Arrivals
    mixed: Mixed
    faults: Faults
    recipes: Mapping[str, Recipe]


class _Recipe(_Section):
    model: str
    weight: Annotated[float, Field(ge=0)] = 0.0
    near_weight: Annotated[float, Field(ge=0)] = 0.0
    partition: Literal["batch", "interactive", "serving"] = "batch"
    mixed: bool = False
    sizes: tuple[int, ...] | None = None
    minutes: Drawn = None
    burst: Drawn = None
    cores: Drawn = None
    with_: dict[str, Any] = Field(default_factory=dict, alias="with")
    near: dict[str, Any] = Field(default_factory=dict)


class _File(_Section):
    fleet: Fleet
    arrivals: Arrivals
    mixed: Mixed
    faults: Faults
    training: dict[str, Any]
    """What training has where a mechanism does not say otherwise."""
    mechanisms: dict[str, _Recipe]


def load(path: Path | str = DEFAULT) -> Parameters:
    """ParametersError where something in it cannot be."""
    path = Path(path)
    try:
        written = tomllib.loads(path.read_text())
    except OSError as error:
        raise ParametersError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParametersError(f"{path}: {error}") from error
    try:
        file = _File.model_validate(written)
    except ValidationError as error:
        raise ParametersError(_say(path, error)) from error
    recipes = {name: _recipe(path, name, one, file) for name, one in file.mechanisms.items()}
    for first, second, _ in file.mixed.turns:
        for name in (first, second):
            if name not in recipes:
                raise ParametersError(f"{path}: mixed.turns: there is no mechanism {name!r}{_nearest(name, recipes)}")
    return Parameters(path.name, file.fleet, file.arrivals, file.mixed, file.faults, recipes)


def _recipe(path: Path, name: str, one: _Recipe, file: _File) -> Recipe:
    where = f"{path}: mechanisms.{name}"
    if one.model not in registry.MODELS:
        raise ParametersError(f"{where}.model: there is no {one.model!r}{_nearest(one.model, registry.MODELS)}")
    known = registry.names(one.model)
    trains = set(file.training) <= set(known)
    draws = {**(file.training if trains else {}), **one.with_}
    for part, section in (("with", one.with_), ("near", one.near)):
        for key in section:
            if key not in known:
                raise ParametersError(
                    f"{where}.{part}.{key}: {one.model!r} has no such parameter{_nearest(key, known)}"
                )
    if missing := [key for key in known if key not in draws]:
        raise ParametersError(f"{where}.with: {', '.join(missing)} missing")
    if one.sizes and not all(size > 0 for size in one.sizes):
        raise ParametersError(f"{where}.sizes: numbers of GPUs are over 0")
    if one.near_weight and not one.near:
        raise ParametersError(f"{where}.near: missing, though near_weight is not 0")
    return Recipe(
        name,
        one.model,
        one.weight,
        one.near_weight,
        one.partition,
        one.mixed,
        one.sizes,
        one.minutes,
        one.burst,
        one.cores,
        _parsed(f"{where}.with", draws),
        _parsed(f"{where}.near", one.near),
    )


def _parsed(where: str, section: Mapping[str, Any]) -> dict[str, Distribution]:
    found = {}
    for key, written in section.items():
        try:
            found[key] = parse(written)
        except ValueError as error:
            raise ParametersError(f"{where}.{key}: {error}") from error
    return found


def _say(path: Path, error: ValidationError) -> str:
    """The first thing that is wrong, and the nearest key where one is unknown."""
    first = error.errors()[0]
    *above, key = (str(part) for part in first["loc"])
    where = ".".join((*above, key))
    if first["type"] != "extra_forbidden":
        return f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}"
    return f"{path}: {where}: unknown key{_nearest(key, _keys(above))}"


def _keys(above: Iterable[str]) -> list[str]:
    section: type[BaseModel] = _File
    for name in above:
        if section is _File and name == "mechanisms":
            section = _Recipe
        elif name in section.model_fields and isinstance(section.model_fields[name].annotation, type):
            section = section.model_fields[name].annotation  # type: ignore[assignment]
    return [field.alias or name for name, field in section.model_fields.items()]


def _nearest(key: str, known: Iterable[str]) -> str:
    close = get_close_matches(key, list(known), 1, 0.5)
    return f"; is {close[0]!r} meant?" if close else f"; there are {', '.join(known)}"
