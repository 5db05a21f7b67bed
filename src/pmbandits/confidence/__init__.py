"""Confidence sets: which distributions an arm may have, and the best and worst value a mixture may have."""

from pmbandits.confidence.sets import ConfidenceSet, confidence_set

__all__ = ["ConfidenceSet", "confidence_set"]
