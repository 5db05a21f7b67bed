"""Empirical distributions of the arms: exact counts or samples, and sketches of bounded memory."""

from pmbandits.estimates.arm import ArmEstimate, Estimates
from pmbandits.estimates.sketch import Sketch

__all__ = ["ArmEstimate", "Estimates", "Sketch"]
