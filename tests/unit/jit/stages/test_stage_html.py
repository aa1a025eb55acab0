"""Traced, lowered and compiled programs in notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.jit.stages.stage_html import compiled_html, quantity


def product(x):
    return jnp.tanh(x @ x).sum()


def _lowered():
    return kiln.jit(product).lower(jnp.ones((50, 50)))


def _facts(shown: str) -> dict[str, str]:
    rows = [["".join(cell.itertext()) for cell in row] for row in _parsed(shown).find("table")]
    return dict(rows)


def _parsed(shown: str) -> ElementTree.Element:
    return ElementTree.fromstring(shown)


def test_a_lowered_program_shows_its_types_and_its_jaxpr():
    lowered = _lowered()
    shown = lowered._repr_html_()
    assert _facts(shown) == {"arguments": "f32[50,50]", "results": "f32[]"}
    assert "".join(_parsed(shown).itertext()).startswith("Lowered product")
    (details,) = _parsed(shown).iter("details")
    assert (
        details.find("summary").text == f"jaxpr: {len(lowered.compiler_ir('jaxpr').eqns)} equations"
    )
    assert "tanh" in "".join(details.itertext())


def test_a_traced_program_shows_its_jaxpr():
    shown = kiln.jit(product).trace(jnp.ones((50, 50)))._repr_html_()
    assert "".join(_parsed(shown).itertext()).startswith("Traced product")


def test_a_compiled_program_shows_costs_loops_and_a_picture():
    compiled = _lowered().compile()
    facts = _facts(compiled._repr_html_())
    assert facts["engine"] == "native"
    assert facts["flops"] == quantity(compiled.cost_analysis()["flops"]) == "255 k"
    assert facts["workspace"] == "10 kB"
    loops, picture = _parsed(compiled._repr_html_()).iter("details")
    assert "".join(loops.find("pre").itertext()) == compiled.as_text("loops")
    frame = picture.find("iframe")
    assert frame.get("srcdoc") == compiled.as_text("html")
    assert frame.get("sandbox") == ""


def test_a_program_of_xla_shows_its_text():
    with override(engine="xla"):
        compiled = _lowered().compile()
        shown = compiled._repr_html_()
    assert _facts(shown)["engine"] == "xla"
    (details,) = _parsed(shown).iter("details")
    assert details.find("summary").text == "hlo"


def test_everything_is_escaped():
    shown = compiled_html("<b>", ["<i>"], [], [("<u>", "&")], ("loops", "<s>"), "<p title='x'>")
    assert not re.findall("<[bius]>", shown)
    assert _parsed(shown).find(".//iframe").get("srcdoc") == "<p title='x'>"


def test_long_texts_are_cut_off():
    shown = compiled_html("f", [], [], [], ("loops", "x" * 100_012), None)
    assert "12 more characters: as_text('loops')" in "".join(_parsed(shown).itertext())


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0"), (999, "999"), (12500, "12.5 k"), (3.2e9, "3.2 G")]
)
def test_quantities(number, shown):
    assert quantity(number) == shown
