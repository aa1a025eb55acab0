"""Pictures of shardings."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import kiln
from kiln.debug import sharding_svg, sharding_text, visualize_array_sharding
from kiln.sharding import Mesh, NamedSharding, P

MESH = Mesh(np.array(kiln.devices()[:4]).reshape(2, 2), ("x", "y"))


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    visualize_array_sharding(kiln.device_put(np.ones((4, 4)), NamedSharding(MESH, P("x", "y"))))
    assert capsys.readouterr().out.splitlines() == [
        "┌─────────┬─────────┐",
        "│  CPU 0  │  CPU 1  │",
        "├─────────┼─────────┤",
        "│  CPU 2  │  CPU 3  │",
        "└─────────┴─────────┘",
    ]


def test_parts_that_several_devices_hold() -> None:
    text = sharding_text((4,), NamedSharding(MESH, P("y")))
    assert "│ CPU 0,2 │ CPU 1,3 │" in text
    assert sharding_text((4, 4), NamedSharding(MESH, P())).count("CPU 0,1,2,3") == 1


def test_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    visualize_array_sharding(kiln.numpy.ones(3), min_width=12)
    assert "│   CPU 0    │" in capsys.readouterr().out


def test_svg() -> None:
    root = ElementTree.fromstring(sharding_svg((4, 4), NamedSharding(MESH, P(None, ("y", "x")))))
    labels = [node.text for node in root if node.tag.endswith("text")]
    assert labels == ["CPU 0", "CPU 2", "CPU 1", "CPU 3"]
    assert len({node.get("fill") for node in root if node.tag.endswith("rect")}) == 4


def test_errors() -> None:
    with pytest.raises(ValueError, match="1 and 2 dimensions") as error:
        sharding_text((2, 2, 2), NamedSharding(MESH, P()))
    assert len(str(error.value).splitlines()) == 3
    with pytest.raises(ValueError, match="not divisible"):
        sharding_text((3, 2), NamedSharding(MESH, P("x")))
