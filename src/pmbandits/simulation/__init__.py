"""Simulation: many trials of many policies, in parallel, with checkpoints; it can be stopped and resumed."""

from pmbandits.simulation.execute import simulate
from pmbandits.simulation.journal import JournalWarning
from pmbandits.simulation.plain import PolicyError
from pmbandits.simulation.rewards import Rewards, policy_seed
from pmbandits.simulation.run import Run
from pmbandits.simulation.summary import Difference, Summary
from pmbandits.simulation.until import Stop, run_until

__all__ = [
    "Difference",
    "JournalWarning",
    "PolicyError",
    "Rewards",
    "Run",
    "Stop",
    "Summary",
    "policy_seed",
    "run_until",
    "simulate",
]
