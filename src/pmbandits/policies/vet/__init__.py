"""Vet: the policy in ``vet.py``, and its own kernels in ``_kernels.py``."""
