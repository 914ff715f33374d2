"""Files of parameters: what is wrong with one is said with its file, the key and the nearest valid one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.box.distributions import Choices, Uniform, parse
from benchmarks.box.mechanisms import registry
from benchmarks.box.parameters import DEFAULT, HELD_OUT, ParametersError, load
from dutycycle_alerter.rules.causes import MEMORY_BOUND_DRAM, MEMORY_BOUND_TENSOR
from dutycycle_alerter.rules.idle_causes import WORKING_CORES
from dutycycle_alerter.rules.underused_causes import PAUSE_SHARE
from dutycycle_alerter.settings.job_rules import Hung


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = DEFAULT.read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize("path", [DEFAULT, HELD_OUT])
def test_the_files_that_come_with_it_are_valid_and_use_every_model(path: Path) -> None:
    parameters = load(path)
    assert {recipe.model for recipe in parameters.recipes.values()} == set(registry.MODELS)
    for recipe in parameters.recipes.values():
        assert set(recipe.draws) == set(registry.names(recipe.model))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("older = 0.25", "oldr = 0.25", r"mine\.toml: fleet\.older: Field required"),
        (
            "rhythm = 0.3\n",
            "rhythm = 0.3\nrythm = 0.3\n",
            r"mine\.toml: arrivals\.rythm: unknown key; is 'rhythm' meant\?",
        ),
        ("[fleet]", "flet = 1\n[fleet]", r"mine\.toml: flet: unknown key; is 'fleet' meant\?"),
        ("older = 0.25", "older = 1.25", r"fleet\.older: Input should be less than or equal to 1"),
        ("jitter = [0.02, 0.08]", "jitter = [0.08, 0.02]", r"jitter: two numbers, the lower one first"),
        ("jitter = [0.02, 0.08]", "jiter = [0.02, 0.08]", r"mechanisms\.fed"),
        ('model = "no process"', 'model = "no proces"', r"there is no 'no proces'; is 'no process' meant\?"),
        (
            '["no process", "fed", 2]',
            '["no procss", "fed", 2]',
            r"mixed\.turns: .*'no procss'; is 'no process' meant\?",
        ),
        ("weight = 24", "weigth = 24", r"mechanisms\.fed\.weigth: unknown key; is 'weight' meant\?"),
        ("used = { choices", "use = { choices", r"with\.use: 'over-request' has no such parameter; is 'used' meant\?"),
        ("weight = 24", "weight = 24\nnear_weight = 1", r"mechanisms\.fed\.near: missing"),
        ("[fleet]", "[fleet", r"mine\.toml: "),
    ],
)
def test_what_is_wrong_is_said_where_it_is(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ParametersError, match=said):
        load(changed(tmp_path, old, new))


def test_the_held_out_file_draws_from_elsewhere() -> None:
    ours, others = load().recipes, load(HELD_OUT).recipes
    shared = ours.keys() & others.keys()
    different = [name for name in shared if ours[name].draws != others[name].draws]
    assert len(different) >= 0.8 * len([name for name in shared if ours[name].draws])


def pauses(of: Mapping[str, float]) -> float:
    return of["stall"] / (of["stall"] + of["stall_every"])


HUNG = Hung()
ACROSS: Mapping[str, tuple[str, Callable[[Mapping[str, float]], float], float]] = {
    "memory-bound by its memory": ("memory-bound on few multiprocessors", itemgetter("dram"), MEMORY_BOUND_DRAM),
    "memory-bound by tensor cores": ("memory-bound on few multiprocessors", itemgetter("tensor"), MEMORY_BOUND_TENSOR),
    "computing on CPUs": ("CPU-only", itemgetter("cores"), WORKING_CORES),
    "left by its owner": ("forgotten notebook", itemgetter("left_cores"), WORKING_CORES),
    "pausing": ("shards that are fetched one by one", pauses, PAUSE_SHARE),
    "spinning": ("keep-alive", itemgetter("level"), HUNG.spinning_at_least),
    "waiting": ("a kernel now and then", itemgetter("level"), HUNG.idle_below),
    "spinning at little power": ("hung collective", itemgetter("hung_power"), HUNG.power_share),
    "looking busy at little power": ("keep-alive", itemgetter("power"), HUNG.power_share),
    "training at little power": ("small batches", itemgetter("power"), HUNG.power_share),
    "hung, by its memory": ("hung collective", itemgetter("hung_dram"), HUNG.active_below),
    "hung, by tensor cores": ("busy with little", itemgetter("tensor"), HUNG.active_below),
    "without multiprocessors": ("keep-alive", itemgetter("sm"), HUNG.active_below),
    "with silent links": ("busy with little", lambda of: of["link"] * 1e6, HUNG.link_bytes_below),
}


@pytest.mark.parametrize("name", ACROSS)
def test_the_held_out_file_draws_on_both_sides_of_each_bound_that_tells_causes(name: str) -> None:
    recipe, figure, bound = ACROSS[name]
    random = np.random.default_rng(1)
    draws = load(HELD_OUT).recipes[recipe].draws
    drawn = np.array([figure({key: one.draw(random) for key, one in draws.items()}) for _ in range(400)])
    assert 0.05 < np.mean(drawn < bound) < 0.95


def test_the_held_out_file_has_mechanisms_of_its_own() -> None:
    assert len(load(HELD_OUT).recipes.keys() - load().recipes.keys()) >= 3


@given(
    st.integers(0, 2**32), st.sampled_from([[1, 3], {"log": [1, 3]}, {"median": 2, "sigma": 2, "low": 1, "high": 3}])
)
def test_what_is_drawn_lies_between_its_bounds(seed: int, written: object) -> None:
    assert 1 <= parse(written).draw(np.random.default_rng(seed)) <= 3


def test_forms_of_distributions() -> None:
    assert parse([0, 1]) == Uniform(0, 1)
    assert parse({"choices": [1, 2], "weights": [3, 1]}) == Choices((1, 2), (3, 1))
    assert parse(2).draw(np.random.default_rng(0)) == 2
    for bad in ("1", True, [1], [2, 1], {"log": [0, 1]}, {"choices": [1], "weights": [0]}, {"low": 1}, None):
        with pytest.raises(ValueError, match=r"need|numbers|not"):
            parse(bad)


def test_choices_come_as_often_as_their_weights() -> None:
    random = np.random.default_rng(1)
    drawn = [parse({"choices": [1, 2], "weights": [3, 1]}).draw(random) for _ in range(4000)]
    assert sum(value == 1 for value in drawn) / 4000 == pytest.approx(0.75, abs=0.03)
