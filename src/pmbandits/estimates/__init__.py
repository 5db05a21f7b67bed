"""Empirical distributions of the arms: exact counts on a finite support, exact sorted samples otherwise."""

from pmbandits.estimates.arm import ArmEstimate

__all__ = ["ArmEstimate"]
