"""Sphinx settings. The pages come from ``build.py``, which has run every example already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
html_js_files = ["pages.js"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
pygments_style = "a11y-high-contrast-light"  # furo brings these: colours that people with weak eyes can tell apart
pygments_dark_style = "a11y-high-contrast-dark"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
nitpicky = True


def setup(app: Any) -> None:
    """What furo leaves out: the headings of its list of pages have no level for those who have pages read aloud."""

    def mend(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
        if tree := context.get("furo_navigation_tree"):
            context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')

    app.connect("html-page-context", mend, priority=900)  # after furo's own
