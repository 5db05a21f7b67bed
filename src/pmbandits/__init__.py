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

from typing import TYPE_CHECKING

from pmbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from pmbandits import kit as kit
    from pmbandits import simulation as simulation
    from pmbandits import theory as theory
    from pmbandits.advice import Advice as Advice
    from pmbandits.advice import AdviceTable as AdviceTable
    from pmbandits.advice import advise as advise
    from pmbandits.arms import Bandit as Bandit
    from pmbandits.arms import half_wasserstein_diameter as half_wasserstein_diameter
    from pmbandits.arms import wasserstein_distance as wasserstein_distance
    from pmbandits.changing import Changing as Changing
    from pmbandits.client import ServiceError as ServiceError
    from pmbandits.client import connect as connect
    from pmbandits.client import connect_async as connect_async
    from pmbandits.constraints import Limits as Limits
    from pmbandits.estimates import Change as Change
    from pmbandits.estimates import ChangeDetector as ChangeDetector
    from pmbandits.metrics import PHT as PHT
    from pmbandits.metrics import Distortion as Distortion
    from pmbandits.metrics import DualPower as DualPower
    from pmbandits.metrics import GiniDeviation as GiniDeviation
    from pmbandits.metrics import GiniShortfall as GiniShortfall
    from pmbandits.metrics import Holder as Holder
    from pmbandits.metrics import InterESRange as InterESRange
    from pmbandits.metrics import InterQuantileRange as InterQuantileRange
    from pmbandits.metrics import InvertedS as InvertedS
    from pmbandits.metrics import LowerCVaR as LowerCVaR
    from pmbandits.metrics import Mean as Mean
    from pmbandits.metrics import MeanMedianDeviation as MeanMedianDeviation
    from pmbandits.metrics import PowerDeviation as PowerDeviation
    from pmbandits.metrics import Quadratic as Quadratic
    from pmbandits.metrics import TsallisPastEntropy as TsallisPastEntropy
    from pmbandits.metrics import TverskyKahneman as TverskyKahneman
    from pmbandits.metrics import UpperCVaR as UpperCVaR
    from pmbandits.metrics import VaR as VaR
    from pmbandits.metrics import WangRightTail as WangRightTail
    from pmbandits.metrics import WangTransform as WangTransform
    from pmbandits.metrics import metric as metric
    from pmbandits.metrics import preferences as preferences
    from pmbandits.mixtures import etc_grid as etc_grid
    from pmbandits.mixtures import grid_size as grid_size
    from pmbandits.mixtures import ucb_grid as ucb_grid
    from pmbandits.optimize import Gaps as Gaps
    from pmbandits.optimize import OracleResult as OracleResult
    from pmbandits.optimize import SegmentOracleResult as SegmentOracleResult
    from pmbandits.optimize import ShadowPrice as ShadowPrice
    from pmbandits.optimize import gaps as gaps
    from pmbandits.optimize import oracle as oracle
    from pmbandits.optimize import utility as utility
    from pmbandits.plots import plot_arms as plot_arms
    from pmbandits.plots import plot_decomposition as plot_decomposition
    from pmbandits.plots import plot_distortion as plot_distortion
    from pmbandits.plots import plot_life as plot_life
    from pmbandits.plots import plot_mixture as plot_mixture
    from pmbandits.plots import plot_regret as plot_regret
    from pmbandits.policies import BCVTS as BCVTS
    from pmbandits.policies import CEUCB as CEUCB
    from pmbandits.policies import CIRT as CIRT
    from pmbandits.policies import MCVTS as MCVTS
    from pmbandits.policies import MVLCB as MVLCB
    from pmbandits.policies import PMETC as PMETC
    from pmbandits.policies import PMUCB as PMUCB
    from pmbandits.policies import UCB1 as UCB1
    from pmbandits.policies import UCFW as UCFW
    from pmbandits.policies import UUCB as UUCB
    from pmbandits.policies import WUCB as WUCB
    from pmbandits.policies import BrownUCB as BrownUCB
    from pmbandits.policies import ChangeWarning as ChangeWarning
    from pmbandits.policies import CVaRUCB as CVaRUCB
    from pmbandits.policies import FixedGrid as FixedGrid
    from pmbandits.policies import MixtureGreedy as MixtureGreedy
    from pmbandits.policies import MixtureUCB as MixtureUCB
    from pmbandits.policies import Policy as Policy
    from pmbandits.policies import RhoNPTS as RhoNPTS
    from pmbandits.policies import SolitaryArm as SolitaryArm
    from pmbandits.policies import SolitaryUCB as SolitaryUCB
    from pmbandits.policies import Thompson as Thompson
    from pmbandits.policies import Track as Track
    from pmbandits.policies import Uniform as Uniform
    from pmbandits.policies import Vet as Vet
    from pmbandits.policies import load as load
    from pmbandits.simulation import Run as Run
    from pmbandits.simulation import Stop as Stop
    from pmbandits.simulation import Study as Study
    from pmbandits.simulation import run_until as run_until
    from pmbandits.simulation import simulate as simulate
    from pmbandits.supports import Binary as Binary
    from pmbandits.supports import Finite as Finite
    from pmbandits.supports import Heavy as Heavy
    from pmbandits.supports import Interval as Interval
    from pmbandits.supports import Real as Real
    from pmbandits.supports import Support as Support
    from pmbandits.warming import Warmed as Warmed
    from pmbandits.warming import warm as warm

__version__ = "0.2.0"

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "pmbandits.advice": "Advice AdviceTable advise",
            "pmbandits.arms": "Bandit half_wasserstein_diameter wasserstein_distance",
            "pmbandits.changing": "Changing",
            "pmbandits.client": "ServiceError connect connect_async",
            "pmbandits.constraints": "Limits",
            "pmbandits.estimates": "Change ChangeDetector",
            "pmbandits.metrics": """
            Distortion DualPower GiniDeviation GiniShortfall Holder InterESRange InterQuantileRange
            InvertedS LowerCVaR Mean MeanMedianDeviation PHT PowerDeviation Quadratic TsallisPastEntropy
            TverskyKahneman UpperCVaR VaR WangRightTail WangTransform metric preferences""",
            "pmbandits.mixtures": "etc_grid grid_size ucb_grid",
            "pmbandits.optimize": "Gaps OracleResult SegmentOracleResult ShadowPrice gaps oracle utility",
            "pmbandits.plots": "plot_arms plot_decomposition plot_distortion plot_life plot_mixture plot_regret",
            "pmbandits.policies": """
            BCVTS BrownUCB CEUCB CIRT CVaRUCB ChangeWarning FixedGrid MCVTS MVLCB MixtureGreedy MixtureUCB PMETC
            PMUCB Policy
            RhoNPTS SolitaryArm SolitaryUCB Thompson Track UCB1 UCFW UUCB Uniform Vet WUCB load""",
            "pmbandits.simulation": "Run Stop Study run_until simulate",
            "pmbandits.supports": "Binary Finite Heavy Interval Real Support",
            "pmbandits.warming": "Warmed warm",
        },
        submodules=("kit", "simulation", "theory"),
        hints=dict.fromkeys(
            ("CVaR", "ExpectedShortfall"),
            "papers differ on the tail: UpperCVaR(0.9) is the average of the best 10 % of rewards, and LowerCVaR(0.1) "
            "that of the worst 10 %.",
        ),
    )
