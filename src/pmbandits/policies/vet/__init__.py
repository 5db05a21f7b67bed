"""Vet: the policy in ``vet.py``, and its own kernels in ``_kernels.py``."""

from pmbandits.policies.vet.vet import Vet

__all__ = ["Vet"]
