"""Advice on logged rewards: which mixture to play, what it is worth, and whether its gain is real."""

from pmbandits.advice.recommend import Advice, AdviceTable, advise

__all__ = ["Advice", "AdviceTable", "advise"]
