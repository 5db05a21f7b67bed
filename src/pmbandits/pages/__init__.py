"""Pages for a browser: the studio, which finds a preference for a table, and the board, which shows what a policy does.

They are made of few parts: Jinja templates, small plain scripts, and one library of charts (uPlot), all of them
files of this package (``assets/``). There is no build step, and a page asks nobody but the server that it came from.

===============  =====================================================================================
``web``          what all pages share: headers, files, error responses, the token check of local pages
``studio/``      ``pmbandits studio``
``board/``       ``pmbandits board``; the pages of the service use its view
===============  =====================================================================================
"""
