"""Discrete simplexes."""

from pmbandits.mixtures.grids import LARGEST_GRID, etc_grid, grid_size, ucb_grid

__all__ = ["LARGEST_GRID", "etc_grid", "grid_size", "ucb_grid"]
