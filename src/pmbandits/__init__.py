"""pmbandits: preference-centric bandits.

Say what you value about rewards, and find or learn the mixture of arms that is best for it.

- You have a table of rewards: :func:`advise` says what to play, and whether that could be chance.
- You choose an arm in every round: a policy such as :class:`Vet` chooses the arm and learns from its reward.
- You know the distributions of the arms: :func:`oracle` finds the best mixture.
- You want to compare policies: :func:`simulate` plays them against known arms.
- You look for words for what you value: :func:`preferences` goes from plain statements to metrics.

Importing this package is light: each name is loaded when it is first used.

Examples
--------
>>> import pmbandits as pmb
>>> best = pmb.oracle("gini", pmb.Bandit.bernoulli([0.4, 0.9]))
>>> best.weights.round(3).tolist()
[0.8, 0.2]
>>> policy = pmb.Vet("gini", names=["A", "B"], support=pmb.Binary())
>>> arm = policy.ask()
>>> policy.tell(arm, 1.0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmbandits import kit as kit
    from pmbandits import simulation as simulation
    from pmbandits import theory as theory
    from pmbandits.advice import Advice, AdviceTable, advise
    from pmbandits.arms import Bandit, utility, wasserstein_constant, wasserstein_distance
    from pmbandits.changing import Changing
    from pmbandits.client import ServiceError, connect, connect_async
    from pmbandits.constraints import Limits
    from pmbandits.estimates import Change, ChangeDetector
    from pmbandits.metrics import (
        PHT,
        CVaR,
        Distortion,
        DualPower,
        ExpectedShortfall,
        GiniDeviation,
        GiniShortfall,
        Holder,
        InterESRange,
        InterQuantileRange,
        InvertedS,
        LowerCVaR,
        Mean,
        MeanMedianDeviation,
        PowerDeviation,
        Quadratic,
        TsallisPastEntropy,
        TverskyKahneman,
        VaR,
        WangRightTail,
        WangTransform,
        metric,
        preferences,
    )
    from pmbandits.mixtures import etc_grid, grid_size, ucb_grid
    from pmbandits.optimize import Gaps, OracleResult, ShadowPrice, gaps, oracle
    from pmbandits.plots import plot_arms, plot_decomposition, plot_distortion, plot_life, plot_mixture, plot_regret
    from pmbandits.policies import (
        BCVTS,
        CEUCB,
        CIRT,
        MCVTS,
        MVLCB,
        PMETC,
        PMUCB,
        UCB1,
        UCFW,
        UUCB,
        WUCB,
        BrownUCB,
        ChangeWarning,
        CVaRUCB,
        FixedGrid,
        MixtureUCB,
        Policy,
        RhoNPTS,
        SolitaryArm,
        SolitaryUCB,
        Thompson,
        Track,
        Uniform,
        Vet,
        load,
    )
    from pmbandits.simulation import Run, Stop, run_until, simulate
    from pmbandits.supports import Binary, Finite, Heavy, Interval, Real, Support
    from pmbandits.warming import Warmed, warm

__version__ = "0.2.0"

_EXPORTS = {
    "pmbandits.advice": ("Advice", "AdviceTable", "advise"),
    "pmbandits.arms": ("Bandit", "utility", "wasserstein_constant", "wasserstein_distance"),
    "pmbandits.changing": ("Changing",),
    "pmbandits.metrics": (
        "CVaR",
        "Distortion",
        "DualPower",
        "ExpectedShortfall",
        "GiniDeviation",
        "GiniShortfall",
        "Holder",
        "InterESRange",
        "InterQuantileRange",
        "InvertedS",
        "LowerCVaR",
        "Mean",
        "MeanMedianDeviation",
        "PHT",
        "PowerDeviation",
        "Quadratic",
        "TsallisPastEntropy",
        "TverskyKahneman",
        "VaR",
        "WangRightTail",
        "WangTransform",
        "metric",
        "preferences",
    ),
    "pmbandits.optimize": ("Gaps", "OracleResult", "ShadowPrice", "gaps", "oracle"),
    "pmbandits.client": ("ServiceError", "connect", "connect_async"),
    "pmbandits.estimates": ("Change", "ChangeDetector"),
    "pmbandits.constraints": ("Limits",),
    "pmbandits.plots": (
        "plot_arms",
        "plot_decomposition",
        "plot_distortion",
        "plot_life",
        "plot_mixture",
        "plot_regret",
    ),
    "pmbandits.policies": (
        "BCVTS",
        "BrownUCB",
        "CEUCB",
        "CIRT",
        "CVaRUCB",
        "ChangeWarning",
        "FixedGrid",
        "MCVTS",
        "MVLCB",
        "MixtureUCB",
        "PMETC",
        "PMUCB",
        "Policy",
        "RhoNPTS",
        "SolitaryArm",
        "SolitaryUCB",
        "Thompson",
        "Track",
        "UCB1",
        "UCFW",
        "UUCB",
        "Uniform",
        "Vet",
        "WUCB",
        "load",
    ),
    "pmbandits.mixtures": ("etc_grid", "grid_size", "ucb_grid"),
    "pmbandits.simulation": ("Run", "Stop", "run_until", "simulate"),
    "pmbandits.supports": ("Binary", "Finite", "Heavy", "Interval", "Real", "Support"),
    "pmbandits.warming": ("Warmed", "warm"),
}
_SUBMODULES = ("kit", "simulation", "theory")
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "BCVTS",
    "CEUCB",
    "CIRT",
    "MCVTS",
    "MVLCB",
    "PHT",
    "PMETC",
    "PMUCB",
    "UCB1",
    "UCFW",
    "UUCB",
    "WUCB",
    "Advice",
    "AdviceTable",
    "Bandit",
    "Binary",
    "BrownUCB",
    "CVaR",
    "CVaRUCB",
    "Change",
    "ChangeDetector",
    "ChangeWarning",
    "Changing",
    "Distortion",
    "DualPower",
    "ExpectedShortfall",
    "Finite",
    "FixedGrid",
    "Gaps",
    "GiniDeviation",
    "GiniShortfall",
    "Heavy",
    "Holder",
    "InterESRange",
    "InterQuantileRange",
    "Interval",
    "InvertedS",
    "Limits",
    "LowerCVaR",
    "Mean",
    "MeanMedianDeviation",
    "MixtureUCB",
    "OracleResult",
    "Policy",
    "PowerDeviation",
    "Quadratic",
    "Real",
    "RhoNPTS",
    "Run",
    "ServiceError",
    "ShadowPrice",
    "SolitaryArm",
    "SolitaryUCB",
    "Stop",
    "Support",
    "Thompson",
    "Track",
    "TsallisPastEntropy",
    "TverskyKahneman",
    "Uniform",
    "VaR",
    "Vet",
    "WangRightTail",
    "WangTransform",
    "Warmed",
    "advise",
    "connect",
    "connect_async",
    "etc_grid",
    "gaps",
    "grid_size",
    "load",
    "metric",
    "oracle",
    "plot_arms",
    "plot_decomposition",
    "plot_distortion",
    "plot_life",
    "plot_mixture",
    "plot_regret",
    "preferences",
    "run_until",
    "simulate",
    "ucb_grid",
    "utility",
    "warm",
    "wasserstein_constant",
    "wasserstein_distance",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"pmbandits.{name}")
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value  # the next use finds it here
        return value
    raise AttributeError(f"module 'pmbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})
