"""What users get wrong: each message has three lines, the user's own line, and what is there."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln import linen as nn
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

Mistake = Callable[[], Any]


def double(x: Any) -> Any:
    return x * 2


def traced(fun: Callable[[Any], Any]) -> Mistake:
    return lambda: kiln.jit(fun)(jnp.ones(3))


class Net(nn.Module):
    """A layer of a known name."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(2, name="layer")(x)


class SetUp(nn.Module):
    """A layer made in setup."""

    def setup(self) -> None:
        self.layer = nn.Dense(2)

    def __call__(self, x: Any) -> Any:
        return self.layer(x)


class Averages(nn.Module):
    """A module with a second collection."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.BatchNorm(use_running_average=False)(x)


class Noise(nn.Module):
    """A module that draws."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dropout(0.5, deterministic=False)(x)


class Counter(nn.Module):
    """A module that reads a variable."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return self.variable("cache", "step").value


@functools.cache
def key() -> Any:
    return kiln.random.key(0)


@functools.cache
def variables() -> Any:
    return Net().init(key(), row())


@functools.cache
def row() -> Any:
    return jnp.ones((1, 3))


@functools.cache
def compiled() -> Any:
    return kiln.jit(double).lower(jnp.ones(3)).compile()


@functools.cache
def mesh() -> Any:
    return kiln.make_mesh((1,), ("i",))


def donated() -> Any:
    x = jnp.ones(3)
    kiln.jit(double, donate_argnums=0)(x)
    return x


def deleted() -> Any:
    x = jnp.ones(3)
    x.delete()
    return x


def vec() -> Any:
    return jnp.ones(3)


# The mistake, and what its message says besides the line: what is there, and what to write.
MISTAKES: dict[str, tuple[Mistake, str]] = {
    # jit
    "a static list": (
        lambda: kiln.jit(lambda x, n: x, static_argnums=1)(1.0, [1]),
        "'n' .*<class 'list'>.*tuple instead of a list",
    ),
    "a static dict": (
        lambda: kiln.jit(lambda x, n: x, static_argnames="n")(1.0, n={}),
        "'n' .*<class 'dict'>",
    ),
    "a static array": (
        lambda: kiln.jit(lambda x, n: x, static_argnums=1)(1.0, vec()),
        "'n' .*as a non-static argument",
    ),
    "a static number": (lambda: kiln.jit(double, static_argnums=3), r"numbers from 0 to 0"),
    "a static name": (lambda: kiln.jit(double, static_argnames="y"), r"\['x'\]"),
    "a static float": (lambda: kiln.jit(double, static_argnums=1.5), r"1\.5.*static_argnums=\("),
    "static names of 3": (lambda: kiln.jit(double, static_argnames=3), r"static_argnames=\("),
    "jit of None": (lambda: kiln.jit(None), "Expected a callable value, got None"),
    "a string": (lambda: kiln.jit(double)("a"), "argument x = 'a'"),
    "an object in a tree": (
        lambda: kiln.jit(lambda d: d)({"a": {"b": object()}}),
        r"d\['a'\]\['b'\]",
    ),
    "a string returned": (lambda: kiln.jit(lambda x: {"out": "a"})(1.0), r"\['out'\]"),
    "a large int": (lambda: kiln.jit(double)(2**40), "argument x overflows.*jax_enable_x64"),
    # arrays that are gone
    "a donated operand": (lambda: donated() + 1, r"float32\[3\].*copy before donating|x\.copy\(\)"),
    "a donated argument": (lambda: kiln.jit(double)(donated()), "donated or freed"),
    "a donated array in NumPy": (lambda: np.asarray(donated()), "donated or freed"),
    "a donated array in kiln.numpy": (lambda: jnp.sum(donated()), "donated or freed"),
    "a donated array in a compiled function": (lambda: compiled()(donated()), "donated or freed"),
    "a deleted array": (lambda: deleted()[0], "donated or freed"),
    "a deleted array fetched": (lambda: kiln.device_get(deleted()), "donated or freed"),
    "a deleted array printed": (lambda: deleted().item(), "donated or freed"),
    # values that are not known
    "if": (traced(lambda x: 1 if x[0] > 0 else 2), "argument x.*lax.cond"),
    "int": (traced(lambda x: int(x[0])), "argument x"),
    "range": (traced(lambda x: list(range(x[0].astype(int)))), "fori_loop"),
    "NumPy": (traced(lambda x: np.sin(x)), "use kiln.numpy.sin"),
    "a mask": (traced(lambda x: x[x > 0]), r"bool\[3\]"),
    "nonzero": (traced(jnp.nonzero), "size"),
    "a shape": (traced(lambda x: jnp.zeros(x[0].astype(int))), "hape"),
    "an item assigned": (traced(lambda x: x.__setitem__(0, 1)), r"x\.at\[idx\]\.set"),
    # shapes, dtypes, indices
    "shapes": (lambda: vec() + jnp.ones(4), r"\(3,\), \(4,\)"),
    "matmul": (lambda: jnp.ones((2, 3)) @ jnp.ones((2, 3)), r"\(2, 3\).*\(2, 3\)"),
    "reshape": (lambda: vec().reshape(2, 2), r"\(2, 2\)"),
    "concatenate": (
        lambda: jnp.concatenate([jnp.ones((2, 3)), jnp.ones((2, 4))], 0),
        r"\(2, 3\).*\(2, 4\)",
    ),
    "an axis": (lambda: vec().sum(axis=2), "axis 2.*from -1 to 0"),
    "an axis of argmax": (lambda: jnp.argmax(vec(), axis=3), "axis 3.*from -1 to 0"),
    "squeeze": (lambda: jnp.squeeze(vec(), 0), "size 1"),
    "a list": (lambda: jnp.sin([1, 2]), "list"),
    "None": (lambda: jnp.add(None, 1), "None"),
    "a dtype": (lambda: jnp.zeros(3, dtype="foo"), "'foo'.*float32"),
    "astype": (lambda: vec().astype("foo"), "'foo'.*float32"),
    "too many indices": (lambda: vec()[0, 0], "indices"),
    "a float as an index": (lambda: vec()[1.5], "float"),
    "item": (lambda: vec().item(), r"size 1.*x\.item\(0\)"),
    "an array as an index": (lambda: [1, 2][vec()], "integer scalar.*int"),
    "bool": (lambda: bool(vec()), r"\.any\(\)"),
    "len": (lambda: len(jnp.float32(1)), "unsized"),
    "iteration": (lambda: list(jnp.float32(1)), "0-d"),
    "einsum": (lambda: jnp.einsum("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((4, 5))), "'j'"),
    "split": (lambda: jnp.split(vec(), 2), "2"),
    "split into none": (lambda: jnp.split(vec(), 0), "1 or more"),
    "searchsorted": (lambda: jnp.searchsorted(vec(), 1, side="x"), "'left' or 'right'"),
    "negative sizes": (lambda: jnp.tile(vec(), -1), "from 0"),
    "full": (lambda: jnp.full((2, 2), vec()), r"\(3,\) to \(2, 2\)|\(3,\)"),
    "a step of 0": (lambda: vec()[::0], "zero"),
    "cholesky": (lambda: jnp.linalg.cholesky(jnp.ones((2, 3))), r"2, ?3"),
    "top_k": (lambda: lax.top_k(vec(), 5), "5"),
    # control flow
    "branches": (
        lambda: lax.cond(True, lambda x: x, lambda x: jnp.ones(4), vec()),
        r"float32\[3\].*float32\[4\]",
    ),
    "a predicate": (lambda: lax.cond(vec() > 0, double, double, vec()), r"bool\[3\]|scalar"),
    "a carry": (lambda: lax.scan(lambda c, x: (vec(), x), 0.0, vec()), r"carry.*float32\[3\]"),
    "no pair": (lambda: lax.scan(lambda c, x: c, 0.0, vec()), "pair"),
    "lengths": (lambda: lax.scan(lambda c, x: (c, x), 0.0, (vec(), jnp.ones(4))), "3.*4"),
    "a condition": (lambda: lax.while_loop(lambda c: c, lambda c: c, vec()), "bool"),
    "no branches": (lambda: lax.switch(0, [], vec()), "branch"),
    # transformations
    "grad of an array": (lambda: kiln.grad(double)(vec()), r"\(3,\)|float32\[3\]"),
    "grad of an int": (lambda: kiln.grad(double)(1), "int32"),
    "grad of nothing": (lambda: kiln.grad(lambda x: None)(1.0), "None"),
    "argnums": (lambda: kiln.grad(double, argnums=3)(1.0), "3"),
    "no argnums": (lambda: kiln.grad(double, argnums=())(1.0), "at least one"),
    "names as argnums": (lambda: kiln.grad(double, argnums="x")(1.0), "'x'"),
    "grad of 3": (lambda: kiln.grad(3), "callable"),
    "vmap of 3": (lambda: kiln.vmap(3), "callable"),
    "mapped sizes": (lambda: kiln.vmap(lambda a, b: a)(vec(), jnp.ones(4)), "argument a.*3.*4"),
    "a mapped scalar": (lambda: kiln.vmap(double)(1.0), "argument x.*in_axes=None"),
    "in_axes of another length": (
        lambda: kiln.vmap(lambda a, b: a, in_axes=(0,))(vec(), vec()),
        "length|one entry",
    ),
    "in_axes of other keys": (
        lambda: kiln.vmap(double, in_axes=({"a": 0, "b": 0},))({"a": vec()}),
        r"\['a', 'b'\].*\['a'\].*remove 'b'",
    ),
    "in_axes of strings": (lambda: kiln.vmap(double, in_axes="a")(vec()), "in_axes="),
    "in_axes of floats": (lambda: kiln.vmap(double, in_axes=(0.5,))(vec()), "0.5"),
    "out_axes of another structure": (
        lambda: kiln.vmap(double, out_axes=(0, 0))(vec()),
        "tuple with 2 children",
    ),
    "an axis without a name": (lambda: lax.psum(vec(), "i"), "'i'|axis name: i"),
    "tangents": (lambda: kiln.jvp(double, (vec(),), (jnp.ones(4),)), "shapes"),
    "cotangents": (lambda: kiln.vjp(double, vec())[1](jnp.ones(4)), r"\[4\].*\[3\]"),
    "a loop backwards": (
        lambda: kiln.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * x, x))(2.0),
        "lax.scan",
    ),
    "no rules": (lambda: kiln.custom_vjp(double)(1.0), "defvjp"),
    "another type compiled": (lambda: compiled()(jnp.ones(4)), r"x .*float32\[3\].*float32\[4\]"),
    "another structure compiled": (lambda: compiled()((vec(), vec())), "structure"),
    # modules
    "a module called": (lambda: Net()(row()), "module.apply"),
    "setup not run": (lambda: SetUp().layer, "inside init, apply and bind"),
    "no variables": (lambda: Net().apply({}, row()), "no collections.*{'params': ...}"),
    "parameters without their collection": (
        lambda: Net().apply(variables()["params"], row()),
        r"hold the collections \['layer'\].*{'params': ...}",
    ),
    "a parameter misspelled": (
        lambda: Net().apply({"params": {"Layer": variables()["params"]["layer"]}}, row()),
        r"\"/layer\": 'params' holds \['Layer'\] at \"/\"",
    ),
    "a parameter missing": (
        lambda: Net().apply({"params": {"layer": {"bias": jnp.ones(2)}}}, row()),
        r"'params' holds \['bias'\] at \"/layer\"",
    ),
    "a parameter of another shape": (
        lambda: Net().apply(variables(), jnp.ones((1, 4))),
        r"\(4, 2\).*\(3, 2\)",
    ),
    "variables twice": (lambda: Net().apply({"params": variables()}, row()), "not twice"),
    "a list of variables": (lambda: Net().apply([variables()], row()), "{'params': params}"),
    "a variable missing": (
        lambda: Counter().apply({"cache": {"other": vec()}}, vec()),
        r"'cache' holds \['other'\]",
    ),
    "a collection that stays": (
        lambda: Averages().apply(Averages().init(key(), row()), row()),
        r"mutable=\['batch_stats'\]",
    ),
    "no rng": (lambda: Noise().apply({}, row()), r"\"dropout\".*given are \[\].*rngs={'dropout'"),
    "another rng": (
        lambda: Noise().apply({}, row(), rngs={"noise": key()}),
        r"given are \['noise'\]",
    ),
    "rngs that are none": (lambda: Net().init(3.5, row()), "kiln.random.key"),
    "a flag not given": (lambda: nn.Dropout(0.5).apply({}, row()), "deterministic="),
    "a method that is not there": (
        lambda: Net().apply(variables(), row(), method="forward"),
        "forward",
    ),
    "a method of the class": (lambda: Net.init(key(), row()), "instance"),
    "padding": (
        lambda: nn.Conv(2, (3, 3), padding="all").init(key(), jnp.ones((1, 4, 4, 3))),
        "'all'",
    ),
    # the rest
    "trees": (lambda: kiln.tree.map(lambda a, b: a, {"a": 1}, {"b": 1}), r"\['a'\].*\['b'\]"),
    "leaves": (lambda: kiln.tree.unflatten(kiln.tree.structure([1, 2]), [1]), "expected 2, got 1"),
    "a key that is none": (lambda: kiln.random.normal(vec(), (2,)), "key"),
    "a device that is not there": (lambda: kiln.devices("gpu"), "gpu"),
    "a mesh too large": (lambda: kiln.make_mesh((64,), ("i",)), "64 devices"),
    "an axis the mesh lacks": (lambda: NamedSharding(mesh(), P("j")), r"\('i',\)"),
    "too few arguments printed": (lambda: kiln.debug.print("{} {}", vec()), "each {}"),
    "too many arguments printed": (lambda: kiln.debug.print("{}", vec(), vec()), "Unused"),
    "an option misspelled": (
        lambda: kiln.config.update("jax_debug_nan", True),
        "did you mean jax_debug_nans",
    ),
    "an option read": (lambda: kiln.config.jax_debug_nan, "did you mean jax_debug_nans"),
    "an option's value": (
        lambda: kiln.config.update("jax_numpy_rank_promotion", "never"),
        "'allow', 'warn', 'raise'",
    ),
    "a struct without a dtype": (lambda: kiln.ShapeDtypeStruct((3,), None), "'float32'"),
    "another state": (
        lambda: kiln.serialization.from_state_dict({"a": 1}, {"b": 1}),
        r"{'a'}.*\['b'\]",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_has_three_lines_and_the_users(name: str) -> None:
    mistake, says = MISTAKES[name]
    with pytest.raises(Exception) as caught:
        mistake()
    text = str(caught.value)
    assert len(text.splitlines()) == 3, text
    assert all(text.splitlines()), text
    assert re.search(re.escape(__file__) + r":\d+", text), text
    assert re.search(says, text, re.DOTALL), text
