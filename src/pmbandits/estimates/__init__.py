"""What is known of the arms: exact counts, samples, or sketches of bounded memory; and a detector of changes.

Counts and samples are the empirical distributions of the paper (``eq:empirical_CDF``).
"""

from pmbandits.estimates.arm import ArmEstimate, Estimates
from pmbandits.estimates.change_detector import Change, ChangeDetector
from pmbandits.estimates.sketch import Sketch

__all__ = ["ArmEstimate", "Change", "ChangeDetector", "Estimates", "Sketch"]
