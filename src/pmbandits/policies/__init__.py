"""Policies: one file for each algorithm, and what they share."""

from pmbandits.policies.ce_ucb import CEUCB
from pmbandits.policies.cirt import CIRT
from pmbandits.policies.etc import PMETC
from pmbandits.policies.fixed_grid import FixedGrid
from pmbandits.policies.policy import Policy
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
from pmbandits.policies.simple import UCB1, SolitaryArm, Uniform
from pmbandits.policies.solitary_ucb import SolitaryUCB
from pmbandits.policies.store import load
from pmbandits.policies.track import Track
from pmbandits.policies.ucb import PMUCB
from pmbandits.policies.vet import Vet
from pmbandits.policies.watching import ChangeWarning

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
