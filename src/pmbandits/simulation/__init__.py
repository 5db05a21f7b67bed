"""Simulation: many trials of many policies, in parallel, with checkpoints; it can be stopped and resumed."""

from pmbandits.simulation.certified_run import Stop, run_until
from pmbandits.simulation.execute import simulate
from pmbandits.simulation.journal import JournalWarning
from pmbandits.simulation.python_policy import PolicyError
from pmbandits.simulation.rewards import Rewards, policy_seed
from pmbandits.simulation.run import Run
from pmbandits.simulation.summary import Difference, Summary

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
