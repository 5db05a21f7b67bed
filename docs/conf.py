"""Sphinx settings. The pages come from ``build.py``, which has run every example already."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import pmbandits

project = "pmbandits"
author = "The pmbandits developers"
copyright = "the pmbandits developers, BSD 3-Clause"
version = release = pmbandits.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml", "docstrings", "words"]
exclude_patterns = ["_ext", "_static"]
html_theme = "furo"
html_title = f"pmbandits {release}"
html_static_path = ["_static"]
html_css_files = ["pmbandits.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
nitpicky = True
