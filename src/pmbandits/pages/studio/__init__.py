"""``pmbandits studio``: find the preference that is yours, on a table of rewards, by plain statements and sliders.

==================  ==================================================================================
``app``             the routes
``table``           one table: how it is read, and what every answer about it needs
``answers``         from a request of the page to numbers
``sentences``       the quick answer in sentences
``ties``            arms that a preference cannot tell apart
``sliders``         from a preference to sliders with plain labels
``verdict_worker``  verdicts, which take their time, in a process of their own
``examples``        tables to try it with
==================  ==================================================================================
"""
