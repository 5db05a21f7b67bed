"""The same attacks as in ``make fuzz``, for seconds; hypothesis makes them smaller when one succeeds."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pmbandits as pmb
from tests.fuzz import policy_files, values

FEW = ("cirt-binary", "pmucb-finite", "track-sketch", "vet-interval", "vet-window-interval", "track-discount-binary")
SEEDS = st.integers(0, 2**32 - 1)
usual = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@usual
@given(seed=SEEDS)
def test_edited_policy_files(seed: int, tmp_path: Path) -> None:
    assert policy_files.attack(np.random.default_rng(seed), tmp_path, FEW) in ("refused", "taken")


@pytest.mark.parametrize("module", ["run_files", "tables"])
@usual
@given(seed=SEEDS)
def test_other_files(module: str, seed: int, tmp_path: Path) -> None:
    attack = importlib.import_module(f"tests.fuzz.{module}").attack
    assert attack(np.random.default_rng(seed), tmp_path) in ("refused", "taken")


# Ctrl-C between ``open`` and ``with`` leaves the file to Python, which closes it at once, but with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("module", ["policy_files", "damaged_files", "kills", "interrupts"])
@usual
@given(seed=SEEDS)
def test_all_other_attacks(module: str, seed: int, tmp_path: Path) -> None:
    attack = importlib.import_module(f"tests.fuzz.{module}").attack
    try:
        assert attack(np.random.default_rng(seed), tmp_path) in ("refused", "taken")
    finally:
        shutil.rmtree(tmp_path / "saved", ignore_errors=True)


ANY = st.one_of(
    st.sampled_from(range(len(values.SCALARS))).map(lambda k: values.SCALARS[k]),
    st.sampled_from(range(len(values.LISTS))).map(lambda k: values.LISTS[k]),
    st.floats(), st.integers(-10, 100), st.text(max_size=5), st.binary(max_size=3), st.complex_numbers(),
    st.lists(st.one_of(st.floats(), st.integers(), st.none(), st.text(max_size=3)), max_size=4),
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name, _ in values.CALLS])
@settings(usual, max_examples=25)
@given(one=ANY, two=ANY)
def test_values_given_to_public_functions(name: str, one: Any, two: Any) -> None:
    assert values.answered(name, dict(values.CALLS)[name], [one, two]) in ("refused", "taken")


def test_an_attack_that_succeeds_is_seen(tmp_path: Path) -> None:
    """The fuzzers would say so: a policy whose memory is broken on purpose does not pass."""
    policy = pmb.Uniform("gini", n_arms=3, support=pmb.Binary())
    policy._memory.mix[:] = np.nan
    with pytest.raises(RuntimeError, match=r"s\.mix"):  # which is none of the errors that an attack may end with
        policy_files.use(policy, np.random.default_rng(0), tmp_path / "policy.pmb")
