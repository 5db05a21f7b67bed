"""What spares numba's compiler work changes nothing that it answers, and leaves the garbage collector as it was."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numba
import pytest
from numba.core import compiler, targetconfig

from pmbandits.state.compiler_speed import speed_up_compiler

Flags: Any = compiler.Flags
PLAIN: Any = targetconfig.TargetConfig


def some_options() -> list[Any]:
    """Options set in some ways: not at all, to their defaults, and to other values."""
    out = [Flags()]
    for name, value in (("nrt", True), ("nrt", False), ("release_gil", True), ("boundscheck", Flags().boundscheck)):
        made = Flags()
        setattr(made, name, value)
        out.append(made)
    return [*out, out[1].copy()]


def test_options_are_equal_where_numba_says_so() -> None:
    speed_up_compiler()
    made = some_options()
    for one, other in itertools.product(made, made):
        plainly = one.values() == other.values()
        assert (one == other) is plainly is PLAIN.__eq__(one, other)
        assert not plainly or hash(one) == hash(other)
    assert len(set(made)) == 3  # defaults, memory managed, lock released
    assert made[0] != "options"


@pytest.mark.parametrize("enabled", [True, False])
def test_while_it_compiles_no_garbage_is_looked_for(enabled: bool) -> None:
    speed_up_compiler()
    seen = []

    def look(phase: str, info: dict[str, int]) -> None:
        seen.append(phase)

    def wrong(x: float) -> float:
        return x.no_such_method()  # type: ignore[attr-defined]

    gc.callbacks.append(look)
    (gc.enable if enabled else gc.disable)()
    try:
        seen.clear()
        numba.njit("float64(float64)")(lambda x: x * 2.0 + 1.0)
        assert gc.isenabled() is enabled
        n_collections = len(seen)
        with pytest.raises(numba.core.errors.TypingError):
            numba.njit("float64(float64)")(wrong)
        assert gc.isenabled() is enabled  # also after an error
    finally:
        gc.callbacks.remove(look)
        gc.enable()
    assert n_collections <= 4  # some before and after; without the pause 8 or more
