"""Jaxprs as HTML: the printer's names, programs inside folded, everything escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax


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


def test_names_are_escaped():
    def named(x):
        return x

    named.__name__ = "<b>"
    html = kiln.make_jaxpr(kiln.jit(named))(2.0).jaxpr._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html
