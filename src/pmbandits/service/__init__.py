"""The live service: experiments over HTTP, kept as events in a store, served by any number of processes.

=============  ==============================================================================================
``run``           starts the processes that serve, by ``settings``; ``processes`` looks after them
``asgi_app``      keys, limits, and asks and tells without a framework (``messages``: their bodies)
``api``           all other routes; ``openapi`` describes all; ``reading`` is what they show
``service``       what all routes share; ``keys`` and ``prometheus`` are parts of it
``group_commit``  waiting requests are decided and written together, and answered when they are on disk
``board``         pages that show experiments; ``change_log`` looks for arms that changed
``experiment``    one experiment in memory (``experiment_cache``: all); ``replay`` makes policies of events
``events``        kinds of events, and the transaction of a store: ``sqlite`` or ``postgres``
``store``         experiments, saved policies, audit trail; ``schema`` has the tables
=============  ==============================================================================================

It needs the extra ``service``: ``pip install pmbandits[service]``.
"""
