"""Empirical distributions of the arms: exact counts or samples, and sketches of bounded memory; and changes of them."""

from pmbandits.estimates.arm import ArmEstimate, Estimates
from pmbandits.estimates.changes import Change, ChangeDetector
from pmbandits.estimates.sketch import Sketch

__all__ = ["ArmEstimate", "Change", "ChangeDetector", "Estimates", "Sketch"]
