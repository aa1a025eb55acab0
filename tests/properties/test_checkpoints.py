"""Random trees under random shardings come back from checkpoints as they were, anywhere."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import kiln
from kiln import checkpoints
from kiln.sharding import NamedSharding, P, make_mesh
from tests.properties.exploring import explored
from tests.properties.test_saving import NUMBERS, TEXTS, State, arrays, same, trees

MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (3,), (1,)]
SPECS = [None, "a", "b", "c", ("a", "b"), ("b", "a")]
PYTHON = st.integers(-(2**100), 2**100)


@st.composite
def placements(draw: Any, shape: tuple[int, ...]) -> NamedSharding:
    """Draw a sharding that fits a shape."""
    sizes = draw(st.sampled_from(MESHES))
    mesh = make_mesh(sizes, tuple("abc"[: len(sizes)]))
    entries: list[Any] = []
    left = set(mesh.axis_names)
    for size in shape:
        entry = draw(st.sampled_from(SPECS))
        names = entry if isinstance(entry, tuple) else (entry,)
        count = int(np.prod([mesh.shape.get(name, 1) for name in names]))
        if entry is None or not left.issuperset(names) or size % count:
            entries.append(None)
        else:
            entries.append(entry)
            left -= set(names)
    return NamedSharding(mesh, P(*entries))


@st.composite
def placed(draw: Any) -> tuple[np.ndarray, NamedSharding, NamedSharding]:
    """Draw an array of any bytes, where it is, and where it is to go."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 16]), max_size=3)))
    count = int(np.prod(shape, dtype=int))
    dtype = np.dtype(draw(st.sampled_from(["u1", "i4", "f4", "bfloat16", "complex64"])))
    content = draw(st.binary(min_size=4, max_size=64))
    data = np.frombuffer(np.resize(np.frombuffer(content, np.uint8), count * dtype.itemsize), dtype)
    return data.reshape(shape), draw(placements(shape)), draw(placements(shape))


@explored(trees(st.one_of(arrays(), NUMBERS, TEXTS, PYTHON)), st.booleans(), few=40, many=2000)
def test_trees_come_back(tree: Any, wait: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "c"
        checkpoints.save(saved, tree, wait=wait).wait()
        # Its dicts are in the order that pytrees have.
        assert same(checkpoints.restore(saved, tree), kiln.tree.map(lambda leaf: leaf, tree))
        if not any(isinstance(node, State) for node in nodes(tree)):
            assert same(checkpoints.restore(saved), as_dicts(tree))


def nodes(tree: Any) -> list[Any]:
    """Return a tree and all that is in it."""
    found = [tree]
    inner = (
        tree.values()
        if hasattr(tree, "values")
        else tree
        if isinstance(tree, (list, tuple))
        else ()
    )
    for child in inner:
        found += nodes(child)
    return found


def as_dicts(tree: Any) -> Any:
    """Return a tree with dicts, in the order of pytrees, in place of containers of other classes."""
    if hasattr(tree, "_fields"):
        return {name: as_dicts(getattr(tree, name)) for name in tree._fields}
    if hasattr(tree, "items"):
        return {key: as_dicts(tree[key]) for key in sorted(tree)}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(as_dicts, tree))
    return tree


@explored(st.lists(placed(), min_size=1, max_size=3), few=40, many=1500)
def test_shards_come_back_anywhere(
    drawn: list[tuple[np.ndarray, NamedSharding, NamedSharding]],
) -> None:
    tree = [kiln.device_put(data, before) for data, before, _ in drawn]
    targets = [
        kiln.ShapeDtypeStruct(data.shape, data.dtype, sharding=after) for data, _, after in drawn
    ]
    with tempfile.TemporaryDirectory() as folder:
        checkpoints.save(Path(folder) / "c", tree)
        as_saved = checkpoints.restore(Path(folder) / "c")
        moved = checkpoints.restore(Path(folder) / "c", targets)
    for (data, before, after), first, second in zip(drawn, as_saved, moved, strict=True):
        assert first.sharding == before
        assert second.sharding == after
        for found in (first, second):
            assert (found.dtype, found.shape) == (data.dtype, data.shape)
            assert np.asarray(found).tobytes() == data.tobytes()
