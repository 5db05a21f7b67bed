"""``pmbandits studio``: find the preference that is yours, on a table of rewards, by plain statements and sliders.

===============  =====================================================================================
``app``          the addresses and the page
``table``        one table: how it is read, and what every answer about it needs
``answers``      from a question of the page to numbers
``sliders``      from a preference to sliders with plain labels
``careful``      verdicts, which take their time, in a process of their own
``examples``     tables to try it with
===============  =====================================================================================
"""
