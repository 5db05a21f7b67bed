"""Options of policies: declared once; missing, unknown and wrong ones get a sentence that names them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import pmbandits as pmb
from pmbandits.engine.options import DeclaredOptions, option, whole, within
from pmbandits.engine.registry import REGISTRY
from tests.helpers import one_sentence

OURS = sorted(name for name, cls in REGISTRY.items() if cls.__module__.startswith("pmbandits."))
COMMON = ["metric", "n_arms", "support", "names", "seed"]


def refusal(kind: type[Exception], make: Any) -> str:
    with pytest.raises(kind) as caught:
        make()
    return one_sentence(caught.value)


@pytest.mark.parametrize("name", OURS)
def test_the_signature_lists_every_option_and_the_documentation_names_it(name: str) -> None:
    cls = REGISTRY[name]
    parameters = inspect.signature(cls).parameters
    assert next(iter(parameters)) == "metric" and set(COMMON) <= set(parameters)
    assert parameters["metric"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for key, p in parameters.items() if key != "metric")
    assert all(p.annotation is not Any or key in ("confidence", "sets") for key, p in parameters.items())
    text = cls.__doc__ or ""
    if "Parameters as :class:`PMUCB`" in text:
        text += pmb.PMUCB.__doc__ or ""
    common = pmb.Policy.__doc__ or ""  # of options that all policies have
    assert [key for key in parameters if key not in text and key not in common] == []


@pytest.mark.parametrize("name", OURS)
def test_an_unknown_option_is_refused_by_name(name: str) -> None:
    text = refusal(TypeError, lambda: REGISTRY[name](n_armz=3))
    assert text.startswith(f"{REGISTRY[name].__name__} has no option") and "n_armz" in text and "n_arms" in text


@pytest.mark.parametrize("name", OURS)
def test_a_missing_option_is_refused_by_name(name: str) -> None:
    cls = REGISTRY[name]
    needed = [key for key, p in inspect.signature(cls).parameters.items() if p.default is inspect.Parameter.empty]
    if not needed:
        cls()
        return
    with pytest.raises(TypeError, match=f"{cls.__name__} needs the option {needed[0]}: give {needed[0]}="):
        cls()


def test_too_many_values_by_position_are_refused() -> None:
    text = refusal(TypeError, lambda: pmb.CIRT(pmb.Mean(), 2))  # type: ignore[misc]
    assert "by position" in text


@pytest.mark.parametrize(
    ("make", "kind", "name"),
    [
        (lambda: pmb.PMUCB(horizon=1), ValueError, "horizon"),
        (lambda: pmb.PMUCB(horizon="long"), TypeError, "horizon"),
        (lambda: pmb.PMUCB(horizon=None), TypeError, "horizon"),
        (lambda: pmb.PMUCB(horizon=100, rho=0.0), ValueError, "rho"),
        (lambda: pmb.PMUCB(horizon=100, delta=1.0), ValueError, "delta"),
        (lambda: pmb.CIRT(epsilon=2.0), ValueError, "epsilon"),
        (lambda: pmb.CIRT(confidence="dkv"), ValueError, "dkw"),
        (lambda: pmb.CIRT(n_arms=0), ValueError, "n_arms"),
        (lambda: pmb.SolitaryUCB(horizon=100, index="added"), ValueError, "additive"),
    ],
)
def test_a_wrong_value_is_refused_by_name(make: Any, kind: type[Exception], name: str) -> None:
    assert name in refusal(kind, make)


class Parent(DeclaredOptions):
    first: int = option(check=whole(1))
    second: float | None = option(default=None, check=within(0.0, 1.0))

    def __init__(self, **given: Any) -> None:
        self.read = self._read_options((), given)


class Child(Parent):
    third_: str = option(default="x", alias="third")
    second: float | None = option(default=0.5, check=within(0.0, 2.0))


def test_options_are_inherited_and_can_be_declared_anew() -> None:
    assert Parent(first=3).read == {"first": 3, "second": None}
    assert Child(first=3).read == {"third": "x", "second": 0.5, "first": 3}
    assert Child(first=3, second=1.5, third="y").read == {"third": "y", "second": 1.5, "first": 3}
    assert set(inspect.signature(Child).parameters) == {"first", "second", "third"}
    assert Parent(first=3).read["second"] is None and "second" in refusal(ValueError, lambda: Parent(first=1, second=2))


def test_a_name_that_is_near_to_none_gets_no_suggestion() -> None:
    said = refusal(TypeError, lambda: pmb.Vet(expl=1))
    assert "'expl'" in said and "Did you mean" not in said
