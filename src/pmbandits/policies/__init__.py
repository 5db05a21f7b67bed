"""Policies: one file for each algorithm, and what they share."""

from pmbandits.engine.forgetting import ChangeWarning as ChangeWarning
from pmbandits.engine.policy import Policy as Policy
from pmbandits.engine.policy_file import load as load
from pmbandits.policies.baselines import UCB1 as UCB1
from pmbandits.policies.baselines import SolitaryArm as SolitaryArm
from pmbandits.policies.baselines import Uniform as Uniform
from pmbandits.policies.ce_ucb import CEUCB as CEUCB
from pmbandits.policies.cirt.cirt import CIRT as CIRT
from pmbandits.policies.fixed_grid import FixedGrid as FixedGrid
from pmbandits.policies.pm_etc import PMETC as PMETC
from pmbandits.policies.pm_ucb import PMUCB as PMUCB
from pmbandits.policies.published.b_cvts import BCVTS as BCVTS
from pmbandits.policies.published.brown_ucb import BrownUCB as BrownUCB
from pmbandits.policies.published.cvar_ucb import CVaRUCB as CVaRUCB
from pmbandits.policies.published.m_cvts import MCVTS as MCVTS
from pmbandits.policies.published.mixture_greedy import MixtureGreedy as MixtureGreedy
from pmbandits.policies.published.mixture_ucb import MixtureUCB as MixtureUCB
from pmbandits.policies.published.mv_lcb import MVLCB as MVLCB
from pmbandits.policies.published.rho_npts import RhoNPTS as RhoNPTS
from pmbandits.policies.published.thompson import Thompson as Thompson
from pmbandits.policies.published.u_ucb import UUCB as UUCB
from pmbandits.policies.published.ucfw import UCFW as UCFW
from pmbandits.policies.published.w_ucb import WUCB as WUCB
from pmbandits.policies.solitary_ucb import SolitaryUCB as SolitaryUCB
from pmbandits.policies.track import Track as Track
from pmbandits.policies.vet.vet import Vet as Vet
