"""Simulation: many trials of many policies, in parallel, with checkpoints; it can be stopped and resumed."""

from pmbandits.simulation.certified_run import Stop, run_until
from pmbandits.simulation.execute import simulate
from pmbandits.simulation.journal import JournalWarning
from pmbandits.simulation.python_policy import PolicyError
from pmbandits.simulation.rewards import Rewards, policy_seed
from pmbandits.simulation.run import Run
from pmbandits.simulation.segments import IgnoringSegments, PerSegment
from pmbandits.simulation.study import CostEstimate, Study
from pmbandits.simulation.summary import Difference, Summary

__all__ = [
    "CostEstimate",
    "Difference",
    "IgnoringSegments",
    "JournalWarning",
    "PerSegment",
    "PolicyError",
    "Rewards",
    "Run",
    "Stop",
    "Study",
    "Summary",
    "policy_seed",
    "run_until",
    "simulate",
]
