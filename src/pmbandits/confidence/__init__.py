"""Confidence sets: which distributions an arm may have, and the best and worst value a mixture may have."""

from pmbandits.confidence.sets import Confidence, ConfidenceSet, confidence_set

__all__ = ["Confidence", "ConfidenceSet", "confidence_set"]
