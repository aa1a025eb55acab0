"""Flame graphs and rooflines: widths, heights, and places of what they draw."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from kiln.tools.figures import Operation
from kiln.tools.flame import flame, roofline
from kiln.tools.limits import Limits
from kiln.tools.samples import Frame, Sample

SPACE = "{http://www.w3.org/2000/svg}"


def sample(*names: str) -> Sample:
    return Sample(0.0, 1, tuple([Frame(name, "a.py", 1) for name in names]))


def boxes(text: str) -> dict[str, ElementTree.Element]:
    found = {}
    for group in ElementTree.fromstring(text).iter(f"{SPACE}g"):
        title = group.find(f"{SPACE}title")
        assert title is not None
        assert title.text is not None
        found[title.text.partition(" ")[0]] = group[1]
    return found


def test_boxes_are_as_wide_as_their_time() -> None:
    samples = [sample("f"), sample("f", "g"), sample("f", "g"), sample("h<")]
    text = flame(samples, "a & b")
    found = boxes(text)
    widths = {name: float(box.attrib["width"]) for name, box in found.items()}
    assert widths["f"] == 3 * widths["h<"]
    assert widths["g"] == 2 * widths["h<"]
    # Callers are below what they call.
    assert float(found["g"].attrib["y"]) < float(found["f"].attrib["y"])
    assert "f (a.py:1): 75.0%" in text
    assert "a &amp; b: 4 samples" in text


def test_no_samples() -> None:
    assert boxes(flame([], "nothing")) == {}


def operation(name: str, seconds: float, flops: float, moved: float) -> Operation:
    return Operation("p", name, 0, [], 1, seconds, flops, moved, seconds / 2, "memory")


def test_rooflines() -> None:
    limits = Limits({"f32": 1e11, "f64": 5e10}, {1 << 18: 5e10, 1 << 26: 1e10})
    given = [
        operation("slow", 1.0, 1e9, 1e9),
        operation("fast", 1.0, 1e10, 1e9),
        operation("copy", 1.0, 0.0, 1e9),
    ]
    root = ElementTree.fromstring(roofline(given, limits, "t"))
    slow, fast = root.iter(f"{SPACE}circle")
    assert float(slow.attrib["cx"]) < float(fast.attrib["cx"])
    assert float(slow.attrib["cy"]) > float(fast.attrib["cy"])
    # The same time: the same area.
    assert slow.attrib["r"] == fast.attrib["r"]
    titles = [title.text for title in root.iter(f"{SPACE}title")]
    assert "p: slow, 50% of the limit (memory)" in titles
    assert not any("copy" in (title or "") for title in titles)
    assert list(ElementTree.fromstring(roofline([], limits, "t")).iter(f"{SPACE}circle")) == []
