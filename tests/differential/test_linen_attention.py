"""linen's attention has flax's variables, values, slopes, masks and decoding steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.linen
import kiln.nn
import kiln.random
from kiln.base.options.config import override
from tests.differential.modules import compiled, names, trained, values
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

X = smooth("float32", (2, 5, 8))
OTHER, THIRD = smooth("float32", (2, 4, 6), "other"), smooth("float32", (2, 4, 3), "third")
DEEP = smooth("float32", (2, 3, 5, 8), "deep")
MASK = smooth("float32", (2, 1, 5, 5), "mask") > 0
HEADS = smooth("float32", (2, 4, 5, 5), "heads") > -0.5
QUERY = smooth("float32", (2, 3, 2, 4), "query")
KEY, VALUE = smooth("float32", (2, 5, 2, 4), "key"), smooth("float32", (2, 5, 2, 6), "value")
BIAS = smooth("float32", (1, 2, 3, 5), "bias")
PAIRS = smooth("float32", (2, 1, 3, 5), "pairs") > 0
LOOSE = {"bfloat16": 3e-2, "float16": 1e-2}


def doubled(lib: Any) -> Callable[..., Any]:
    """Return an attention function that knows few of the options."""

    def attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return 2 * lib.linen.dot_product_attention(query, key, value, mask=mask)

    return attention


def halved(lib: Any) -> Callable[..., Any]:
    """Return what makes an einsum, scaled."""
    return lambda: lambda text, x, y: 0.5 * lib.numpy.einsum(text, x, y)


def rounded(lib: Any) -> Callable[..., Any]:
    """Return a product of rounded operands."""

    def product(x: Any, y: Any, *args: Any, **options: Any) -> Any:
        return lib.lax.dot_general(
            lib.numpy.round(x * 8) / 8, lib.numpy.round(y * 8) / 8, *args, **options
        )

    return product


Fields = Callable[[Any], dict[str, Any]]
"""A function of the library that gives the fields of a module beside `num_heads`."""

MODULES: dict[str, tuple[Fields, tuple[Any, ...], dict[str, Any]]] = {
    "plain": (lambda lib: {}, (X,), {}),
    "several batch axes": (lambda lib: {}, (DEEP,), {}),
    "no batch axes": (lambda lib: {}, (X[0],), {}),
    "keys": (lambda lib: {}, (X, OTHER), {}),
    "keys and values": (lambda lib: {}, (X, OTHER, THIRD), {}),
    "inputs_kv": (lambda lib: {}, (X,), {"inputs_kv": OTHER}),
    "sizes": (lambda lib: {"qkv_features": 12, "out_features": 3}, (X,), {}),
    "no bias": (lambda lib: {"use_bias": False}, (X,), {}),
    "normalized": (lambda lib: {"num_heads": 2, "normalize_qk": True}, (X,), {}),
    "mask": (lambda lib: {}, (X,), {"mask": MASK}),
    "mask of numbers": (lambda lib: {}, (X,), {"mask": MASK.astype(np.float32)}),
    "mask of heads": (lambda lib: {}, (X,), {"mask": HEADS}),
    "bfloat16": (lambda lib: {"dtype": lib.numpy.bfloat16}, (X,), {"mask": MASK}),
    "bfloat16, softmax in 32": (
        lambda lib: {"dtype": lib.numpy.bfloat16, "force_fp32_for_softmax": True},
        (X,),
        {"mask": MASK},
    ),
    "float16 parameters": (lambda lib: {"param_dtype": np.float16}, (X,), {}),
    "initializers": (
        lambda lib: {
            "kernel_init": lib.nn.initializers.normal(0.5),
            "out_kernel_init": lib.nn.initializers.ones,
            "bias_init": lib.nn.initializers.normal(1.0),
            "out_bias_init": lib.nn.initializers.ones,
        },
        (X,),
        {},
    ),
    "dropout": (lambda lib: {"dropout_rate": 0.4, "deterministic": False}, (X,), {}),
    "dropout by each": (
        lambda lib: {"dropout_rate": 0.4, "broadcast_dropout": False},
        (X,),
        {"deterministic": False},
    ),
    "dropout off": (lambda lib: {"dropout_rate": 0.4}, (X,), {"deterministic": True}),
    "attention function": (lambda lib: {"attention_fn": doubled(lib)}, (X,), {"mask": MASK}),
    "einsums": (
        lambda lib: {
            "qk_attn_weights_einsum_cls": halved(lib),
            "attn_weights_value_einsum_cls": halved(lib),
        },
        (X,),
        {},
    ),
    "products": (
        lambda lib: {"qkv_dot_general": rounded(lib), "out_dot_general": rounded(lib)},
        (X,),
        {},
    ),
    "product classes": (
        lambda lib: {
            "qkv_dot_general_cls": lambda: rounded(lib),
            "out_dot_general_cls": lambda: rounded(lib),
        },
        (X,),
        {},
    ),
}


def module_case(lib: Any, name: str) -> Any:
    fields, args, options = MODULES[name]
    module = lib.linen.MultiHeadDotProductAttention(**{"num_heads": 4, **fields(lib)})
    return trained(lib, module, *args, **options)


def in_parent(lib: Any) -> Any:
    """Name the modules of a class, and give each its own key of dropout."""

    class Parent(lib.linen.Module):
        @lib.linen.compact
        def __call__(self, x: Any, mask: Any) -> Any:
            options = {"num_heads": 2, "dropout_rate": 0.3, "deterministic": False}
            x = x + lib.linen.MultiHeadAttention(**options)(x, mask=mask)
            x = x + lib.linen.SelfAttention(**options)(x, mask)
            x = x + lib.linen.MultiHeadDotProductAttention(**options)(x)
            return x + lib.linen.SelfAttention(**options)(x)

    return trained(lib, Parent(), X, MASK)


def given_key(lib: Any) -> Any:
    module = lib.linen.MultiHeadAttention(num_heads=2, dropout_rate=0.5, deterministic=False)
    return trained(lib, module, X, dropout_rng=lib.random.key(9))


def sown(lib: Any) -> Any:
    module = lib.linen.MultiHeadAttention(num_heads=2)

    def run(key: Any) -> Any:
        variables = module.init(key, X)
        _, state = module.apply(variables, X, mask=MASK, sow_weights=True, mutable="intermediates")
        seen.append(names(state))
        return values(state)

    seen: list[Any] = []
    return [*compiled(lib, run, lib.random.key(0)), seen[0]]


def decoded(lib: Any, shape: tuple[int, ...], **fields: Any) -> Any:
    """Decode step by step: the outputs, the cache after, and the outputs of the whole at once."""
    xs = smooth("float32", shape, "decoded")
    module = lib.linen.MultiHeadAttention(num_heads=2, decode=True, **fields)
    seen: list[Any] = []

    def run(key: Any) -> Any:
        variables = module.init(key, xs)
        seen.append(names(variables))
        params, cache = variables["params"], variables["cache"]
        outputs = []
        for i in range(3):
            out, state = module.apply(
                {"params": params, "cache": cache}, xs[..., i : i + 1, :], mutable=["cache"]
            )
            cache = state["cache"]
            outputs.append(out)
        whole = lib.linen.MultiHeadAttention(num_heads=2, **fields).apply(
            {"params": params}, xs, mask=lib.linen.make_causal_mask(xs[..., 0])
        )
        return values(variables["cache"]), outputs, values(cache), whole

    return [*compiled(lib, run, lib.random.key(0)), seen[0]]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "weights": lambda n: n.dot_product_attention_weights(QUERY, KEY),
    "weights bias and mask": lambda n: n.dot_product_attention_weights(QUERY, KEY, BIAS, PAIRS),
    "weights all masked": lambda n: n.dot_product_attention_weights(
        QUERY, KEY, mask=np.zeros((1, 1, 3, 5), bool)
    ),
    "weights float16": lambda n: n.dot_product_attention_weights(QUERY, KEY, dtype=np.float16),
    "weights float16, softmax in 32": lambda n: n.dot_product_attention_weights(
        QUERY, KEY, dtype=np.float16, force_fp32_for_softmax=True
    ),
    "weights of ints": lambda n: n.dot_product_attention_weights(
        np.ones((3, 2, 4), int), np.ones((5, 2, 4), int)
    ),
    "attention": lambda n: n.dot_product_attention(QUERY, KEY, VALUE),
    "attention bias and mask": lambda n: n.dot_product_attention(QUERY, KEY, VALUE, BIAS, PAIRS),
    "attention without batch": lambda n: n.dot_product_attention(QUERY[0], KEY[0], VALUE[0]),
    "attention float16": lambda n: n.dot_product_attention(QUERY, KEY, VALUE, dtype=np.float16),
    "attention deterministic": lambda n: n.dot_product_attention(
        QUERY, KEY, VALUE, dropout_rate=0.5, deterministic=True
    ),
    "attention precision": lambda n: n.dot_product_attention(
        QUERY, KEY, VALUE, precision="highest"
    ),
    "mask of lengths": lambda n: n.make_attention_mask(MASK[:, 0, 0, :3], MASK[:, 0, 0]),
    "mask of places": lambda n: n.make_attention_mask(
        np.arange(3), np.arange(4), np.equal, dtype=bool
    ),
    "mask with more axes": lambda n: n.make_attention_mask(
        np.ones((2, 3)), np.ones((2, 4)), extra_batch_dims=2
    ),
    "causal": lambda n: n.make_causal_mask(np.zeros((2, 4))),
    "causal bools": lambda n: n.make_causal_mask(np.zeros(4), 1, bool),
    "combined": lambda n: n.combine_masks(MASK, None, HEADS),
    "combined bools": lambda n: n.combine_masks(MASK, dtype=bool),
    "combined none": lambda n: [n.combine_masks(None, None) is None],
}


def dropped(lib: Any, broadcast: bool) -> Any:
    """Drop weights with a key."""

    def run(key: Any) -> Any:
        return lib.linen.dot_product_attention(
            QUERY, KEY, VALUE, dropout_rng=key, dropout_rate=0.3, broadcast_dropout=broadcast
        )

    return compiled(lib, run, lib.random.key(5))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "two einsums": lambda lib, n: n.dot_product_attention(
        QUERY, KEY, VALUE, qk_attn_weights_einsum=lib.numpy.einsum
    ),
    "einsum and precision": lambda lib, n: n.dot_product_attention_weights(
        QUERY, KEY, precision="highest", einsum=lib.numpy.einsum
    ),
    "values without keys": lambda lib, n: n.MultiHeadAttention(2).init(
        lib.random.key(0), X, None, X
    ),
    "keys twice": lambda lib, n: n.MultiHeadAttention(2).init(lib.random.key(0), X, X, inputs_kv=X),
    "dropout undecided": lambda lib, n: n.MultiHeadAttention(2, dropout_rate=0.5).init(
        lib.random.key(0), X
    ),
    "dropout decided twice": lambda lib, n: n.MultiHeadAttention(
        2, dropout_rate=0.5, deterministic=True
    ).init(lib.random.key(0), X, deterministic=True),
    "long step": lambda lib, n: n.MultiHeadAttention(2, decode=True).apply(
        n.MultiHeadAttention(2, decode=True).init(lib.random.key(0), X), X, mutable="cache"
    ),
}


def cases() -> Iterator[Case]:
    for name in MODULES:
        tolerance = next((x for dtype, x in LOOSE.items() if dtype in name), 1e-4)
        yield Case("modules", name, functools.partial(module_case, name=name), tolerance)
    yield Case("modules", "in a parent", in_parent, 1e-4)
    yield Case("modules", "given key", given_key, 1e-4)
    yield Case("modules", "sown", sown, 1e-4)
    yield Case("decoding", "plain", lambda lib: decoded(lib, (2, 4, 6)), 1e-4)
    yield Case("decoding", "no batch axes", lambda lib: decoded(lib, (4, 6)), 1e-4)
    yield Case("decoding", "several", lambda lib: decoded(lib, (2, 1, 4, 6)), 1e-4)
    yield Case(
        "decoding", "normalized", lambda lib: decoded(lib, (2, 4, 6), normalize_qk=True), 1e-4
    )
    for name, of_linen in FUNCTIONS.items():
        yield Case("functions", name, lambda lib, run=of_linen: run(lib.linen))
    for broadcast in (True, False):
        yield Case(
            "functions",
            f"dropped {broadcast}",
            functools.partial(dropped, broadcast=broadcast),
        )
    for name, refused in REFUSED.items():
        yield Case("refused", name, lambda lib, run=refused: run(lib, lib.linen))


TOPIC = Topic("linen_attention", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_flax(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)
