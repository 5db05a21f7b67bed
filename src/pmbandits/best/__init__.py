"""The best mixture of known arms, with a certificate, and the gaps between mixtures on a grid.

===============  =====================================================================================
``cases``        the oracle: which way to the best mixture suits the metric and the arms
``concave``      the solver for concave metrics: Newton steps on the simplex, with a duality gap
``search``       the search for all other metrics: many starts, then exchanges between pairs of arms
``values``       utilities of many mixtures at once
``grid_gaps``    how far the best mixtures of a grid lie apart
===============  =====================================================================================
"""

from pmbandits.best.cases import oracle
from pmbandits.best.grid_gaps import Gaps, gaps
from pmbandits.best.result import Best
from pmbandits.best.values import scorer, utilities

__all__ = ["Best", "Gaps", "gaps", "oracle", "scorer", "utilities"]
