"""Simulation: trials, checkpoints, parallel and resumable execution, results."""

from pmbandits.simulation.driver import simulate
from pmbandits.simulation.journal import JournalWarning
from pmbandits.simulation.rewards import Rewards, policy_seed
from pmbandits.simulation.run import Difference, Run, Summary

__all__ = ["Difference", "JournalWarning", "Rewards", "Run", "Summary", "policy_seed", "simulate"]
