"""Stored programs that were damaged: an error of three lines or a program, and never a signal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, random
from kiln.base.errors import JaxRuntimeError
from kiln.base.files.checksums import MARK
from kiln.base.options.config import override
from kiln.engines.xla import untrusted
from kiln.experimental.serialize_executable import deserialize_and_load, serialize
from kiln.ir.sizes.size import is_constant, names
from kiln.ir.sizes.values import substitute
from tests.properties.damage import damaged
from tests.unit.export.write_data import DATA

pytest.importorskip("flatbuffers")

X = np.full((4, 3), 0.25, np.float32)


def network(params: Any, x: Any) -> Any:
    h = jnp.tanh(x @ params["w"]) * np.float32(0.7)
    return {"h": h, "positive": (h > 0).sum()}


def by_kiln() -> list[bytes]:
    """Return exported programs as kiln writes them."""
    params = {"w": np.ones((3, 2), np.float32)}
    types = export.symbolic_args_specs((params, X), ({"w": "_, _"}, "b, _"))
    return [
        bytes(export.export(kiln.jit(network))(params, X).serialize(vjp_order=1)),
        bytes(export.export(kiln.jit(network), platforms=("cpu", "tpu"))(*types).serialize()),
        bytes(export.export(kiln.jit(random.split))(random.key(0)).serialize()),
    ]


@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_damage_to_programs_of_kiln_is_found(many: int) -> None:
    stored = by_kiln()
    for seed in range(many):
        with pytest.raises(ValueError, match="not what Exported") as caught:
            export.deserialize(damaged(stored[seed % len(stored)], seed))
        assert str(caught.value).count("\n") == 2


@pytest.mark.parametrize("many", [100, pytest.param(10_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("engine", ["native", "xla"])
def test_damage_to_machine_code_is_found(engine: str, many: int) -> None:
    with override(engine=engine):
        made = kiln.jit(network).lower({"w": np.ones((3, 2), np.float32)}, X).compile()
    code, *trees = serialize(made)
    for seed in range(many):
        with pytest.raises(ValueError, match="not what serialize") as caught:
            deserialize_and_load(damaged(code, seed), *trees)
        assert str(caught.value).count("\n") == 2


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let one process read artifacts until it dies."""
    with untrusted.Reader(10.0) as reader:
        monkeypatch.setattr(untrusted.Reader, "__exit__", lambda *_: None)
        monkeypatch.setattr(untrusted, "Reader", lambda: reader)
        yield
        monkeypatch.undo()


def _argument(aval: Any) -> Any:
    sizes: dict[str, Any] = dict.fromkeys(names(*aval.shape), 2)
    shape = [substitute(dim, sizes) for dim in aval.shape]
    if aval.dtype == random.key(0).dtype:
        return random.split(random.key(0), tuple(shape))
    return np.zeros(shape, aval.dtype)


def _outcome(stored: bytes) -> str:
    """Load and call a program; return what became of it."""
    try:
        loaded = export.deserialize(stored)
        if sum(a.size for a in loaded.in_avals if is_constant(a.shape)) > 10**6:
            return "large"
        leaves = [_argument(aval) for aval in loaded.in_avals]
        args, kwargs = kiln.tree.unflatten(loaded.in_tree, leaves)
        kiln.block_until_ready(loaded.call(*args, **kwargs))
        for order in range(loaded.has_vjp()):
            assert loaded.vjp().mlir_module(), order
    except (ValueError, NotImplementedError, JaxRuntimeError) as error:
        return "refused" if str(error).count("\n") >= 2 else f"{error!r}"
    return "called"


FEW = range(60)
SEEDS = [range(begin, begin + 500) for begin in range(0, 10_000, 500)]


@pytest.mark.parametrize(
    "seeds", [FEW, *[pytest.param(each, marks=pytest.mark.full) for each in SEEDS]]
)
@pytest.mark.usefixtures("reader")
def test_programs_of_jax_are_refused_or_run(seeds: range) -> None:
    files = [(DATA / f"{name}.bin").read_bytes() for name in ("static", "sized", "keys")]
    # Without its mark and identifier, a program of kiln is one of jax.
    files += [stored[:4] + bytes(4) + stored[8 : -len(MARK)] for stored in by_kiln()]
    assert {_outcome(stored) for stored in files} == {"called"}
    found = Counter(_outcome(damaged(files[seed % len(files)], seed)) for seed in seeds)
    assert set(found) <= {"refused", "called", "large"}
    assert found["refused"] > found["called"] > 0, found
