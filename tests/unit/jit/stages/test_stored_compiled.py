"""Compiled programs as bytes, loaded and called, on both engines."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import random
from kiln.base.options.config import override
from kiln.experimental.serialize_executable import deserialize_and_load, serialize
from kiln.sharding import NamedSharding, P, make_mesh

X = np.arange(3, dtype=np.float32)
WEIGHT = jnp.asarray(X)

engines = pytest.mark.parametrize("engine", ["native", "xla"])


def f(x, unused, *, z):
    return {"a": jnp.sin(x["p"]) * WEIGHT + z, "s": x["q"].sum()}


ARGS = ({"q": X, "p": X + 1}, 5.0)


def compiled(engine, fun, *args, options=None, **kwargs):
    with override(engine=engine):
        return kiln.jit(fun, **(options or {})).lower(*args, **kwargs).compile()


def again(made, **options):
    return deserialize_and_load(*serialize(made), **options)


@engines
def test_results(engine):
    made = compiled(engine, f, *ARGS, z=X)
    loaded = again(made)
    assert loaded.in_tree == made.in_tree and loaded.out_tree == made.out_tree
    found, expected = loaded(*ARGS, z=X), made(*ARGS, z=X)
    np.testing.assert_allclose(found["a"], expected["a"], rtol=1e-6)
    assert float(found["s"]) == float(expected["s"])
    assert str(loaded) == str(made)


@engines
def test_another_process(engine, tmp_path):
    made = compiled(engine, f, *ARGS, z=X)
    path = tmp_path / "stored"
    path.write_bytes(pickle.dumps((serialize(made), ARGS, X, np.asarray(made(*ARGS, z=X)["a"]))))
    program = (
        "import pickle, sys, numpy as np\n"
        "from kiln.experimental.serialize_executable import deserialize_and_load\n"
        "stored, args, z, expected = pickle.load(open(sys.argv[1], 'rb'))\n"
        "found = deserialize_and_load(*stored)(*args, z=z)['a']\n"
        "np.testing.assert_allclose(found, expected, 1e-6)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


@engines
def test_keywords_in_another_order(engine):
    loaded = again(compiled(engine, lambda a, b: a - b, b=X, a=2 * X))
    np.testing.assert_array_equal(loaded(a=2 * X, b=X), X)
    np.testing.assert_array_equal(loaded(b=X, a=3 * X), 2 * X)


@engines
def test_donated_arguments(engine):
    made = compiled(engine, lambda x, y: x + y, X, X, options={"donate_argnums": 1})
    x, y = jnp.asarray(X), jnp.asarray(X)
    np.testing.assert_array_equal(again(made)(x, y), 2 * X)
    assert y.is_deleted() and not x.is_deleted()


@engines
def test_keys_and_no_arguments(engine):
    loaded = again(compiled(engine, random.split, random.key(0)))
    assert (
        random.key_data(loaded(random.key(3))) == random.key_data(random.split(random.key(3)))
    ).all()
    np.testing.assert_array_equal(again(compiled(engine, lambda: jnp.arange(3)))(), [0, 1, 2])


@engines
def test_other_types_are_refused(engine):
    loaded = again(compiled(engine, f, *ARGS, z=X))
    with pytest.raises(TypeError, match="input pytree structure"):
        loaded(X)
    with pytest.raises(TypeError, match=r"float32\[4\]"):
        loaded({"q": X, "p": np.ones(4, np.float32)}, 5.0, z=X)


@engines
def test_what_calls_python_has_no_stored_form(engine):
    with pytest.raises(ValueError, match=r"does not support serialization: .*1 Python f"):
        serialize(compiled(engine, lambda x: kiln.debug.print("{}", x), X))


def test_what_else_has_no_stored_form():
    with pytest.raises(ValueError, match="programs of the reference engine"):
        serialize(compiled("reference", jnp.sin, X))
    sized = kiln.jit(lambda x: x + 1, abstracted_axes=({0: "n"},)).lower(X).compile()
    with pytest.raises(ValueError, match="compiled for all sizes of its named axes"):
        serialize(sized)


def test_over_several_devices():
    sharding = NamedSharding(make_mesh((2,), ("x",)), P("x"))
    x = kiln.device_put(jnp.arange(4.0), sharding)
    made = kiln.jit(lambda x, y: (2 * x + y, x.sum())).lower(x, 1.0).compile()
    loaded = again(made, execution_devices=kiln.devices()[:2])
    doubled, total = loaded(x, 1.0)
    assert doubled.sharding == sharding and float(total) == 6.0
    np.testing.assert_array_equal(doubled, [1, 3, 5, 7])
    assert loaded.input_shardings == made.input_shardings
    with pytest.raises(ValueError, match="was compiled for 2 devices"):
        again(made, execution_devices=kiln.devices()[1:3])


def test_on_another_device():
    first, second = kiln.devices()[:2]
    made = kiln.jit(lambda x: x + 1).lower(kiln.device_put(X, first)).compile()
    loaded = again(made, execution_devices=[second])
    assert loaded(kiln.device_put(X, second)).devices() == {second}
    by_default = compiled("xla", lambda x: x + 1, X)
    np.testing.assert_array_equal(again(by_default, execution_devices=[first])(X), X + 1)
    with pytest.raises(ValueError, match="was compiled for 1 device "):
        again(by_default, execution_devices=[second])
    with pytest.raises(ValueError, match="no backend 'tpu'"):
        again(by_default, backend="tpu")


def test_other_bytes_and_trees_are_refused():
    stored, in_tree, out_tree = serialize(compiled("native", jnp.sin, X))
    for other in (b"", b"nonsense", stored[:50], pickle.dumps((0, {}))):
        with pytest.raises(ValueError, match="not what serialize"):
            deserialize_and_load(other, in_tree, out_tree)
    with pytest.raises(ValueError, match="it has 1 arguments and 1 results, and the trees 2 and 1"):
        deserialize_and_load(stored, kiln.tree.structure(((1, 2), {})), out_tree)
