"""U_h of samples, distributions, mixtures and tabulated CDFs against closed forms and independent sums."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

from pmbandits.metrics import (
    PHT,
    Distortion,
    DualPower,
    GiniDeviation,
    GiniShortfall,
    InterESRange,
    InterQuantileRange,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    Quadratic,
    TsallisPastEntropy,
    TverskyKahneman,
    UpperCVaR,
    VaR,
    WangRightTail,
    WangTransform,
)
from tests.reference.choquet import choquet_loop, choquet_quad, plain
from tests.strategies import METRICS, label

gini, mean = GiniDeviation(), Mean()
EULER = np.euler_gamma
PHI, Z = st.norm.pdf, st.norm.ppf


def name_of(x):
    if hasattr(x, "dist"):
        return f"{x.dist.name}{x.args}{x.kwds or ''}".replace(" ", "")
    return label(x) if isinstance(x, Distortion) else None


# ---- closed forms ------------------------------------------------------------------------------------------
def t_cvar(c, df):
    x = st.t(df).ppf(c)
    return (df + x * x) / (df - 1) * st.t(df).pdf(x) / (1 - c)


CLOSED = [
    (mean, st.norm(3, 2), 3.0),
    (mean, st.expon(), 1.0),
    (mean, st.beta(2, 5), 2 / 7),
    (mean, st.pareto(3), 1.5),
    (mean, st.pareto(1.1), 11.0),
    (mean, st.pareto(1.02), 51.0),
    (mean, st.lognorm(0.5), np.exp(0.125)),
    (mean, st.lognorm(3), np.exp(4.5)),
    (mean, st.t(5, loc=-1), -1.0),
    (mean, st.t(1.5, loc=2), 2.0),
    (mean, st.uniform(-3, 1), -2.5),
    (mean, st.poisson(3.7), 3.7),
    (mean, st.binom(10, 0.3), 3.0),
    (mean, st.geom(0.2), 5.0),
    (mean, st.geom(1e-4), 1e4),
    (mean, st.nbinom(3, 0.1), 27.0),
    (mean, st.skellam(5, 7), -2.0),
    (mean, st.zipf(4), sp.zeta(3) / sp.zeta(4)),
    (mean, st.zipf(3), sp.zeta(2) / sp.zeta(3)),
    (mean, st.zipf(2.2), sp.zeta(1.2) / sp.zeta(2.2)),
    (gini, st.norm(1, 3), 3 / np.sqrt(np.pi)),
    (gini, st.uniform(), 1 / 6),
    (gini, st.expon(), 0.5),
    (gini, st.expon(scale=1e-6), 0.5e-6),
    (gini, st.expon(loc=-5, scale=1e6), 0.5e6),
    (gini, st.pareto(3), 1.5 / 5),
    (gini, st.pareto(1.1), 11 / 1.2),
    (gini, st.lognorm(0.5), np.exp(0.125) * sp.erf(0.25)),
    (gini, st.lognorm(2), np.exp(2) * sp.erf(1)),
    (gini, st.logistic(0, 2), 2.0),
    (gini, st.gumbel_r(0, 2), 2 * np.log(2)),
    (gini, st.weibull_min(1.7), (1 - 2 ** (-1 / 1.7)) * sp.gamma(1 + 1 / 1.7)),
    (gini, st.t(2), np.pi / (2 * np.sqrt(2))),
    (gini, st.geom(0.2), 0.8 / (1 - 0.64)),
    (gini, st.poisson(3.7), 3.7 * (sp.ive(0, 7.4) + sp.ive(1, 7.4))),
    (gini, st.bernoulli(0.3), 0.21),
    (DualPower(3.5), st.uniform(), 3.5 / 4.5),
    (DualPower(3.5), st.expon(), sp.digamma(4.5) + EULER),
    (DualPower(2), st.norm(1, 2), 1 + 2 / np.sqrt(np.pi)),
    (DualPower(3), st.norm(), 1.5 / np.sqrt(np.pi)),
    (DualPower(4), st.pareto(2.5), sp.gamma(5) * sp.gamma(0.6) / sp.gamma(4.6)),
    (PHT(0.3), st.expon(), 1 / 0.3),
    (PHT(0.5), st.pareto(3), 3.0),
    (PHT(0.5), st.pareto(2.1), 21.0),
    (PHT(0.3), st.uniform(), 1 / 1.3),
    (PHT(0.6), st.weibull_min(0.8), sp.gamma(2.25) * 0.6**-1.25),
    (PHT(0.5), st.geom(0.2), 1 / (1 - np.sqrt(0.8))),
    (PHT(0.5), st.lomax(4), 1.0),
    (UpperCVaR(0.95), st.norm(1, 2), 1 + 2 * PHI(Z(0.95)) / 0.05),
    (UpperCVaR(0.9), st.uniform(), 0.95),
    (UpperCVaR(0.9), st.expon(), 1 - np.log(0.1)),
    (UpperCVaR(0.9), st.pareto(2), 2 / np.sqrt(0.1)),
    (UpperCVaR(0.9), st.lognorm(0.5), np.exp(0.125) * st.norm.cdf(0.5 - Z(0.9)) / 0.1),
    (UpperCVaR(0.9), st.t(3), t_cvar(0.9, 3)),
    (LowerCVaR(0.05), st.norm(1, 2), 1 - 2 * PHI(Z(0.05)) / 0.05),
    (LowerCVaR(0.2), st.uniform(), 0.1),
    (LowerCVaR(0.2), st.expon(), (0.8 * np.log(0.8) + 0.2) / 0.2),
    (LowerCVaR(0.1), st.t(3), -t_cvar(0.9, 3)),
    (LowerCVaR(0.1), st.pareto(0.5), (1 / 0.9 - 1) / 0.1),
    (WangTransform(0.7), st.norm(1, 2), 2.4),
    (WangTransform(-0.7), st.norm(1, 2), -0.4),
    (WangTransform(0.7), st.lognorm(0.5), np.exp(0.35 + 0.125)),
    (WangTransform(-2), st.lognorm(1.5), np.exp(-3 + 1.125)),
    (WangTransform(1.0), st.uniform(), st.norm.cdf(1 / np.sqrt(2))),
    (WangRightTail(), st.uniform(), 1 / 6),
    (WangRightTail(), st.expon(), 1.0),
    (WangRightTail(), st.pareto(3), 3 - 1.5),
    (MeanMedianDeviation(), st.norm(1, 2), 2 * np.sqrt(2 / np.pi)),
    (MeanMedianDeviation(), st.uniform(), 0.25),
    (MeanMedianDeviation(), st.expon(), np.log(2)),
    (MeanMedianDeviation(), st.laplace(4, 3), 3.0),
    (InterESRange(0.5), st.norm(), 2 * np.sqrt(2 / np.pi)),
    (InterESRange(0.9), st.norm(1, 2), 4 * PHI(Z(0.9)) / 0.1),
    (InterESRange(0.2), st.uniform(), 0.2),
    (InterQuantileRange(), st.norm(), 2 * Z(0.75)),
    (InterQuantileRange(), st.expon(), np.log(3)),
    (InterQuantileRange(), st.cauchy(), 2.0),
    (InterQuantileRange(0.9, 0.95), st.norm(), Z(0.95) - Z(0.9)),
    (VaR(0.9), st.norm(1, 2), 1 + 2 * Z(0.9)),
    (VaR(0.1), st.cauchy(), -1 / np.tan(np.pi * 0.1)),
    (VaR(0.999), st.pareto(0.1), 1e30),
    (VaR(0.9), st.poisson(1e6), st.poisson(1e6).ppf(0.9)),
    (VaR(0.3), st.geom(1e-3), st.geom(1e-3).ppf(0.3)),
    (GiniShortfall(0.9, 0.3), st.uniform(), 0.1 * (0.5 + 0.1) + 0.9),
    (GiniShortfall(0.9, 0.8), st.expon(), 1 - np.log(0.1) + 0.8),
    (Quadratic(0.4), st.norm(1, 2), 1 + 0.4 * 2 / np.sqrt(np.pi)),
    (InvertedS(0.5), st.expon(), sp.gamma(3)),
    (InvertedS(3), st.expon(), sp.gamma(4 / 3)),
    (InvertedS(0.6), st.weibull_min(2), sp.gamma(1 + 1 / 1.2)),
    (InvertedS(2), st.pareto(0.7), 1 + np.sqrt(np.pi) / 1.4 * np.exp(0.25 / 0.49) * (1 + sp.erf(0.5 / 0.7))),
    (TsallisPastEntropy(3), st.uniform(), 1 / 8),
    (TsallisPastEntropy(1), st.uniform(), 1 / 4),
    (TsallisPastEntropy(0.3), st.uniform(), 1 / 2.6),
    (TsallisPastEntropy(1), st.expon(), np.pi**2 / 6 - 1),
    (TsallisPastEntropy(1.5), st.expon(), (sp.digamma(2.5) + EULER - 1) / 0.5),
    (TsallisPastEntropy(0.5), st.beta(3, 1), (1 / 4 - 1 / 2.5) / -0.5),
    (TverskyKahneman(0.61), st.bernoulli(0.2), 0.2**0.61 / (0.2**0.61 + 0.8**0.61) ** (1 / 0.61)),
    (0.7 * mean + 0.3 * UpperCVaR(0.9), st.expon(), 0.7 + 0.3 * (1 - np.log(0.1))),
    (mean - 0.5 * gini, st.norm(1, 2), 1 - 1 / np.sqrt(np.pi)),
    (VaR(0.9) - VaR(0.1), st.norm(), 2 * Z(0.9)),
]


@pytest.mark.parametrize(("m", "distribution", "expected"), CLOSED, ids=name_of)
def test_value_of_a_distribution_matches_its_closed_form(m, distribution, expected):
    assert m.value(distribution) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("m", METRICS, ids=label)
@pytest.mark.parametrize("p", [0.0, 0.07, 0.5, 1.0])
def test_value_of_a_bernoulli_reward_is_h_of_its_mean(m, p):
    assert m.value(st.bernoulli(p)) == pytest.approx(m(p), abs=1e-15)
    assert m.value([0.0, 1.0], weights=[1 - p, p]) == pytest.approx(m(p), abs=1e-15)


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_value_of_a_certain_reward_is_that_reward_times_h_of_one(m):
    assert m.value([-3.5]) == pytest.approx(-3.5 * m(1.0), abs=1e-15)
    assert m.value([2.0, 2.0, 2.0]) == pytest.approx(2.0 * m(1.0), abs=1e-15)


def test_gaussian_means_one_three_five_under_gini():
    arms = [st.norm(1), st.norm(3), st.norm(5)]
    assert gini.value(arms, weights=[0.5, 0, 0.5]) == pytest.approx(1.282584, abs=5e-7)
    assert gini.value(arms, weights=[1 / 3] * 3) == pytest.approx(1.099505, abs=5e-7)


def test_gini_of_a_mixture_is_the_quadratic_form_of_mean_distances():
    # E|N(d, 2)| for two independent unit normals whose means differ by d
    def distance(d):
        return 2 * PHI(d / np.sqrt(2)) * np.sqrt(2) + d * (2 * st.norm.cdf(d / np.sqrt(2)) - 1)

    means, a = np.array([1.0, 3.0, 5.0, -20.0]), np.array([0.1, 0.2, 0.3, 0.4])
    table = distance(means[:, None] - means[None, :])
    expected = 0.5 * a @ table @ a
    assert gini.value([st.norm(m) for m in means], weights=a) == pytest.approx(expected, rel=1e-9)


# ---- quadrature --------------------------------------------------------------------------------------------
def kinks_of(m):
    places = {
        "upper_cvar": lambda: [1 - m.c],
        "var": lambda: [1 - m.c],
        "lower_cvar": lambda: [1 - m.alpha],
        "mean_median_deviation": lambda: [0.5],
        "inter_es_range": lambda: [m.c, 1 - m.c],
        "gini_shortfall": lambda: [1 - m.p],
        "inter_quantile_range": lambda: [1 - m.lower, 1 - m.upper],
    }
    return places.get(m.name, list)()


def clip(x):
    return min(max(x, 0.0), 1.0)


def positive(f, at_zero):
    return lambda x: f(x) if x > 0 else at_zero


# distribution, its CDF and survival function typed again, and points between which they are smooth
NORM = (st.norm(0.7, 1.3), lambda x: sp.ndtr((x - 0.7) / 1.3), lambda x: sp.ndtr((0.7 - x) / 1.3))
NORM = (*NORM, [0.7 + 1.3 * z for z in (-38, -25, -15, -9, -6, -4, -2, -1, 0, 1, 2, 4, 6, 9, 15, 25, 38)])
BETA = (
    st.beta(0.6, 2.5, loc=-1, scale=3),
    lambda x: sp.betainc(0.6, 2.5, clip((x + 1) / 3)),
    lambda x: sp.betaincc(0.6, 2.5, clip((x + 1) / 3)),
    [-1 + 3 * z for z in (0, 1e-12, 1e-8, 1e-5, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999, 1)],
)
GAMMA = (
    st.gamma(0.4),
    positive(lambda x: sp.gammainc(0.4, x), 0.0),
    positive(lambda x: sp.gammaincc(0.4, x), 1.0),
    [
        0,
        1e-40,
        1e-25,
        1e-15,
        1e-10,
        1e-7,
        1e-5,
        1e-3,
        0.01,
        0.1,
        0.5,
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
        512,
        740,
    ],
)
T8 = (st.t(8, loc=1), lambda x: sp.stdtr(8, x - 1), lambda x: sp.stdtr(8, 1 - x))
T8 = (*T8, [1 + s * 2.0**k for s in (-1, 1) for k in range(-2, 40)] + [1.0])
LOGNORM = (
    st.lognorm(0.4),
    positive(lambda x: sp.ndtr(np.log(x) / 0.4), 0.0),
    positive(lambda x: sp.ndtr(-np.log(x) / 0.4), 1.0),
    [0.0, *np.exp(0.4 * np.arange(-20.0, 38.0, 1.0))],
)
EXPON = (st.expon(3), lambda x: -np.expm1(-max(x - 3, 0.0)), lambda x: np.exp(-max(x - 3, 0.0)))
EXPON = (*EXPON, [3, 3.5, 4, 5, 7, 11, 19, 35, 67, 131, 259, 515])
UNIFORM = (st.uniform(-2, 1), lambda x: clip(x + 2), lambda x: clip(-1 - x), [-2, -1.5, -1])
FAR = (st.uniform(5, 1), lambda x: clip(x - 5), lambda x: clip(6 - x), [5, 5.5, 6])
POISSON = (
    st.poisson(2.5),
    lambda x: sp.pdtr(np.floor(x), 2.5) if x >= 0 else 0.0,
    lambda x: sp.pdtrc(np.floor(x), 2.5) if x >= 0 else 1.0,
    list(range(60)),
)
BINOM = (
    st.binom(4, 0.4),
    lambda x: 0.0 if x < 0 else (1.0 if x >= 4 else sp.bdtr(np.floor(x), 4, 0.4)),
    lambda x: 1.0 if x < 0 else (0.0 if x >= 4 else sp.bdtrc(np.floor(x), 4, 0.4)),
    [0, 1, 2, 3, 4],
)


def by_quadrature(m, parts, weights):
    def cdf(x):
        return clip(sum(w * part[1](x) for w, part in zip(weights, parts, strict=True)))

    def sf(x):
        return clip(sum(w * part[2](x) for w, part in zip(weights, parts, strict=True)))

    edges = [float(x) for part in parts for x in part[3]]
    lo, hi = min(edges), max(edges)
    for u in kinks_of(m):
        a, b = lo, hi
        for _ in range(200):  # bisection for the crossing of the mixture
            middle = 0.5 * (a + b)
            a, b = (middle, b) if sf(middle) > u else (a, middle)
        edges.append(b)
    supports = [part[0].support() for part in parts]
    tails = (any(s[0] == -np.inf for s in supports), any(s[1] == np.inf for s in supports))
    return choquet_quad(plain(m.name, m.parameters), cdf, sf, edges, tails)


QUADRATURE = [mean, gini, DualPower(2.5), Quadratic(0.4), UpperCVaR(0.83), PHT(0.45), MeanMedianDeviation()]
QUADRATURE += [InterESRange(0.8), WangRightTail(), VaR(0.37), LowerCVaR(0.17), GiniShortfall(0.3, 0.9)]
QUADRATURE += [InterQuantileRange(0.13, 0.71), InvertedS(1.4), TsallisPastEntropy(0.6), WangTransform(-0.8)]
QUADRATURE += [TverskyKahneman(0.61)]


@pytest.mark.parametrize("part", [NORM, BETA, GAMMA, T8, LOGNORM], ids=["norm", "beta", "gamma", "t", "lognorm"])
@pytest.mark.parametrize("m", QUADRATURE, ids=label)
def test_value_of_a_continuous_distribution_matches_quadrature_of_the_definition(m, part):
    assert m.value(part[0]) == pytest.approx(by_quadrature(m, [part], [1.0]), rel=1e-9, abs=1e-12)


MIXTURES = {
    "norm-gamma": ([NORM, GAMMA], [0.3, 0.7]),
    "norm-poisson": ([NORM, POISSON], [0.6, 0.4]),
    "three-kinds": ([UNIFORM, BINOM, EXPON], [0.2, 0.5, 0.3]),
    "rare": ([BETA, FAR], [0.999, 0.001]),
}


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("m", QUADRATURE, ids=label)
def test_value_of_a_mixture_matches_quadrature_of_the_definition(m, mixture):
    parts, weights = MIXTURES[mixture]
    got = m.value([part[0] for part in parts], weights=weights)
    assert got == pytest.approx(by_quadrature(m, parts, weights), rel=1e-9, abs=1e-12)


def test_inverted_s_of_a_lognormal_matches_quadrature_in_the_logarithm():
    # S(e^y) = Φ(−y/σ); its image decays like a power of x, slower than any quantile rule sees
    sigma, h = 0.5, plain("inverted_s", {"beta": 0.5})
    y = np.linspace(-12, 60, 720_001)
    u, v = st.norm.sf(y / sigma), st.norm.cdf(y / sigma)
    log_u = st.norm.logsf(y / sigma)
    image = np.where(u < 0.5, np.exp(-np.sqrt(-log_u)), [h(a, b) for a, b in zip(u, v, strict=True)])
    expected = np.exp(-12.0) + np.trapezoid(image * np.exp(y), y)
    tail = image[-1] * np.exp(y[-1]) / (np.sqrt(0.5) / sigma - 1)  # geometric beyond the last point
    assert InvertedS(0.5).value(st.lognorm(sigma)) == pytest.approx(expected + tail, rel=2e-6)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_an_arm_of_weight_zero_does_not_matter_even_if_it_is_infinite(weight):
    distributions = [st.cauchy(), st.norm(2)] if weight == 0.0 else [st.norm(2), st.cauchy()]
    assert mean.value(distributions, weights=[weight, 1 - weight]) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("distribution", [st.norm(1, 2), st.poisson(3), st.beta(2, 3)], ids=name_of)
@pytest.mark.parametrize("m", [gini, UpperCVaR(0.9), PHT(0.5), TsallisPastEntropy(0.5)], ids=label)
def test_a_mixture_of_equal_distributions_is_that_distribution(m, distribution):
    got = m.value([distribution, distribution, distribution], weights=[0.2, 0.3, 0.5])
    assert got == pytest.approx(m.value(distribution), rel=1e-10)


# ---- discrete distributions -----------------------------------------------------------------------------------------
LATTICES = [
    st.poisson(3.7),
    st.binom(12, 0.3, loc=-4),
    st.geom(0.15),
    st.nbinom(2.5, 0.3),
    st.skellam(5, 7),
    st.dlaplace(0.8),
    st.randint(-3, 5),
    st.poisson(2, loc=0.5),
    st.binom(400, 0.02),
    st.binom(400, 0.98),
]


@pytest.mark.parametrize("distribution", LATTICES, ids=name_of)
@pytest.mark.parametrize(
    "m",
    [
        mean,
        gini,
        DualPower(2.5),
        Quadratic(0.5),
        UpperCVaR(0.83),
        PHT(0.5),
        MeanMedianDeviation(),
        InterESRange(0.7),
    ]
    + [WangRightTail(), VaR(0.371), LowerCVaR(0.17), GiniShortfall(0.4, 0.7), InterQuantileRange(0.21, 0.83)]
    + [InvertedS(0.8), TsallisPastEntropy(0.5), WangTransform(0.6), TverskyKahneman(0.61)],
    ids=label,
)
def test_value_of_a_discrete_distribution_matches_a_plain_sum_over_its_atoms(m, distribution):
    h = plain(m.name, m.parameters)
    lo, hi = (float(x) for x in distribution.support())
    anchor = lo if np.isfinite(lo) else 0.0
    k = anchor + np.arange(-1500 if lo == -np.inf else 0, 1500 if hi == np.inf else hi - anchor + 1)
    mass = distribution.pmf(k)  # tails are summed from their own end: some of scipy's sf are 1 − cdf
    above = np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)
    expected = k[0] * h(1.0, 0.0) if np.isfinite(lo) else 0.0
    for x, u, v in zip(k[:-1], np.minimum(above, 1.0), np.minimum(np.cumsum(mass), 1.0), strict=False):
        expected += h(u, v) - (h(1.0, 0.0) if not np.isfinite(lo) and x < 0 else 0.0)
    assert m.value(distribution) == pytest.approx(expected, rel=1e-10, abs=1e-11)


def test_a_distribution_given_by_values_is_the_weighted_sample():
    x, p = np.array([4, -2, 7]), np.array([0.2, 0.5, 0.3])
    distribution = st.rv_discrete(values=(x, p))
    for m in METRICS:
        expected = m.value(x, weights=p)
        assert m.value(distribution) == pytest.approx(expected, abs=1e-13)
        assert m.value(distribution()) == pytest.approx(expected, abs=1e-13)
        assert m.value(distribution(loc=2)) == pytest.approx(expected + 2 * m(1.0), abs=1e-13)


@pytest.mark.parametrize("distribution", [st.poisson(1e6), st.geom(1e-4), st.nbinom(50, 1e-3)], ids=name_of)
@pytest.mark.parametrize(("lower", "upper"), [(0.9, 0.95), (0.05, 0.1), (0.25, 0.75)])
def test_quantile_range_of_a_wide_lattice_is_the_difference_of_its_quantiles(distribution, lower, upper):
    expected = distribution.ppf(upper) - distribution.ppf(lower)
    m = InterQuantileRange(lower, upper)
    assert m.value(distribution) == pytest.approx(expected, rel=1e-12)
    mixture = m.value([distribution, distribution], weights=[0.5, 0.5])
    assert mixture == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("m", [PHT(0.5), WangRightTail(), TsallisPastEntropy(0.4), TverskyKahneman(0.4)], ids=label)
@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_the_value_of_atoms_keeps_its_digits_when_the_mass_lies_on_few_of_them(m, flip):
    # 1 − 4e-14 on the first point, the rest spread over many far ones: the tail, not the middle atom, decides
    k = np.arange(41.0)
    p = np.concatenate(([1.0 - 40e-15], np.full(40, 1e-15)))
    h = plain(m.name, m.parameters)
    tail = np.cumsum(p[:0:-1])[::-1]
    if flip > 0:
        expected = sum(h(t, 1 - t) for t in tail)
    else:
        expected = sum(h(1 - t, t) - h(1.0, 0.0) for t in tail)
    distribution = st.rv_discrete(values=(flip * k, p))
    assert m.value(distribution) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("m", [mean, gini, PHT(0.5), InterQuantileRange(0.9, 0.94), UpperCVaR(0.97)], ids=label)
def test_a_wide_lattice_beside_a_far_atom_keeps_its_value_in_a_mixture(m):
    distribution, far = st.geom(0.01), st.rv_discrete(values=([-50, 5000], [0.5, 0.5]))
    k = np.arange(1, 40_001)
    x = np.concatenate((k, [-50, 5000]))
    p = np.concatenate((0.9 * distribution.pmf(k), [0.05, 0.05]))
    got = m.value([distribution, far], weights=[0.9, 0.1])
    assert got == pytest.approx(m.value(x, weights=p / p.sum()), rel=1e-9)


# ---- divergence --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("m", "distribution", "side"),
    [
        (mean, st.pareto(1), "upper"),
        (mean, st.pareto(0.5), "upper"),
        (mean, st.levy(), "upper"),
        (mean, st.levy_l(), "lower"),
        (mean, st.zipf(2), "upper"),
        (mean, st.zipf(1.5), "upper"),
        (mean, st.cauchy(), "lower|upper"),
        (gini, st.cauchy(), "lower|upper"),
        (UpperCVaR(0.9), st.cauchy(), "upper"),
        (LowerCVaR(0.1), st.cauchy(), "lower"),
        (-1 * LowerCVaR(0.1), st.cauchy(), "lower"),
        (PHT(0.5), st.pareto(2), "upper"),
        (PHT(0.5), st.zipf(3), "upper"),
        (WangRightTail(), st.t(2), "upper"),
        (TsallisPastEntropy(0.5), st.t(2), "lower"),
        (InvertedS(0.5), st.pareto(5), "upper"),
        (InvertedS(0.5), st.lognorm(1), "upper"),
        (TverskyKahneman(0.5), st.pareto(1.5), "upper"),
    ],
    ids=name_of,
)
def test_a_divergent_integral_is_an_error_that_names_the_tail(m, distribution, side):
    with pytest.raises(ValueError, match=f"is infinite: its ({side}) tail diverges"):
        m.value(distribution)


@pytest.mark.parametrize(
    ("distributions", "side"),
    [([st.norm(), st.pareto(1)], "upper"), ([st.levy_l(), st.norm()], "lower")],
    ids=["upper", "lower"],
)
def test_a_divergent_arm_makes_the_mixture_diverge(distributions, side):
    with pytest.raises(ValueError, match=f"its {side} tail diverges"):
        mean.value(distributions, weights=[0.5, 0.5])


def test_a_divergent_lattice_in_a_mixture_is_an_error_that_names_the_tail():
    with pytest.raises(ValueError, match="upper tail"):
        mean.value([st.zipf(2), st.norm()], weights=[0.5, 0.5])


# ---- samples -----------------------------------------------------------------------------------------------
def random_samples():
    rng = np.random.default_rng(11)
    yield [3.0]
    yield [-2.5]
    yield [1.0, 1.0, 1.0]
    yield [1.0, 2.0, 4.0]
    yield [-3.0, -1.0, -1.0, 0.0, 5.0, 5.0, 0.0]
    yield rng.normal(0, 10, 17).tolist()
    yield rng.integers(-3, 4, 23).astype(float).tolist()
    yield rng.pareto(1.2, 13).tolist()


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_value_of_a_sample_matches_a_plain_loop(m):
    h = plain(m.name, m.parameters)
    for x in random_samples():
        expected = choquet_loop(lambda u: h(u, 1.0 - u), x)
        if m.jumps and any(abs(u * len(x) - round(u * len(x))) < 1e-9 for u, _ in m.jumps):
            continue  # ties with the jump have their own test
        assert m.value(x) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert m.value(np.array(x)[::-1]) == m.value(x)


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_value_of_a_weighted_sample_matches_a_plain_loop(m):
    rng = np.random.default_rng(12)
    h = plain(m.name, m.parameters)
    for x in random_samples():
        p = rng.dirichlet(np.ones(len(x)))
        expected = choquet_loop(lambda u: h(u, 1.0 - u), x, p)
        assert m.value(x, weights=p) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_points_of_weight_zero_do_not_count(m):
    x, p = np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.7])
    bare = m.value(x, weights=p)
    padded = m.value([-1000.0, *x, 1.5, 1000.0], weights=[0.0, *p, 0.0, 0.0])
    assert padded == pytest.approx(bare, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_equal_weights_repeat_the_plain_sample(m):
    x = [5.0, -1.0, 2.0, 2.0, 0.5, 7.0, 3.25]
    assert m.value(x, weights=np.full(7, 1 / 7)) == pytest.approx(m.value(x), abs=1e-12)


@pytest.mark.parametrize("m", [mean, gini, PHT(0.5), UpperCVaR(0.99), VaR(0.999), TsallisPastEntropy(1)], ids=label)
def test_a_long_sample_is_summed_over_all_its_blocks(m):
    x = np.random.default_rng(13).normal(size=50_001)
    ordered = np.sort(x)
    above = np.arange(x.size, -1, -1) / x.size
    expected = ordered @ -np.diff(m(above))
    assert m.value(x) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 16_384, 16_385, 16_386])
def test_samples_at_the_edges_of_a_block_have_the_right_mean(n):
    x = np.random.default_rng(n).normal(3, 1, n)
    assert mean.value(x) == pytest.approx(x.mean(), rel=1e-12)


def test_the_sample_is_not_modified():
    x = np.array([3.0, 1.0, 2.0])
    gini.value(x)
    gini.value(x, weights=[0.2, 0.3, 0.5])
    assert x.tolist() == [3.0, 1.0, 2.0]


def test_mean_absolute_differences_of_a_sample_give_gini():
    x = np.random.default_rng(14).normal(size=40)
    assert gini.value(x) == pytest.approx(0.5 * np.abs(x[:, None] - x).mean(), rel=1e-13)


def test_mean_distance_from_the_median_of_a_sample():
    x = np.random.default_rng(15).normal(size=41)
    assert MeanMedianDeviation().value(x) == pytest.approx(np.abs(x - np.median(x)).mean(), rel=1e-13)


def test_dual_power_of_a_sample_is_the_expected_best_of_two_draws():
    x = np.random.default_rng(16).normal(size=30)
    assert DualPower(2).value(x) == pytest.approx(np.maximum(x[:, None], x).mean(), rel=1e-12)


@pytest.mark.parametrize("c", [0.05, 0.25, 1 / 3, 0.5, 0.77, 0.9, 0.99])
def test_var_of_a_sample_is_numpys_inverted_cdf_quantile(c):
    rng = np.random.default_rng(17)
    for n in (1, 2, 3, 7, 11, 53, 101, 1009):
        x = rng.normal(size=n)
        if abs(n * c - round(n * c)) > 1e-9:
            assert VaR(c).value(x) == pytest.approx(np.quantile(x, c, method="inverted_cdf"), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 7, 10, 20, 49, 100, 1000])
def test_var_at_a_whole_share_is_the_order_statistic_of_that_rank(n):
    x = np.random.default_rng(n).normal(size=n)
    ordered = np.sort(x)
    for j in {1, n // 3, n // 2, n - 1} - {0, n}:
        assert VaR(j / n).value(x) == pytest.approx(ordered[j - 1], abs=1e-12)
        assert VaR(j / n).value(x, weights=np.full(n, 1 / n)) == pytest.approx(ordered[j - 1], abs=1e-12)


@pytest.mark.parametrize(
    ("m", "name", "shape"),
    [
        (PHT(0.5), "ph", 0.5),
        (PHT(0.83), "ph", 0.83),
        (UpperCVaR(0.9), "tvar", 0.9),
        (UpperCVaR(0.3), "tvar", 0.3),
        (DualPower(2.5), "dual", 2.5),
        (WangTransform(0.7), "wang", 0.7),
    ],
    ids=str,
)
def test_value_agrees_with_the_package_aggregate(m, name, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pandas as pd
        from aggregate import Distortion as Theirs

        theirs = Theirs(name, shape)
        rng = np.random.default_rng(18)
        for n in (2, 5, 30):
            x = np.concatenate(([0.0], np.sort(rng.gamma(2, 3, n - 1))))
            p = rng.dirichlet(np.full(n, 3.0))
            expected = float(theirs.price(pd.Series(p, index=x), np.inf, "ask")[0])
            assert m.value(x, weights=p) == pytest.approx(expected, rel=1e-12)


# ---- CDFs on a grid ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("m", METRICS, ids=label)
def test_a_cdf_that_steps_is_the_weighted_sample(m):
    x, p = np.array([-2.0, 0.5, 1.0, 4.0]), np.array([0.15, 0.35, 0.3, 0.2])
    assert m.value_of_cdf(x, np.cumsum(p)) == pytest.approx(m.value(x, weights=p), abs=1e-12)


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_a_cdf_that_rises_in_one_line_is_the_uniform_distribution(m):
    got = m.value_of_cdf([-1.0, 3.0], [0.0, 1.0], between="lines")
    assert got == pytest.approx(m.value(st.uniform(-1, 4)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("m", METRICS, ids=label)
def test_a_cdf_of_several_lines_is_a_mixture_of_uniforms(m):
    x, levels = [-1.0, 0.0, 2.0, 5.0], [0.0, 0.3, 0.3, 1.0]
    got = m.value_of_cdf(x, levels, between="lines")
    expected = m.value([st.uniform(-1, 1), st.uniform(2, 3)], weights=[0.3, 0.7])
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("x", "cdf", "between", "message"),
    [
        ([0, 1], [0.5, 0.9], "steps", "cdf must rise"),
        ([0, 1], [-0.1, 1.0], "steps", "cdf must rise"),
        ([0, 1, 2], [0.5, 0.4, 1.0], "steps", "cdf must rise"),
        ([0, 1, 2], [0.5, 1.0], "steps", "2 entries for 3 grid points"),
        ([0, 0], [0.5, 1.0], "steps", "increase strictly"),
        ([1, 0], [0.5, 1.0], "steps", "increase strictly"),
        ([0], [1.0], "steps", "x must have at least 2 values"),
        ([0, np.nan], [0.5, 1.0], "steps", "x must be finite"),
        ([0, 1], [np.nan, 1.0], "steps", "cdf must be finite"),
        ([0, 1], [0.5, 1.0], "lines", "must start at 0"),
        ([0, 1], [0.0, 1.0], "line", "unknown between 'line'. Did you mean 'lines'"),
    ],
)
def test_a_bad_cdf_is_refused(x, cdf, between, message):
    with pytest.raises(ValueError, match=message):
        gini.value_of_cdf(x, cdf, between=between)


# ---- bad input ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weights", [None, "given"])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([], ValueError, "the sample is empty"),
        ([1.0, np.nan], ValueError, r"the sample must be finite.*position 1 \(nan\)"),
        ([np.inf, 1.0], ValueError, r"the sample must be finite.*position 0 \(inf\)"),
        ([1.0, -np.inf, np.nan], ValueError, "2 NaN or infinite"),
        ([[1.0, 2.0]], ValueError, "one-dimensional"),
        (3.0, ValueError, "one-dimensional"),
        (["a", "b"], TypeError, "array of numbers"),
        (None, (TypeError, ValueError), "the sample"),
    ],
    ids=str,
)
def test_bad_samples_are_refused(x, error, message, weights):
    with pytest.raises(error, match=message):
        gini.value(x, weights=None if weights is None else np.full(max(np.size(x), 1), 1 / max(np.size(x), 1)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.6, -0.1], "must not be negative, but entry 2 is -0.1"),
        ([0.5, 0.5, 0.5], "must add up to 1, but add up to 1.5"),
        ([0.5, 0.5], "2 entries for 3"),
        ([0.0, 0.0, 0.0], "must add up to 1"),
        ([np.nan, 0.5, 0.5], "weights must be finite"),
        ([], "weights is empty"),
        ([[0.2, 0.3, 0.5]], "one-dimensional"),
    ],
    ids=str,
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        gini.value([1.0, 2.0, 3.0], weights=weights)
    with pytest.raises(ValueError, match=message):
        gini.value([st.norm(1), st.norm(2), st.norm(3)], weights=weights)


def test_decimal_weights_that_miss_one_by_rounding_are_accepted():
    assert mean.value([0.0, 1.0, 2.0, 3.0], weights=[0.1, 0.1, 0.1, 0.7]) == pytest.approx(2.4)


def test_weights_with_one_distribution_are_refused():
    with pytest.raises(TypeError, match="not to one distribution"):
        gini.value(st.norm(), weights=[1.0])


def test_a_list_of_distributions_without_weights_is_refused():
    with pytest.raises(TypeError, match="needs weights"):
        gini.value([st.norm(), st.norm(1)])


def test_a_distribution_that_is_not_frozen_is_refused():
    with pytest.raises(TypeError, match=r"frozen scipy.stats distribution"):
        gini.value(st.norm)


def test_a_list_of_a_distribution_and_something_else_is_refused():
    with pytest.raises(TypeError, match=r"distribution 1 .* scipy\.stats"):
        gini.value([st.norm(), "norm"], weights=[0.5, 0.5])


@pytest.mark.parametrize(
    "distribution", [st.norm(0, -1), st.beta(-1, 2), st.poisson(-3), st.binom(3, 1.5)], ids=name_of
)
def test_distributions_with_invalid_parameters_are_refused(distribution):
    with pytest.raises(ValueError, match="invalid parameters"):
        gini.value(distribution)
