"""Kernels called by address: the same results, compiled once, found again on disk, errors passed on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from pmbandits.state import linking
from pmbandits.state.layout import policy_own_fields
from pmbandits.state.linking import dispatch_table, kernel_address, make_caller, make_pointer_getter, shared, step
from pmbandits.state.memory import Memory
from pmbandits.state.numba_types import state, unpack

INTS, FLOATS = np.arange(3), np.array([0.5, 0.25, 4.0])


unpack_own, unpack_other = state(mine=float), state(yours=int, mine=int)


def memory(**own: type) -> Memory:
    made = Memory.allocate({"n_arms": 3}, policy_own_fields(own))
    made.sums[:] = FLOATS
    return made


@shared("state, floats, int -> float")
def weigh(s, a, times):  # type: ignore[no-untyped-def]
    s.t += 1
    return times * s.sums.sum() + a[0]


@step("state -> int")
def count(s):  # type: ignore[no-untyped-def]
    s.t += 1
    return s.t


@step("state, float -> none", unpack_own)
def keep(s, number):  # type: ignore[no-untyped-def]
    s.mine = number


@shared("state -> float", unpack_own)
def doubled(s):  # type: ignore[no-untyped-def]
    return 2.0 * s.mine


@shared("int -> float")
def fail(n):  # type: ignore[no-untyped-def]
    if n > 1:
        raise ValueError("too many")
    return 1.0 * n


@numba.njit
def one(memory, floats):  # type: ignore[no-untyped-def]
    return weigh(unpack(memory), floats[1:], 2)


@numba.njit
def two(memory, floats):  # type: ignore[no-untyped-def]
    return weigh(unpack_own(memory), floats, 3) + fail(1)


@numba.njit
def three(n):  # type: ignore[no-untyped-def]
    return fail(n) + fail(1)


def kernel_of(name: str) -> Any:
    return next(own for _, own, _ in linking._slots.values() if own.py_func.__qualname__ == name)


def test_a_shared_kernel_gives_kernels_and_python_the_same_result() -> None:
    s = memory()
    assert one(s.address, FLOATS) == 2 * 4.75 + 0.25 == weigh(s, FLOATS[1:], 2)
    assert s.t == 2  # changed in place, by both


def test_a_shared_kernel_is_compiled_once_whoever_calls_it() -> None:
    plain, owned = memory(), memory(mine=float)
    weigh(plain, FLOATS[1:], 2)
    one(plain.address, FLOATS)
    made = dict(kernel_of("weigh").overloads)
    assert two(owned.address, FLOATS) == 3 * 4.75 + 0.5 + 1.0
    assert kernel_of("weigh").overloads == made and len(made) == 1


def test_a_step_is_compiled_once_and_built_into_kernels_with_any_state() -> None:
    made: list[Any] = []

    @step("state -> int")
    def bump(s):  # type: ignore[no-untyped-def]
        s.t += 1
        return s.t

    real = linking._compiled_overload

    def noted(own: Any, typed: Any) -> Any:
        made.append(len(own.overloads))
        return real(own, typed)

    @numba.njit
    def plain(memory):  # type: ignore[no-untyped-def]
        return bump(unpack(memory)) + 10 * bump(unpack_own(memory)) + 100 * bump(unpack_other(memory))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "_compiled_overload", noted)
        s = memory()
        assert plain(s.address) == 321
    assert made[1:] == [1] * (len(made) - 1)
    assert count(memory()) == 1  # and Python can call it


def test_a_policys_own_numbers_are_seen_by_kernels_that_are_given_its_names() -> None:
    @numba.njit
    def keep_and_double(memory, number):  # type: ignore[no-untyped-def]
        s = unpack_own(memory)
        keep(s, number)
        return doubled(s) + s.mine

    s = memory(mine=float)
    assert keep_and_double(s.address, 1.5) == 4.5
    assert s.mine == 1.5 and doubled(s) == 3.0


def test_an_error_in_a_shared_kernel_reaches_the_caller() -> None:
    assert three(1) == 2.0
    with pytest.raises(ValueError, match="too many"):
        three(2)
    assert three(1) == 2.0


def test_a_call_with_other_types_is_refused_when_it_is_compiled() -> None:
    @numba.njit
    def wrong(floats):  # type: ignore[no-untyped-def]
        return weigh(floats, floats, 1)

    with pytest.raises(numba.core.errors.NumbaError):
        wrong(FLOATS)


def test_a_kernel_can_be_called_by_an_address_that_is_handed_over() -> None:
    double = numba.njit(lambda ints, floats: 2 * ints[2])
    triple = numba.njit(lambda ints, floats: 3 * ints[2])
    call = make_caller("ints, floats -> int")

    @numba.njit
    def both(here, there, ints, floats):  # type: ignore[no-untyped-def]
        return call(here, ints, floats), call(there, ints, floats)

    at = [kernel_address(kernel, "ints, floats -> int") for kernel in (double, triple)]
    assert both(*at, INTS, FLOATS) == (4, 6)
    with pytest.raises(NotImplementedError):
        call(at[0], INTS, FLOATS)


def add(x, y):  # type: ignore[no-untyped-def]
    return x + y


def divide(x, y):  # type: ignore[no-untyped-def]
    if y == 0.0:
        raise ValueError("by nothing")
    return x / y


def unused(x, y):  # type: ignore[no-untyped-def]
    return x.no_such_thing


by_number = dispatch_table("tests.by_number", "float, float -> float", [add, divide, unused])


@numba.njit
def chosen(k, x, y):  # type: ignore[no-untyped-def]
    return by_number(k, x, y)


def test_by_number() -> None:
    for k, result in ((0, 7.0), (1, 2.5)):
        assert chosen(k, 5.0, 2.0) == by_number(k, 5.0, 2.0) == result
    with pytest.raises(ValueError, match="by nothing"):
        chosen(1, 5.0, 0.0)
    assert not kernel_of("unused").overloads  # each is compiled when it is called, not before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_number_whose_kernel_cannot_be_compiled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"tests\.by_number"):
        chosen(2, 5.0, 2.0)
    assert chosen(0, 5.0, 2.0) == 7.0


def test_a_kernel_that_returns_something_else_is_refused() -> None:
    half = numba.njit(lambda ints, floats: 0.5 * ints[2])
    with pytest.raises(TypeError, match=r"float64.* int64\."):
        kernel_address(half, "ints, floats -> int")


def test_a_kernel_can_be_handed_over_by_its_address() -> None:
    @shared("float, float -> float")
    def difference(x, y):  # type: ignore[no-untyped-def]
        return x - y

    where, call = make_pointer_getter(difference), make_caller("float, float -> float")

    @numba.njit
    def apply(x, y):  # type: ignore[no-untyped-def]
        return call(where(), x, y)

    assert apply(5.0, 2.0) == 3.0
    with pytest.raises(NotImplementedError):
        where()


SCRIPT = """
import sys, numpy as np
import pmbandits as pmb
from pmbandits.state import linking
if len(sys.argv) > 1:  # another comes first: what is on disk must not care
    @linking.shared("int -> int")
    def filler(n):
        return n
policy = pmb.MCVTS(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Finite([0, 0.5, 1]))
policy.tell([0, 1, 0, 1], [0, 1, 0.5, 1])
print([policy.ask() for _ in range(8)])
made = [own.py_func.__name__ for slot, own, _ in linking._slots.values() if slot.value]
print(sorted(made), sum(sum(own.stats.cache_misses.values()) for _, own, _ in linking._slots.values()))
"""


@pytest.mark.slow
def test_compiled_kernels_are_found_again_on_disk(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    said = []
    for more in ([], [], ["filler first"]):
        command = [sys.executable, str(script), *more]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PMBANDITS_CACHE_DIR": str(tmp_path)},
        )
        said.append(done.stdout.splitlines())
    assert said[0][0] == said[1][0] == said[2][0]
    first, *others = (line[1] for line in said)
    assert not first.endswith(" 0") and all(line.endswith(" 0") for line in others)  # compiled, then found
    assert "'pairwise_ascent_in_place'" not in first  # what is not reached is not compiled


def test_ctrl_c_waits_until_the_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    @shared("int -> int")
    def late(n):  # type: ignore[no-untyped-def]
        return n + 1

    @numba.njit
    def ask(n):  # type: ignore[no-untyped-def]
        return late(n)

    pressed, after = [True], []

    def interrupted(own: Any, signature: str) -> int:
        if pressed:
            pressed.pop()
            raise KeyboardInterrupt
        return kernel_address(own, signature)

    monkeypatch.setattr(linking, "kernel_address", interrupted)
    monkeypatch.setattr(linking._thread, "interrupt_main", lambda: after.append(True))
    assert ask(1) == 2
    for timer in linking.threading.enumerate():
        if isinstance(timer, linking.threading.Timer):
            timer.join()
    assert after == [True]  # and is not forgotten
