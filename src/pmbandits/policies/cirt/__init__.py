"""CIRT: the policy in ``cirt.py``, and its own kernels in ``_kernels.py``."""
