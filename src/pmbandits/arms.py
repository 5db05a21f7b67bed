"""Bandits: arms whose distributions are known, to sample from and to measure against."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import ATOM_TOLERANCE, Binary, Finite, Interval, Real, Support
from pmbandits.tables import distributions as _distributions
from pmbandits.tables import own_distributions
from pmbandits.tables.distributions import Atoms, Distribution, ScipyDistribution
from pmbandits.tables.wasserstein import largest_wasserstein

Rng = int | np.random.Generator | None


class Bandit:
    """Arms whose distributions are known, for simulations and for :func:`oracle`.

    Parameters
    ----------
    arms : for each arm one ``scipy.stats`` distribution (``st.norm(1)``, or ``st.Normal(mu=1)`` of the new kind),
        or one sample (an array of numbers). A mapping gives names to them: ``{"low": st.norm(1), "high": st.norm(3)}``.
    names : a name for each arm; by default ``"arm 0"``, ``"arm 1"``, …
    support : where rewards lie. By default it follows from the arms: ``Binary`` for rewards 0 and 1, ``Finite`` for
        finitely many values, and ``Interval`` for bounded arms. For normal arms it is ``Real`` with the largest
        standard deviation. Where nothing follows, it is ``None``.

    Examples
    --------
    >>> import scipy.stats as st
    >>> import pmbandits as pmb
    >>> pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)], names=["low", "mid", "high"])
    Bandit(low: norm(1), mid: norm(3), high: norm(5); support Real(sigma=1.0))
    """

    def __init__(
        self,
        arms: Sequence[Any] | Mapping[str, Any],
        names: Sequence[str] | None = None,
        *,
        support: Support | None = None,
    ) -> None:
        if isinstance(arms, Mapping):
            if names is not None:
                raise ValueError("the arms are given by name already; leave names out.")
            arms, names = list(arms.values()), [str(name) for name in arms]
        if isinstance(arms, (str, bytes)) or not _validation.is_list(arms) or len(arms) == 0:
            raise ValueError("a Bandit needs at least one arm: a list of scipy.stats distributions or samples.")
        self.names = check_arm_names(names, len(arms))
        self.distributions: tuple[Distribution, ...] = tuple(
            _distribution_of_arm(arm, name) for arm, name in zip(arms, self.names, strict=True)
        )
        self.support = support if support is not None else _infer_support(self.distributions)
        if support is not None:
            check_within_support(support, self.distributions, self.names)

    @classmethod
    def bernoulli(cls, means: ArrayLike, names: Sequence[str] | None = None) -> Bandit:
        """Make arms that pay 1 with the given probabilities, and 0 otherwise.

        >>> import pmbandits as pmb
        >>> pmb.Bandit.bernoulli([0.4, 0.9])
        Bandit(arm 0: bernoulli(0.4), arm 1: bernoulli(0.9); support Binary())
        """
        if np.ndim(means) == 0:
            raise TypeError(f"give the means as a list: Bandit.bernoulli([{means!r}, ...]), got {means!r}.")
        p = _validation.check_number_array("means", means)
        for k, mean in enumerate(p):
            _validation.check_within(f"mean of Bernoulli arm {k}", float(mean), 0.0, 1.0)
        return cls([_distributions.bernoulli_atoms(float(mean)) for mean in p], names, support=Binary())

    @classmethod
    def from_samples(cls, samples: Mapping[str, ArrayLike] | Sequence[ArrayLike]) -> Bandit:
        """Make arms that draw from logged rewards, each of them equally likely.

        >>> import pmbandits as pmb
        >>> pmb.Bandit.from_samples({"a": [0, 1, 1], "b": [2, 0, 5]}).names
        ('a', 'b')
        """
        if isinstance(samples, (str, bytes, os.PathLike)):
            raise TypeError(
                f"from_samples takes the rewards of each arm, not a path, got {_validation.short_repr(samples)}; read "
                "the file first, for example with pandas."
            )
        return cls(samples)

    @classmethod
    def shifted_exponentials(
        cls,
        shifts: ArrayLike,
        rates: float | ArrayLike = 1.0,
        *,
        metric: Distortion | str | None = None,
        names: Sequence[str] | None = None,
        support: Support | None = None,
    ) -> Bandit:
        """Make arms that pay a fixed amount c plus an exponential reward of rate λ: P(X > x) = e^(−λ(x − c)) from c on.

        With a strictly concave ``metric`` these are the arms by which the paper shows that mixtures can be best
        (``lemma:mixture_lemma_exponential``). All arms have equal utility, c·h(1) + U/λ, where U is the utility of an
        exponential reward of rate 1. So every mixture of arms that differ has a larger utility than any arm.

        Parameters
        ----------
        shifts : c of each arm, 0 or more.
        rates : λ, one number for all arms or one for each. With ``metric`` it is that of the first arm, and the others
            follow.
        metric : if given, rates are chosen such that all arms have the same utility under this metric.
        names, support : see :class:`Bandit`. The distributions are not sub-Gaussian, so no support is worked out from
            them.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> arms = pmb.Bandit.shifted_exponentials([1.0, 2.0, 4.0], metric=pmb.GiniDeviation())
        >>> best = pmb.oracle(pmb.GiniDeviation(), arms)
        >>> best.is_mixture, round(best.best_arm_value, 6), round(best.value, 6)
        (True, 0.5, 1.012447)
        """
        import scipy.stats as stats

        c = _validation.check_number_array("shifts", shifts)
        for k, shift in enumerate(c):
            _validation.check_within(f"shift of arm {k}", float(shift), 0.0)
        scale = np.broadcast_to(
            1.0 / np.atleast_1d(_validation.check_number_array("rates", np.atleast_1d(rates))), c.shape
        ).copy()
        if metric is not None:
            wanted = as_metric(metric)
            if np.ndim(rates) != 0:
                raise ValueError(
                    "with a metric, rates must be one number, the rate of the first arm, because the other rates "
                    f"follow from it; got {_validation.short_repr(rates)}."
                )
            unit, top = wanted.value(stats.expon()), float(wanted(1.0))
            if not unit > 0.0:
                raise ValueError(
                    f"an exponential reward of rate 1 is worth {unit:.4g} by {wanted!r}, but it must be worth more "
                    "than 0; take another metric."
                )
            scale = scale[0] + (c[0] - c) * top / unit  # c·h(1) + scale·unit is the same for all
        if not (np.isfinite(scale).all() and (scale > 0.0).all()):
            raise ValueError(
                "there are no positive rates with which all arms are worth the same; take shifts that differ less, or "
                "a smaller rate of the first arm."
                if metric is not None
                else f"rates must be positive, got {_validation.short_repr(rates)}."
            )
        return cls([stats.expon(loc=a, scale=b) for a, b in zip(c, scale, strict=True)], names, support=support)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.distributions)

    def __len__(self) -> int:
        return len(self.distributions)

    def index(self, arm: int | str) -> int:
        """The position of an arm that is given by its position or its name.

        >>> import pmbandits as pmb
        >>> pmb.Bandit.bernoulli([0.4, 0.9], names=["a", "b"]).index("b")
        1
        """
        return arm_index(arm, self.names)

    def sample(self, arm: int | str, size: int = 1, rng: Rng = None) -> FloatArray:
        """Draw rewards of one arm. The same ``rng`` seed gives the same rewards.

        >>> import pmbandits as pmb
        >>> pmb.Bandit.bernoulli([0.4, 1.0]).sample(1, size=3, rng=0)
        array([1., 1., 1.])
        """
        size = _validation.check_whole_number("size", size, 0)
        return self.distributions[self.index(arm)].sample(size, np.random.default_rng(rng))

    def sample_mixture(
        self, weights: ArrayLike, size: int = 1, rng: Rng = None
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Draw arms with the given weights, and a reward of each of them.

        Returns the positions of the arms, and the rewards.
        """
        mix = _validation.check_weights(weights, self.n_arms)
        size = _validation.check_whole_number("size", size, 0)
        generator = np.random.default_rng(rng)
        arms = generator.choice(self.n_arms, size=size, p=mix)
        rewards = np.empty(size)
        for arm, distribution in enumerate(self.distributions):
            is_arm = arms == arm
            rewards[is_arm] = distribution.sample(int(is_arm.sum()), generator)
        return arms, rewards

    def to_dict(self) -> dict[str, Any]:
        """A description of the arms that can be written as JSON.

        >>> import pmbandits as pmb
        >>> pmb.Bandit.bernoulli([0.4]).to_dict()["arms"]
        [{'bernoulli': 0.4}]
        """
        support = None if self.support is None else self.support.to_dict()
        return {
            "arms": [_distribution_to_dict(distribution) for distribution in self.distributions],
            "names": list(self.names),
            "support": support,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bandit:
        """Make the bandit that :meth:`to_dict` described.

        >>> import pmbandits as pmb
        >>> bandit = pmb.Bandit.bernoulli([0.4, 0.9])
        >>> pmb.Bandit.from_dict(bandit.to_dict())
        Bandit(arm 0: bernoulli(0.4), arm 1: bernoulli(0.9); support Binary())
        """
        support = None if data.get("support") is None else Support.from_dict(data["support"])
        return cls([_distribution_from_dict(arm) for arm in data["arms"]], data.get("names"), support=support)

    def _repr_html_(self) -> str:
        from pmbandits import _html

        rows = [(name, d.describe()) for name, d in zip(self.names[:12], self.distributions, strict=False)]
        rows += [("…", f"{self.n_arms - 12} more")] if self.n_arms > 12 else []
        grid = cdf_grid(self.distributions[:6])
        x = np.linspace(grid[0], grid[-1], 160)
        picture = _html.svg_line_chart(x, [d.cdf(x) for d in self.distributions[:6]], label="CDFs of the arms")
        known = f"support {self.support!r}" if self.support is not None else "support unknown"
        return _html.html_titled_block(
            f"Bandit, {self.n_arms} arms, {known}",
            _html.html_side_by_side(_html.html_table(("arm", "pays"), rows), picture),
        )

    def __repr__(self) -> str:
        parts = [f"{name}: {d.describe()}" for name, d in zip(self.names, self.distributions, strict=True)]
        if len(parts) > 6:
            parts = [*parts[:5], f"… {len(parts) - 5} more"]
        known = f"support {self.support!r}" if self.support is not None else "support unknown"
        return f"Bandit({', '.join(parts)}; {known})"


def cdf_grid(distributions: Sequence[Distribution]) -> FloatArray:
    """Where to draw CDFs: all atoms, and densely between where nearly all rewards lie."""
    known = []
    for distribution in distributions:
        points = distribution.breakpoints()
        cdf = distribution.cdf(points)
        known.append(points if isinstance(distribution, Atoms) else points[(cdf > 1e-3) & (cdf < 1.0 - 1e-3)])
    places = np.concatenate(known)
    lo, hi = float(places.min()), float(places.max())
    pad = 0.04 * (hi - lo) or 0.5
    return np.unique(np.concatenate((places, np.linspace(lo - pad, hi + pad, 400))))


def check_bandit(bandit: object) -> None:
    """Raise an error in one sentence if this is not a bandit."""
    if not isinstance(bandit, Bandit):
        raise TypeError(
            f"bandit must be a Bandit, such as Bandit.bernoulli([0.4, 0.9]), got {_validation.short_repr(bandit)}."
        )


def half_wasserstein_diameter(bandit: Bandit) -> float:
    """W of the arms: half the largest Wasserstein distance between two of them (``eq:W``).

    The paper defines it as the largest ratio of the W1 distance of two mixtures to the L1 distance of their weights,
    which is reached by two single arms. For arms that are 1-sub-Gaussian around 0 it is at most √(2π) (``theorem:W``).
    Arms whose means are far apart exceed that.

    >>> import pmbandits as pmb
    >>> round(pmb.half_wasserstein_diameter(pmb.Bandit.bernoulli([0.4, 0.9])), 12)
    0.25
    """
    return 0.5 * largest_wasserstein(list(bandit.distributions))


def wasserstein_distance(first: Any, second: Any) -> float:
    """The Wasserstein distance W1 of two distributions: ∫|F − G|, the area between their distribution functions.

    Utilities are Hölder continuous in this distance (``eq:Holder``): |U(F) − U(G)| ≤ 𝓛·W1(F, G)^q.

    Parameters
    ----------
    first, second : whatever can be an arm of a :class:`Bandit`: distributions of ``scipy.stats``, or samples.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> import scipy.stats as st
    >>> round(pmb.wasserstein_distance(st.norm(0), st.norm(2)), 9)
    2.0
    >>> pmb.wasserstein_distance([0, 1], [0, 0, 1, 4])
    0.75
    """
    pair = [_distribution_of_arm(given, name) for given, name in ((first, "first"), (second, "second"))]
    return largest_wasserstein(pair)


def arm_index(arm: int | str, names: Sequence[str]) -> int:
    """The position of an arm that is given by position or by name; an error lists the arms that there are."""
    if isinstance(arm, str):
        if arm in names:
            return list(names).index(arm)
        return int(_validation.check_choice("arm", arm, names, kind="arm"))
    if isinstance(arm, (bool, np.bool_)) or not isinstance(arm, (int, np.integer)):
        raise TypeError(f"an arm is given by its position or its name, got {_validation.short_repr(arm)}.")
    if not 0 <= arm < len(names):
        raise IndexError(f"there is no arm {_validation.short_repr(arm)}; arms are numbered 0 to {len(names) - 1}.")
    return int(arm)


def check_arm_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"arm {k}" for k in range(count))
    if isinstance(names, (str, bytes)) or not _validation.is_list(names):
        raise TypeError(f"names must be a list with a name for each arm, got {_validation.short_repr(names)}.")
    given = tuple(str(name) for name in names)
    strange = next((name for name in given if _validation.escape_control_characters(name) != name), None)
    if strange is not None:
        raise ValueError(f"the arm name {strange!r} has control characters in it; take them out.")
    if len(given) != count:
        one = "name was" if len(given) == 1 else "names were"
        raise ValueError(f"{len(given)} {one} given for {count} arm{'s' if count > 1 else ''}; give one each.")
    if len(set(given)) != count:
        twice = next(name for name in given if given.count(name) > 1)
        raise ValueError(f"arm names must differ, but {twice!r} occurs twice.")
    return given


def _distribution_of_arm(arm: Any, name: str) -> Distribution:
    if callable(getattr(arm, "freeze", None)) and not hasattr(arm, "xk"):
        raise TypeError(f"{name} is {arm.name!r} without parameters; freeze it, for example scipy.stats.norm(0, 1).")
    if isinstance(arm, Atoms) or _distributions.is_distribution(arm) or hasattr(arm, "xk"):
        own_distributions.check_has_formula(getattr(arm, "dist", None), name)
        made = _distributions.as_distribution(arm, name=name)
        if isinstance(made, ScipyDistribution) and not isinstance(made.family, str):
            own_distributions.check_rises_from_0_to_1(made, name)
            own_distributions.check_quantile_kernel(made, name)
        return made
    return _distributions.atoms_of_sample(arm, name=f"the sample of {name}")


def _distribution_to_dict(distribution: Distribution) -> dict[str, Any]:
    if isinstance(distribution, Atoms):
        if distribution.x.tolist() == [0.0, 1.0] and distribution.p[0] == 1.0 - distribution.p[1]:
            return {"bernoulli": float(distribution.p[1])}
        return {"points": distribution.x.tolist(), "probabilities": distribution.p.tolist()}
    if isinstance(distribution, ScipyDistribution):
        if isinstance(distribution.family, str):
            return {"scipy": distribution.family, "parameters": list(scipy_parameters(distribution))}
        levels = np.linspace(0.001, 0.999, 999)
        if own_distributions.quantile_kernel_of(distribution) is None:
            levels = distribution.quantile_distances_from(0.0, levels)[:999]
        else:
            levels = own_distributions.compiled_quantiles(distribution, levels)
        return {"own": distribution.describe(), "values": hashlib.sha256(levels.tobytes()).hexdigest()}
    raise TypeError(f"the distribution {distribution.describe()} cannot be written as data.")


def scipy_parameters(distribution: ScipyDistribution) -> tuple[float, ...]:
    """The numbers from which scipy makes the distribution again: shapes, location and, if it has one, scale."""
    return (*distribution.shapes, distribution.loc, *([] if distribution.lattice else [distribution.scale]))


def _distribution_from_dict(data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise ValueError(
            f"an arm is described by a table such as {{'bernoulli': 0.4}}, got {_validation.short_repr(data)}."
        )
    if "bernoulli" in data:
        return _distributions.bernoulli_atoms(
            _validation.check_within("mean of a Bernoulli arm", data["bernoulli"], 0.0, 1.0)
        )
    if "points" in data:
        x = _validation.check_number_array("points", data["points"])
        p = _validation.check_number_array("probabilities", data["probabilities"])
        return Atoms(x, p)
    if "own" in data:
        raise ValueError(
            f"the arm {data['own']} is a distribution of your own, and code is never stored; make the arms again, and "
            "give them, as in run.rescore(metric, bandit=arms), or study.rescore(metric, bandit={problem: arms})."
        )
    import scipy.stats as st

    family = getattr(st, str(data.get("scipy")), None)
    if not isinstance(family, (st.rv_continuous, st.rv_discrete)):
        raise ValueError(f"scipy.stats has no distribution {data.get('scipy')!r}; the bandit cannot be made again.")
    return family(*data["parameters"])


def _infer_support(distributions: Sequence[Distribution]) -> Support | None:
    if all(isinstance(distribution, Atoms) for distribution in distributions):
        atoms = np.unique(np.concatenate([distribution.breakpoints() for distribution in distributions]))
        if np.isin(atoms, (0.0, 1.0)).all():
            return Binary()
        if atoms.size < 2:
            return None
        close = np.diff(atoms).min() <= ATOM_TOLERANCE * (atoms[-1] - atoms[0])  # too close to be told apart
        return Interval(float(atoms[0]), float(atoms[-1])) if close else Finite(atoms)
    lo, hi = min(d.lo for d in distributions), max(d.hi for d in distributions)
    if np.isfinite(lo) and np.isfinite(hi):
        return Interval(lo, hi)
    sigma = 0.0
    for distribution in distributions:
        if np.isfinite(distribution.hi - distribution.lo):
            sigma = max(sigma, 0.5 * (distribution.hi - distribution.lo))  # Hoeffding's lemma
        elif isinstance(distribution, ScipyDistribution) and distribution.frozen.dist.name == "norm":
            sigma = max(sigma, float(distribution.frozen.std()))
        else:
            return None  # not known to be sub-Gaussian: the user must say
    return Real(sigma)


def check_within_support(support: Support, distributions: Sequence[Distribution], names: Sequence[str]) -> None:
    for distribution, name in zip(distributions, names, strict=True):
        if isinstance(distribution, Atoms):
            inside = bool(np.all(support.contains(distribution.x[distribution.p > 0.0])))
        else:
            inside = support.lo <= distribution.lo and distribution.hi <= support.hi
            inside = inside and not isinstance(support, (Binary, Finite))
        if not inside:
            raise ValueError(
                f"{name} ({distribution.describe()}) pays rewards outside the declared support {support!r}; "
                "declare a wider support."
            )
