"""The paper's experiments, each as a small specification with its claims.

``outcome`` is the shape that all have, ``instances`` holds every choice that the paper leaves open, ``measure`` the
one rule by which claims are judged, ``registry`` the names.
"""
