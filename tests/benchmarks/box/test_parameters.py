"""Files of parameters: what is wrong with one is said with its file, the key and the nearest valid one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.box.distributions import Choices, Uniform, parse
from benchmarks.box.mechanisms import registry
from benchmarks.box.parameters import DEFAULT, HELD_OUT, ParametersError, load


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
