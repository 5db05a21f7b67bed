"""Advice on logged rewards: which mixture to play, its utility, and whether its gain is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmbandits.advice.groups import AdviceByGroup
    from pmbandits.advice.recommend import advise
    from pmbandits.advice.result import Advice, AdviceTable
    from pmbandits.advice.segments import AdviceBySegment

__all__ = ["Advice", "AdviceByGroup", "AdviceBySegment", "AdviceTable", "advise"]


def __getattr__(name: str) -> Any:
    """Load the names above when they are first used: importing one part of this package loads no other part."""
    if name == "advise":
        from pmbandits.advice.recommend import advise

        return advise
    if name == "AdviceByGroup":
        from pmbandits.advice.groups import AdviceByGroup

        return AdviceByGroup
    if name == "AdviceBySegment":
        from pmbandits.advice.segments import AdviceBySegment

        return AdviceBySegment
    if name in ("Advice", "AdviceTable"):
        from pmbandits.advice import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
