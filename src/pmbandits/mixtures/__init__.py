"""Choosing a mixture: the public part is the grids of mixing weights."""

from pmbandits.mixtures.grids import LARGEST_GRID, etc_grid, grid_size, ucb_grid

__all__ = ["LARGEST_GRID", "etc_grid", "grid_size", "ucb_grid"]
