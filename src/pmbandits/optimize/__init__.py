"""The best mixture of known arms, with a certificate, and the gaps between mixtures on a grid.

=====================  ===============================================================================
``best_mixture``       the oracle: which way to the best mixture suits the metric and the arms
``problem``            one problem, and what all ways of solving it share
``share_constraints``  the oracle's answer within limits on the shares
``segments``           the best mixture for each segment of a population
``maximise``           the largest utility on a table: one call for simplex, segments and limits, and any shape of h
``convex``             convex metrics: the best vertex, with a bound
``shadow_prices``      what each limit costs
``concave_mixture``    the oracle's answer for concave metrics
``concave``            the exact maximiser: all arms at once, or a few at a time, with a duality gap
``interior_point``     its interior point method, whose steps are compiled
``search``             the search for all other metrics: many starts, then exchanges between pairs of arms
``branch_and_bound``   an upper bound for all other metrics, for few arms
``utilities``          the utility of a mixture, and of many at once
``grid_gaps``          how much the best mixtures of a grid differ
=====================  ===============================================================================
"""

from pmbandits.optimize.best_mixture import oracle
from pmbandits.optimize.grid_gaps import Gaps, gaps
from pmbandits.optimize.result import OracleResult
from pmbandits.optimize.segments import SegmentOracleResult
from pmbandits.optimize.shadow_prices import ShadowPrice
from pmbandits.optimize.utilities import utilities, utility, utility_function

__all__ = [
    "Gaps",
    "OracleResult",
    "SegmentOracleResult",
    "ShadowPrice",
    "gaps",
    "oracle",
    "utilities",
    "utility",
    "utility_function",
]
