"""What is known of arms, on one axis: distributions, and survival tables on which U_h of a mixture is a plain sum.

======================  ================================================================================
``distributions``       one arm: atoms, a CDF of straight pieces, a distribution of scipy
``survival_table``      all arms on common cells: utility, slopes and curves of their mixtures
``from_distributions``  the survival table of distributions of any kind
``quadrature``          the panels on which continuous distributions lie in it
``crossings``           where curves on panels cross a level
``decomposition``       h taken apart into a smooth part, corners and steps
``wasserstein``         distances between distributions
======================  ================================================================================
"""
