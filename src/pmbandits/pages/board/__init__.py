"""The board: what a policy does, in a browser; of an experiment of the service, or of a simulation.

===============  =====================================================================================
``view``         what the page shows, as plain numbers: curves of the arms, shares over time
``folder``       ``pmbandits board FOLDER``: a simulation, running or finished
===============  =====================================================================================

The pages of the service are in :mod:`pmbandits.service.board`, because a package imports only from the layers below it.
"""
