"""Jaxprs as HTML: the printer's names, programs inside folded, everything escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.ir.printing.jaxpr_html import COLORS


def _looped(x):
    return lax.fori_loop(0, 3, lambda i, c: kiln.jit(jnp.sin)(c) * x, x)


def _chosen(x):
    return lax.cond(x > 0, jnp.sin, jnp.cos, x)


@pytest.mark.parametrize("fun", [jnp.sin, _looped, _chosen, kiln.grad(_chosen), lambda x: 1.0])
def test_the_text_is_that_of_the_printer(fun):
    jaxpr = kiln.make_jaxpr(fun)(2.0)
    root = ElementTree.fromstring(jaxpr._repr_html_())
    for details in root.iter("details"):
        details.find("summary").text = ""
    shown = "".join(root.itertext())
    assert re.sub(r"[\s;,]+", "", shown) == re.sub(r"[\s;,]+", "", repr(jaxpr))


def test_programs_inside_are_folded():
    root = ElementTree.fromstring(kiln.make_jaxpr(_looped)(2.0)._repr_html_())
    found = list(root.iter("details"))
    assert len(found) == 2 and not any("open" in details.attrib for details in found)
    assert found[0].find("summary").text.endswith("3 equations")


def test_operations_name_the_lines_of_the_user():
    def rooted(x):
        return jnp.sqrt(x) < 2  # <b>

    root = ElementTree.fromstring(kiln.make_jaxpr(rooted)(2.0)._repr_html_())
    hints = {span.text: span.get("title") for span in root.iter("span") if span.get("title")}
    place, text = hints["sqrt"].split("\n")
    assert place == f"{__file__}:{rooted.__code__.co_firstlineno + 1}"
    assert text == "return jnp.sqrt(x) < 2  # <b>"


def test_an_operation_without_a_line_has_no_hint():
    jaxpr = kiln.make_jaxpr(jnp.sin)(2.0).jaxpr
    eqn = jaxpr.eqns[0]
    eqn = type(eqn)(eqn.primitive, eqn.invars, eqn.outvars, eqn.params)
    root = ElementTree.fromstring(jaxpr.with_(eqns=[eqn])._repr_html_())
    assert not [span for span in root.iter("span") if span.get("title")]


@pytest.mark.parametrize("paper", ["#ffffff", "#111111"])
@pytest.mark.parametrize("kind", COLORS)
def test_colors_are_readable_on_light_and_dark_pages(paper, kind):
    # The ratio of WCAG 2.2, section 1.4.3; 3 is its minimum for large texts, 4.5 for small.
    lighter, darker = sorted((_luminance(paper), _luminance(COLORS[kind])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) > 4


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_names_are_escaped():
    def named(x):
        return x

    named.__name__ = "<b>"
    html = kiln.make_jaxpr(kiln.jit(named))(2.0).jaxpr._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html
