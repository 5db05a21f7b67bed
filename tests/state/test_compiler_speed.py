"""What spares numba's compiler work changes nothing that it answers, and leaves the garbage collector as it was."""

from __future__ import annotations

import gc
import itertools
import math
import operator
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import compiler, event, targetconfig, types
from numba.core.registry import cpu_target

from pmbandits.state.compiler_speed import OURS, speed_up_compiler

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


@pytest.mark.parametrize("function", [operator.add, operator.truediv, operator.lt, min, math.log, abs, np.sqrt, len])
def test_types_of_calls_are_those_that_numba_works_out(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    speed_up_compiler()
    monkeypatch.setattr(OURS, "depth", 1)  # as if one of our kernels were being compiled
    context: Any = cpu_target.typing_context
    context.refresh()
    asked = context.resolve_value_type(function)
    plainly = types.Function.get_call_type.__wrapped__  # type: ignore[attr-defined]
    literal: Any = types.literal
    single = [types.float64, types.int64, types.boolean, types.Array(types.float64, 1, "C"), literal(3)]
    for given in [(one,) for one in single] + list(itertools.product(single, single)):
        try:
            right = plainly(asked, context, given, {})
        except Exception as error:  # numba fails in many ways at a wrong number of arguments
            for _ in range(2):
                with pytest.raises(type(error)):
                    asked.get_call_type(context, given, {})
            continue
        for _ in range(2):
            found = asked.get_call_type(context, given, {})
            assert found == right
            if right is not None:
                assert asked.get_impl_key(found) == asked.get_impl_key(right)


def test_a_way_to_call_that_is_added_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    speed_up_compiler()
    monkeypatch.setattr(OURS, "depth", 1)

    def twice(x: Any) -> Any:
        raise NotImplementedError

    def use(x: Any) -> Any:
        return twice(x)

    numba.extending.overload(twice)(lambda x: (lambda x: 2.0 * x) if isinstance(x, types.Float) else None)
    assert numba.njit(use)(1.5) == 3.0
    numba.extending.overload(twice)(lambda x: (lambda x: 2 * x + 1) if isinstance(x, types.Integer) else None)
    assert numba.njit(use)(3) == 7
    assert numba.njit(use)(1.5) == 3.0


def named(function: Any, module: str | None) -> Any:
    """The function as if it were from another module; None: made by exec."""
    function.__module__ = module
    return function


class Watch(event.Listener):
    """Notes in each step of a compilation whether garbage is looked for."""

    def __init__(self) -> None:
        self.seen: set[bool] = set()

    def on_start(self, event: Any) -> None:
        self.seen.add(gc.isenabled())

    def on_end(self, event: Any) -> None:
        pass


@pytest.mark.parametrize("enabled", [True, False])
def test_while_ours_are_compiled_no_garbage_is_looked_for(enabled: bool) -> None:
    speed_up_compiler()

    def wrong(x: float) -> float:
        return x.no_such_method()  # type: ignore[attr-defined]

    (gc.enable if enabled else gc.disable)()
    try:
        for module in ("pmbandits.mine", "others", None):
            with event.install_listener("numba:run_pass", Watch()) as watch:  # type: ignore[no-untyped-call]
                numba.njit("float64(float64)")(named(lambda x: x * 2.0 + 1.0, module))
            assert watch.seen == {enabled and module != "pmbandits.mine"}
            assert gc.isenabled() is enabled and OURS.depth == 0
        with pytest.raises(numba.core.errors.TypingError):
            numba.njit("float64(float64)")(named(wrong, "pmbandits.mine"))
        assert gc.isenabled() is enabled and OURS.depth == 0  # also after an error
    finally:
        gc.enable()
