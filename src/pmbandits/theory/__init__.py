"""The paper's schedules."""

from pmbandits.theory.schedules import epsilon_etc, epsilon_ucb, exploration

__all__ = ["epsilon_etc", "epsilon_ucb", "exploration"]
