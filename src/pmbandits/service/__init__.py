"""The live service: experiments over HTTP, kept as events in a store, served by any number of processes.

=============  ==============================================================================================
``run``        from settings to processes that serve (``settings`` says how)
``front``      the front door: keys, limits, and asks and tells without a framework (``wire`` is what they say)
``api``        all other routes; ``openapi`` describes all; ``reading`` is what they show
``service``    what all routes share; ``keys`` and ``counting`` are parts of it
``turns``      requests that wait are decided together, written together, and answered when they are on disk
``board``      the board: pages that show experiments; ``watch`` looks for arms that changed
``live``       one experiment in memory, which decides; ``book`` has all of them; ``fold`` makes policies of events
``events``     kinds of events, and what a turn asks of a store; ``sqlite`` and ``postgres`` are the two ways in
``store``      experiments, saved policies and the audit trail; ``schema`` has the tables, ``migrations`` makes them
=============  ==============================================================================================

It needs the extra ``service``: ``pip install pmbandits[service]``.
"""
