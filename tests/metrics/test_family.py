"""A named metric in one class: what registers itself, what is derived from the formula, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import ClassVar

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.metrics import Distortion, Family, as_metric, metric, parameter
from pmbandits.metrics.encoding import FAMILY_NUMBERS, encode_metric, h_max, h_min, h_value, has_table
from pmbandits.metrics.families import FAMILIES
from pmbandits.metrics.formulas import where
from pmbandits.metrics.names import ALIASES, REGISTRY
from pmbandits.metrics.numeric import numeric_shape_and_monotonicity


class Bump(Family):
    """A metric defined here and nowhere else: h(u) = u^s·(1 − u), s ≥ ½. It peaks at s/(s + 1)."""

    name = "bump"
    aliases = ("hump",)
    s: float = parameter(0.5, default=2.0)

    @staticmethod
    def h(u, s):
        return np.power(u, s) * (1.0 - u)


@pytest.fixture
def tidy():
    """Forget what a test registers."""
    names, others = dict(REGISTRY), dict(ALIASES)
    yield
    for known, before in ((REGISTRY, names), (ALIASES, others)):
        known.clear()
        known.update(before)


# ---- a new metric ------------------------------------------------------------------------------------------
def test_a_new_metric_is_known_by_its_names():
    assert metric("bump") == Bump(2.0)
    assert metric("bump(3)") == metric("hump", s=3) == Bump(3.0)
    assert metric("mean - 0.5*hump(s=3)") == pmb.Mean() - 0.5 * Bump(3)
    assert Distortion.from_dict(Bump(3).to_dict()) == Bump(3)
    assert repr(Bump(3)) == "Bump(s=3.0)"
    with pytest.raises(ValueError, match="Did you mean 'bump'"):
        metric("bumb")


def test_a_new_metric_has_the_value_of_its_formula():
    assert Bump(2)(0.5) == 0.125
    # ∫ S²(1 − S) dx over uniform rewards is ∫ u²(1 − u) du.
    assert Bump(2).value((np.arange(200_000) + 0.5) / 200_000) == pytest.approx(1 / 12, abs=1e-9)


def test_what_a_new_metric_does_not_state_is_found_from_its_formula():
    assert (Bump(1).shape, Bump(1).monotonicity) == ("concave", "neither")
    assert (Bump(3).shape, Bump(3).monotonicity) == ("neither", "neither")
    for s in (0.7, 1.0, 3.0):
        top = Bump(s).maximum()
        assert top.at == pytest.approx(s / (s + 1), abs=1e-6)
        assert top.value == pytest.approx((s / (s + 1)) ** s / (s + 1), rel=1e-12)
        u = np.linspace(0.05, 0.95, 19)
        np.testing.assert_allclose(Bump(s).derivative(u), s * u ** (s - 1) - (s + 1) * u**s, rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="steepness"):
        Bump(1).holder(pmb.Interval(0, 1))


def test_kernels_take_a_new_metric_from_a_table():
    packed = encode_metric(pmb.Mean() + Bump(3))
    assert has_table(packed)
    u = np.random.default_rng(0).random(500)
    np.testing.assert_allclose([h_value(packed, x) for x in u], u + u**3 * (1 - u), rtol=0, atol=1e-7)
    alone = encode_metric(Bump(3))
    assert h_max(alone, 0.0, 1.0) == pytest.approx(0.75**3 / 4, rel=1e-12)
    assert h_min(alone, 0.2, 0.3) == pytest.approx(0.2**3 * 0.8, abs=1e-7)


def test_a_policy_plays_a_new_metric_as_it_plays_the_same_function():
    def pulls(chosen):
        policy = pmb.PMUCB(chosen, n_arms=2, support=pmb.Binary(), horizon=500, epsilon=0.1)
        rng, arms = np.random.default_rng(1), []
        for _ in range(500):
            arms.append(policy.ask())
            policy.tell(arms[-1], float(rng.random() < (0.3, 0.8)[arms[-1]]))
        return arms

    mine = Distortion.from_function(lambda u: np.power(u, 1.0) * (1.0 - u), holder=(1.0, 1.0))

    class Held(Bump):
        def _holder_modulus_or_reason(self):
            return (1.0, 1.0)

    assert pulls(Held(1.0)) == pulls(mine)


def test_the_oracle_says_that_a_slope_from_differences_proves_nothing():
    class Sloped(Bump):
        def _dh(self, u):
            return 1.0 - 2.0 * u

    bandit = pmb.Bandit([[0.0, 1.0], [0.0, 0.5, 3.0], [2.0, 2.5]])
    assert not pmb.oracle(Bump(1), bandit).certified
    assert pmb.oracle(Sloped(1), bandit).certified
    assert pmb.oracle(Bump(1), bandit).value == pytest.approx(pmb.oracle("gini", bandit).value, rel=1e-9)


def test_a_metric_cannot_be_changed_and_can_be_pickled():
    with pytest.raises(FrozenInstanceError):
        Bump(1).s = 2.0
    assert pickle.loads(pickle.dumps(Bump(1.5))) == Bump(1.5)


# ---- definitions that are refused ----------------------------------------------------------------------------
def test_a_formula_must_take_the_parameters_in_their_order(tidy):
    with pytest.raises(TypeError, match=r"h\(u, a, b\), .* h\(u, b, a\)\."):

        class Wrong(Family):
            name = "wrong"
            a: float
            b: float

            @staticmethod
            def h(u, b, a):
                return u

    assert "wrong" not in REGISTRY


def test_a_definition_without_formula_is_refused(tidy):
    with pytest.raises(TypeError, match="'empty' has no formula"):

        class Empty(Family):
            name = "empty"


@pytest.mark.parametrize("name", ["sum", "Big", "two words", "9lives", ""])
def test_a_name_that_could_not_be_read_again_is_refused(tidy, name):
    with pytest.raises(ValueError, match="cannot be named"):
        type("Named", (Bump,), {"name": name, "aliases": ()})


@pytest.mark.parametrize("names", [("mean", ()), ("gini", ()), ("mine", ("mean",)), ("hump", ())], ids=str)
def test_a_name_that_is_taken_is_refused(tidy, names):
    with pytest.raises(ValueError, match="belongs to the metric"):
        type("Taken", (Bump,), {"name": names[0], "aliases": names[1]})


def test_a_class_may_be_defined_again(tidy):
    for power in (2.0, 3.0):

        class Again(Family):
            name = "again"
            power_: ClassVar[float] = power

            @staticmethod
            def h(u):
                return u

    assert metric("again").power_ == 3.0


def test_a_class_without_a_name_of_its_own_is_not_registered(tidy):
    before = dict(REGISTRY)

    class Helper(Bump):
        pass

    assert before == REGISTRY
    assert Helper(1.0)(0.5) == 0.25


@pytest.mark.parametrize(
    ("formula", "message"),
    [(lambda u: u + 1.0, r"'bad' has h\(0\) = 1"), (lambda u: np.log(u), "'bad' is not finite at u = 0")],
    ids=["not 0 at 0", "not finite"],
)
def test_a_formula_that_is_no_distortion_is_refused(tidy, formula, message):
    bad = type("Bad", (Family,), {"name": "bad", "h": staticmethod(formula)})
    with pytest.raises(ValueError, match=message):
        bad()


def test_parameters_are_checked_against_their_limits():
    with pytest.raises(ValueError, match=r"Bump s .* \[0\.5, inf\), got 0\.4"):
        Bump(0.4)
    with pytest.raises(TypeError, match="Bump s must be a number"):
        Bump("2")


# ---- the families of the package -----------------------------------------------------------------------------
def drawn(cls: type[Family], rng: np.random.Generator) -> Family:
    """A metric with parameters anywhere inside their limits."""
    while True:
        values = []
        for f in fields(cls):
            lo, hi = f.metadata["limits"]["lo"], f.metadata["limits"]["hi"]
            if np.isfinite(hi):
                values.append(rng.uniform(lo, hi))
            else:
                values.append(lo + rng.exponential() if np.isfinite(lo) else rng.normal())
        try:
            return cls(*values)
        except ValueError:  # limits that depend on one another
            continue


@pytest.mark.parametrize("cls", FAMILIES, ids=lambda cls: cls.name)
def test_the_stated_shape_and_direction_are_those_of_the_formula(cls):
    rng = np.random.default_rng(8)
    for m in [cls.example(), *(drawn(cls, rng) for _ in range(20))]:
        marks = [u for u, _ in (*m.kinks, *m.jumps)]
        assert (m.shape, m.monotonicity) == numeric_shape_and_monotonicity(
            lambda u, m=m: cls.h(u, *m.parameter_values), marks
        ), repr(m)


@pytest.mark.parametrize("cls", FAMILIES, ids=lambda cls: cls.name)
def test_the_stated_extrema_are_those_of_the_formula(cls):
    rng = np.random.default_rng(9)
    for m in [cls.example(), *(drawn(cls, rng) for _ in range(10))]:
        for lo, hi in np.sort(rng.random((10, 2)), axis=1):
            with np.errstate(all="ignore"):
                y = cls.h(np.linspace(lo, hi, 2001), *m.parameter_values)
            assert m.maximum(lo, hi).value >= y.max() - 1e-14
            assert m.minimum(lo, hi).value <= y.min() + 1e-14


@pytest.mark.parametrize("cls", FAMILIES, ids=lambda cls: cls.name)
def test_a_family_of_the_package_has_names_words_an_example_and_compiled_code(cls):
    assert REGISTRY[cls.name] is cls
    assert cls.is_built_in()
    assert not Bump.is_built_in()
    for word in (cls.formula, cls.meaning, cls.use):
        assert word and word not in (Family.formula, Family.meaning, Family.use)
    assert cls in FAMILY_NUMBERS
    assert not has_table(encode_metric(cls.example()))
    assert getattr(pmb, cls.__name__) is cls


def test_where_chooses_for_each_number():
    assert where(np.array([True, False]), 1.0, np.array([5.0, 6.0])).tolist() == [1.0, 6.0]


# ---- what a user gives ---------------------------------------------------------------------------------------
def test_a_metric_may_be_given_as_it_is_or_as_text():
    gini = pmb.GiniDeviation()
    assert as_metric(gini) is gini
    assert as_metric("gini") == gini
    assert as_metric("0.7*mean + 0.3*upper_cvar(0.9)") == 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)


@pytest.mark.parametrize("given", [None, 3, 0.5, ["gini"], pmb.GiniDeviation, lambda u: u])
def test_what_is_no_metric_gets_one_sentence(given):
    with pytest.raises(TypeError, match=r"^metric must be .* GiniDeviation\(\)"):
        as_metric(given)


def test_text_serves_wherever_known_arms_are_measured():
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    gini = pmb.GiniDeviation()
    assert pmb.utility("gini", bandit, [0.8, 0.2]) == pmb.utility(gini, bandit, [0.8, 0.2])
    assert pmb.oracle("gini", bandit).value == pmb.oracle(gini, bandit).value
    assert pmb.gaps("gini", bandit, 0.1).d12 == pmb.gaps(gini, bandit, 0.1).d12
    for call in (lambda m: pmb.oracle(m, bandit), lambda m: pmb.utility(m, bandit, [0.5, 0.5])):
        with pytest.raises(TypeError, match="metric must be"):
            call(7)
        with pytest.raises(ValueError, match="Did you mean 'gini'"):
            call("ginni")
