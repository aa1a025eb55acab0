"""Arrays in notebooks: what their HTML shows, and what treescope draws."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.arrays.display import ADAPTER, EDGE
from kiln.sharding import NamedSharding, P, make_mesh


def _cells(x) -> list[list[str]]:
    table = ElementTree.fromstring(x._repr_html_()).find("table")
    return [["".join(cell.itertext()) for cell in row] for row in table]


@pytest.mark.parametrize("value", [[1, 2, 3], [[1.5, 2.0], [-1.0, np.inf]], [[True], [False]]])
def test_small_arrays_are_tables(value):
    x = jnp.array(value)
    cells = _cells(x)
    rows = np.atleast_2d(np.asarray(x))
    assert [len(row) for row in cells] == [rows.shape[1]] * rows.shape[0]
    assert cells[-1][-1].strip() == np.array2string(rows[-1:, -1])[1:-1].strip()


def test_large_arrays_show_their_edges():
    cells = _cells(jnp.arange(10000).reshape(100, 100))
    assert len(cells) == len(cells[0]) == 2 * EDGE + 1
    assert cells[EDGE] == ["…"] * (2 * EDGE + 1)
    assert cells[0][0] == "0" and cells[-1][-1] == "9999"


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.float32(3),
        lambda: jnp.zeros((0, 3)),
        lambda: jnp.ones((2, 2, 2)),
        lambda: jnp.ones(3, jnp.bfloat16),
        lambda: kiln.random.key(0),
        lambda: kiln.random.split(kiln.random.key(0)),
        lambda: jnp.array([1 + 2j]),
    ],
)
def test_all_arrays_are_well_formed(make):
    x = make()
    text = "".join(ElementTree.fromstring(x._repr_html_()).itertext())
    assert text.startswith(f"Array {x.aval.str_short()}")


def test_a_deleted_array_leaves_it_to_repr():
    x = jnp.ones(3)
    x.delete()
    assert x._repr_html_() is None


def test_shards_are_drawn():
    x = kiln.device_put(jnp.arange(8.0), NamedSharding(make_mesh((8,), ("x",)), P("x")))
    assert x._repr_html_().count("<rect") == 8
    assert x.sharding._repr_html_().count("<rect") == 8


def test_lines_are_indented_in_containers():
    pretty = pytest.importorskip("IPython.lib.pretty", reason="IPython is not installed").pretty
    assert pretty([jnp.eye(2)]) == "[Array([[1., 0.],\n        [0., 1.]], dtype=float32)]"


def test_the_pretty_printer_gets_lines():
    class Printer:
        parts: list[str] = []

        def text(self, text: str) -> None:
            self.parts.append(text)

        def break_(self) -> None:
            self.parts.append("\n")

    printer = Printer()
    jnp.eye(2)._repr_pretty_(printer, False)
    assert "".join(printer.parts) == repr(jnp.eye(2))
    assert printer.parts[1] == "\n"


class TestTreescope:
    treescope = pytest.importorskip("treescope", reason="treescope is not installed")

    def test_arrays_in_trees(self):
        text = self.treescope.render_to_text({"a": jnp.arange(3.0), "b": jnp.ones((200, 200))})
        assert "array([0., 1., 2.]" in text.replace("np.", "") and "(200, 200)" in text

    def test_arrays_are_drawn(self):
        with self.treescope.active_autovisualizer.set_scoped(self.treescope.ArrayAutovisualizer()):
            drawn = self.treescope.render_to_html(jnp.arange(6.0).reshape(2, 3))
        assert len(drawn) > len(self.treescope.render_to_html(jnp.arange(6.0).reshape(2, 3)))
        assert self.treescope.render_array(jnp.ones((300, 300))) is not None

    def test_truncated_values(self):
        x = jnp.arange(100)
        values, mask = ADAPTER.get_array_data_with_truncation(x, None, (2,))
        assert list(values) == [0, 1, 0, 98, 99] and list(mask) == [1, 1, 0, 1, 1]
        assert ADAPTER.get_array_summary(x, fast=False) == "kiln.Array i32[100] [≥0, ≤99]"
        assert ADAPTER.get_numpy_dtype(x) == np.int32
        assert [axis.size for axis in ADAPTER.get_axis_info_for_array_data(x)] == [100]
        assert not ADAPTER.should_autovisualize(kiln.random.key(0))

    def test_shards(self):
        x = kiln.device_put(jnp.arange(8.0), NamedSharding(make_mesh((8,), ("x",)), P("x")))
        assert ADAPTER.get_sharding_info_for_array_data(x).shard_shape == (1,)
        assert ADAPTER.get_sharding_info_for_array_data(jnp.ones(3)) is None
