"""The best mixture of known arms, with a certificate, and the gaps between mixtures on a grid.

===============  =====================================================================================
``cases``        the oracle: which way to the best mixture suits the metric and the arms
``problem``      one problem, and what all ways of solving it share
``limited``      the best of the mixtures that keep limits on their shares
``prices``       what each limit costs
``concave``      the solver for concave metrics: a few arms at a time, with a duality gap over all of them
``interior``     the interior point method for these few arms
``cuts``         cutting planes, where the interior point method is stuck
``search``       the search for all other metrics: many starts, then exchanges between pairs of arms
``branch``       an upper bound for all other metrics, for few arms
``values``       utilities of many mixtures at once
``grid_gaps``    how much the best mixtures of a grid differ
===============  =====================================================================================
"""

from pmbandits.best.cases import oracle
from pmbandits.best.grid_gaps import Gaps, gaps
from pmbandits.best.prices import Price
from pmbandits.best.result import Best
from pmbandits.best.values import scorer, utilities

__all__ = ["Best", "Gaps", "Price", "gaps", "oracle", "scorer", "utilities"]
