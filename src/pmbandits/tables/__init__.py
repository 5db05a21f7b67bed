"""What is known of arms, on one axis: distributions, and survival tables on which U_h of a mixture is a plain sum.

==================  ====================================================================================
``distributions``   one arm: atoms, a CDF of straight pieces, a distribution of scipy
``quadrature``      continuous distributions side by side on shared panels
``survival_table``  all arms on common cells: utility, slopes and curves of their mixtures
``decomposition``   h taken apart into a smooth part, corners and steps
==================  ====================================================================================
"""
