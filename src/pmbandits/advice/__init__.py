"""Advice on logged rewards: which mixture to play, what it is worth, and whether its gain is real."""

from pmbandits.advice.recommend import advise
from pmbandits.advice.result import Advice, AdviceTable

__all__ = ["Advice", "AdviceTable", "advise"]
