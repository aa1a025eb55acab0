"""The picture of a program: one file, a box for each statement, edges along the values."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override

SVG = "{http://www.w3.org/2000/svg}"
X = jnp.ones((32, 16))


def model(x: Any, p: Any) -> Any:
    y = jnp.sin(x) * 2
    y = lax.scan(lambda c, _: (jnp.cumsum(c, 1), None), y, None, length=5)[0]
    return lax.cond(p, lambda c: jnp.sort(c, axis=1), lambda c: jnp.cumsum(c, 1), y), y.sum()


def svg_of(page: str) -> ElementTree.Element:
    """Return the drawing of a page, which is well-formed."""
    return ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def texts_of(svg: ElementTree.Element) -> list[str]:
    return ["".join(each.itertext()) for each in svg.iter(f"{SVG}text")]


def test_boxes_frames_and_edges() -> None:
    page = kiln.jit(model).lower(X, True).as_text("html")
    svg = svg_of(page)
    texts = texts_of(svg)
    kinds = [each.get("class") for each in svg.iter(f"{SVG}rect")]
    assert kinds.count("end") == 2
    assert kinds.count("frame") == 2
    assert "loop of 5" in texts
    assert "branch of 2" in texts
    assert any(text.startswith("sort -> %") for text in texts)
    assert any("test_picture.py:22 in model" in text for text in texts)
    edges = [each for each in svg.iter(f"{SVG}path") if each.get("class") == "edge"]
    titles = ["".join(each.itertext()) for each in edges]
    assert "%i0" in titles
    # Both branches write the first result.
    assert titles.count("%o2") == 2
    assert all(float(each.get("x", 0)) >= 0 for each in svg.iter(f"{SVG}rect"))


def test_the_page_needs_no_other_file_and_names_are_escaped() -> None:
    page = kiln.jit(lambda x: x < 1).lower(X).as_text("html")
    assert "<title>&lt;lambda&gt;</title>" in page
    assert "src=" not in page
    assert "href=" not in page
    assert "<script" not in page
    assert "lt v0 1.0:f32" in page
    svg_of(page)


def test_boxes_have_times_if_the_program_was_measured() -> None:
    with override(profile=True):
        compiled = kiln.jit(model).lower(X, True).compile()
        assert " of the bytes." in compiled.as_text("html")
        for _ in range(3):
            compiled(X, True)
    page = compiled.as_text("html")
    assert " of the time." in page
    texts = texts_of(svg_of(page))
    assert sum(" in 3 runs, " in text for text in texts) >= 3
    assert any(" in 15 runs, " in text for text in texts)


def test_boxes_stay_within_their_frames() -> None:
    page = kiln.jit(lambda x: kiln.nn.softmax(x)).lower(X).as_text("html")
    rects = [
        {name: float(each.get(name, 0)) for name in ("x", "y", "width", "height")}
        | {"class": each.get("class")}
        for each in svg_of(page).iter(f"{SVG}rect")
    ]
    (frame,) = [each for each in rects if each["class"] == "frame"]
    inside = [each for each in rects if each["class"] == "box"]
    assert len(inside) == 3
    for each in inside:
        assert frame["x"] < each["x"]
        assert each["x"] + each["width"] < frame["x"] + frame["width"]  # type: ignore[operator]
        assert frame["y"] < each["y"]
        assert each["y"] + each["height"] < frame["y"] + frame["height"]  # type: ignore[operator]


def test_other_engines_have_no_picture() -> None:
    with override(engine="xla"), pytest.raises(ValueError, match="no such stage"):
        kiln.jit(lambda x: x + 23).lower(X).compile().as_text("html")
