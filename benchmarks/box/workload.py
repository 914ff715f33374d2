"""Who asks for what, and when: requests for jobs, before anybody has found a place for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .distributions import Distribution, pick
from .mechanisms import registry
from .parameters import Parameters, Recipe

HOUR, DAY = 3600.0, 86400.0
BACKLOG = 1.0
"""Seconds between the jobs that wait already when a run begins."""


@dataclass(frozen=True)
class Request:
    """A job that somebody hands in at `at`, and that will last `seconds` once it runs."""

    at: float
    seconds: float
    gpus: int
    user: str
    account: str
    partition: str
    mechanism: str
    parameters: Mapping[str, float]
    mixed: bool
    scheduler: str
    cores_per_gpu: int
    seed: int
    where: float
    """Which kind of node it asks for, 0 to 1."""


@dataclass(frozen=True)
class _Kind:
    """What a job is to be."""

    name: str
    recipe: Recipe
    parameters: Mapping[str, float]
    minutes: Distribution
    sizes: tuple[int, ...] | None
    mixed: bool


def requests(parameters: Parameters, random: np.random.Generator) -> Iterator[Request]:
    """In the order in which they come. A fleet that is already at work has a backlog at the beginning, which fills it;
    after that as much work comes as is done.
    """
    capacity = parameters.fleet.nodes * parameters.fleet.gpus_per_node * parameters.arrivals.occupancy
    quota = _Quota(parameters.mixed.share)
    asked, clock, filled = 0.0, 0.0, False
    while True:
        mixed = quota.next(random)
        kind = _kind(parameters, mixed, random)
        user = _user(parameters, random)
        account = f"lab{user % parameters.arrivals.accounts + 1:02d}"
        together = 1 if kind.recipe.burst is None or mixed else max(1, round(kind.recipe.burst.draw(random)))
        quota.unmixed(together - 1)
        for _ in range(together):
            request = _request(parameters, kind, clock, f"user{user + 1:02d}", account, random)
            yield request
            asked += request.gpus
            if not filled:
                filled = asked >= capacity
                clock += BACKLOG
                continue
            # GPUs fall free at the rate at which jobs of the mean length end.
            gap = request.gpus * request.seconds / capacity / _rhythm(parameters, clock)
            clock += gap * float(random.exponential())


class _Quota:
    """Jobs of a share, in random order, and never fewer than the share of those so far by more than one."""

    def __init__(self, share: float) -> None:
        self._share, self._drawn, self._all = share, 0, 0

    def next(self, random: np.random.Generator) -> bool:
        self._all += 1
        owed = self._share * self._all - self._drawn
        chosen = owed >= 1 or (owed > 0 and random.uniform() < self._share)
        self._drawn += chosen
        return chosen

    def unmixed(self, jobs: int) -> None:
        """Some more came that are not of the share."""
        self._all += jobs


def _rhythm(parameters: Parameters, clock: float) -> float:
    """More work comes by day: most at 14 h."""
    hour = parameters.arrivals.begins + clock / HOUR
    return 1 + parameters.arrivals.rhythm * math.cos(2 * math.pi * (hour - 14) / 24)


def _kind(parameters: Parameters, mixed: bool, random: np.random.Generator) -> _Kind:
    recipes = list(parameters.recipes.values())
    if not mixed:
        recipe = recipes[pick([0.0 if one.mixed else one.weight for one in recipes], random)]
        return _alone(parameters, recipe, {}, random, mixed=False)
    if random.uniform() < parameters.mixed.near:
        weights = [one.weight if one.mixed else one.near_weight for one in recipes]
        recipe = recipes[pick(weights, random)]
        return _alone(parameters, recipe, recipe.near, random, mixed=True)
    turns = parameters.mixed.turns
    first, second, _ = turns[pick([weight for *_, weight in turns], random)]
    return _in_turn(parameters, parameters.recipes[first], parameters.recipes[second], random)


def _alone(
    parameters: Parameters,
    recipe: Recipe,
    near: Mapping[str, Distribution],
    random: np.random.Generator,
    *,
    mixed: bool,
) -> _Kind:
    drawn = _drawn(recipe, near, random)
    minutes = recipe.minutes or parameters.arrivals.minutes
    name = f"{recipe.name} (near)" if near else recipe.name
    return _Kind(name, recipe, drawn, minutes, recipe.sizes, mixed)


def _in_turn(parameters: Parameters, first: Recipe, second: Recipe, random: np.random.Generator) -> _Kind:
    drawn = {registry.FIRST + name: value for name, value in _drawn(first, {}, random).items()}
    drawn |= {registry.SECOND + name: value for name, value in _drawn(second, {}, random).items()}
    drawn[registry.TURN] = parameters.mixed.turn.draw(random)
    sizes = first.sizes if second.sizes is None else second.sizes
    if first.sizes is not None and second.sizes is not None:
        sizes = tuple(size for size in first.sizes if size in second.sizes)
    return _Kind(f"{first.name}, then {second.name}", first, drawn, parameters.mixed.minutes, sizes, mixed=True)


def _drawn(recipe: Recipe, near: Mapping[str, Distribution], random: np.random.Generator) -> dict[str, float]:
    drawn = {name: near.get(name, one).draw(random) for name, one in recipe.draws.items()}
    return {registry.MODEL: registry.place(recipe.model), **drawn}


def _request(
    parameters: Parameters, kind: _Kind, at: float, user: str, account: str, random: np.random.Generator
) -> Request:
    size = _size(parameters, kind.sizes, random)
    on_kubernetes = random.uniform() < parameters.arrivals.kubernetes
    batch = kind.recipe.partition == "batch" and size <= parameters.fleet.gpus_per_node
    return Request(
        at,
        kind.minutes.draw(random) * 60,
        size,
        user,
        account,
        kind.recipe.partition,
        kind.name,
        kind.parameters,
        kind.mixed,
        "k8s" if on_kubernetes and batch else "slurm",
        round((kind.recipe.cores or parameters.arrivals.cores_per_gpu).draw(random)),
        int(random.integers(2**31)),
        float(random.uniform()),
    )


def _size(parameters: Parameters, allowed: tuple[int, ...] | None, random: np.random.Generator) -> int:
    """As the fleet's sizes are distributed, among those that are allowed."""
    largest = parameters.fleet.nodes * parameters.fleet.gpus_per_node
    for _ in range(1000):
        size = round(parameters.arrivals.sizes.draw(random))
        if size <= largest and (allowed is None or size in allowed):
            return size
    if not allowed:
        raise ValueError(f"no job fits on {largest} GPUs")
    return min(allowed)


def _user(parameters: Parameters, random: np.random.Generator) -> int:
    """A few have most of the jobs."""
    ranks = np.arange(1, parameters.arrivals.users + 1, dtype=float)
    return pick(list(ranks**-parameters.arrivals.zipf), random)
