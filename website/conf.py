"""The configuration of Sphinx: nothing of the site is requested from another host."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

project = "kiln"
author = "The kiln authors"
project_copyright = "the kiln authors, MIT license"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "kiln"
html_favicon = "favicon.svg"
html_extra_path = ["../build/site/extra"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "default"
pygments_dark_style = "monokai"
myst_heading_anchors = 4
# Figures are larger than the column, and parameters of functions fill several lines.
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
# A page of the reference starts with a title and has entries only.
suppress_warnings = ["myst.header", "toc.not_included"]
html_math_renderer = "mathml"


def _formula(self: Any, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers show without scripts of other hosts."""
    display = "inline" if isinstance(node, nodes.math) else "block"
    self.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register what shows formulas."""
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
