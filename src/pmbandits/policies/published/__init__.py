"""Published bandits, one file for each. UCFW and MixtureUCB look for a mixture, all others for one arm."""

from pmbandits.policies.published.b_cvts import BCVTS
from pmbandits.policies.published.brown_ucb import BrownUCB
from pmbandits.policies.published.cvar_ucb import CVaRUCB
from pmbandits.policies.published.m_cvts import MCVTS
from pmbandits.policies.published.mixture_ucb import MixtureUCB
from pmbandits.policies.published.mv_lcb import MVLCB
from pmbandits.policies.published.rho_npts import RhoNPTS
from pmbandits.policies.published.thompson import Thompson
from pmbandits.policies.published.u_ucb import UUCB
from pmbandits.policies.published.ucfw import UCFW
from pmbandits.policies.published.w_ucb import WUCB

__all__ = [
    "BCVTS",
    "MCVTS",
    "MVLCB",
    "UCFW",
    "UUCB",
    "WUCB",
    "BrownUCB",
    "CVaRUCB",
    "MixtureUCB",
    "RhoNPTS",
    "Thompson",
]
