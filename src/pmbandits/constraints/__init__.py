"""Limits on the shares of arms: from what people write to one form that every package understands.

===========  ================================================================================
``shares``   :func:`limits`: text, dictionaries, groups and budgets become :class:`Limits`
``parser``   the text: ``"A >= 10%; B + C <= 0.3; A == 2 * B"``
``polytope`` the mixtures that keep all limits: linear programs, corners, a point inside
===========  ================================================================================
"""

from pmbandits.constraints.shares import Limits, Shares, limits

__all__ = ["Limits", "Shares", "limits"]
