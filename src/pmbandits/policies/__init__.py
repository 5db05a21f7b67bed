"""Policies: one file for each algorithm, and what they share."""

from pmbandits.engine.change_alerts import ChangeWarning
from pmbandits.engine.policy import Policy
from pmbandits.engine.policy_file import load
from pmbandits.policies.baselines import UCB1, SolitaryArm, Uniform
from pmbandits.policies.ce_ucb import CEUCB
from pmbandits.policies.cirt import CIRT
from pmbandits.policies.fixed_grid import FixedGrid
from pmbandits.policies.pm_etc import PMETC
from pmbandits.policies.pm_ucb import PMUCB
from pmbandits.policies.published import (
    BCVTS,
    MCVTS,
    MVLCB,
    UCFW,
    UUCB,
    WUCB,
    BrownUCB,
    CVaRUCB,
    MixtureUCB,
    RhoNPTS,
    Thompson,
)
from pmbandits.policies.solitary_ucb import SolitaryUCB
from pmbandits.policies.track import Track
from pmbandits.policies.vet.vet import Vet

__all__ = [
    "BCVTS",
    "CEUCB",
    "CIRT",
    "MCVTS",
    "MVLCB",
    "PMETC",
    "PMUCB",
    "UCB1",
    "UCFW",
    "UUCB",
    "WUCB",
    "BrownUCB",
    "CVaRUCB",
    "ChangeWarning",
    "FixedGrid",
    "MixtureUCB",
    "Policy",
    "RhoNPTS",
    "SolitaryArm",
    "SolitaryUCB",
    "Thompson",
    "Track",
    "Uniform",
    "Vet",
    "load",
]
