"""Attention: every position takes an average of the others' values, weighted by similarity.

`kiln.nn.dot_product_attention` is the same average for four axes without dropout; it computes the
logits in 32 bits and may group heads. The functions here scale the queries and keep the dtype of
their operands, as linen's layers do, and let the two products be replaced.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.lax import dynamic_update_slice
from kiln.linen.dtypes import promote_dtype
from kiln.linen.linear.dense import DenseGeneral, default_kernel_init
from kiln.linen.module import Module
from kiln.linen.module.methods import compact
from kiln.linen.module.refusal import refused
from kiln.linen.normalization.normalization import LayerNorm
from kiln.linen.scopes.variables import merge_param
from kiln.nn import initializers
from kiln.nn.normalization import softmax
from kiln.random import bernoulli


def dot_product_attention_weights(
    query: Any,
    key: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Module | None = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., Any] | None = None,
    einsum: Callable[..., Any] | None = None,
) -> Any:
    """Return softmax(query · key / √d + bias), where `mask` holds; `module` sows it.

    Dropout draws one mask for all batches and heads, or one for each if not `broadcast_dropout`.

    Shapes: (batch..., T, heads, d), (batch..., S, heads, d) -> (batch..., heads, T, S);
        bias and mask broadcast to the latter
    Raises: ValueError for incompatible shapes, for `einsum` together with `precision` or
        `einsum_dot_general`, and for dropout without a key.
    """
    product = _product(einsum, precision, einsum_dot_general)
    query, key = promote_dtype(query, key, dtype=dtype)
    _check(module, query=query, key=key)
    dtype = query.dtype
    query = query / jnp.sqrt(query.shape[-1]).astype(dtype)
    weights = product("...qhd,...khd->...hqk", query, key)
    if bias is not None:
        weights = weights + bias
    if mask is not None:
        weights = jnp.where(mask, weights, jnp.finfo(dtype).min)
    if force_fp32_for_softmax and dtype != jnp.float32:
        weights = softmax(weights.astype(jnp.float32))
    else:
        weights = softmax(weights).astype(dtype)
    if module is not None:
        module.sow("intermediates", "attention_weights", weights)
    if deterministic or dropout_rate == 0.0:
        return weights
    if dropout_rng is None:
        raise _refused(
            module,
            f"attention with dropout_rate={dropout_rate}",
            "dropout needs a random key, and dropout_rng is None",
            "pass dropout_rng=key, or deterministic=True",
        )
    shape = weights.shape
    if broadcast_dropout:
        shape = (1,) * (key.ndim - 2) + shape[-2:]
    kept = 1.0 - dropout_rate
    return weights * (bernoulli(dropout_rng, kept, shape).astype(dtype) / jnp.asarray(kept, dtype))


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Module | None = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., Any] | None = None,
    qk_attn_weights_einsum: Callable[..., Any] | None = None,
    attn_weights_value_einsum: Callable[..., Any] | None = None,
) -> Any:
    """Return averages of values, weighted by `dot_product_attention_weights`.

    Shapes: (batch..., T, heads, d), (batch..., S, heads, d), (batch..., S, heads, e)
        -> (batch..., T, heads, e)
    Raises: ValueError as `dot_product_attention_weights`, and for one `einsum` without the other.
    Example:
        >>> x = jnp.ones((1, 5, 2, 8))  # batch, sequence, heads, features
        >>> linen.dot_product_attention(x, x, x).shape
        (1, 5, 2, 8)
    """
    if (qk_attn_weights_einsum is None) != (attn_weights_value_einsum is None):
        raise _refused(
            module,
            "attention with one user-defined einsum",
            "qk_attn_weights_einsum and attn_weights_value_einsum must be specified together",
            "pass both, or neither",
        )
    product = _product(attn_weights_value_einsum, precision, einsum_dot_general)
    query, key, value = promote_dtype(query, key, value, dtype=dtype)
    _check(module, query=query, key=key, value=value)
    weights = dot_product_attention_weights(
        query,
        key,
        bias,
        mask,
        broadcast_dropout,
        dropout_rng,
        dropout_rate,
        deterministic,
        query.dtype,
        precision,
        module,
        force_fp32_for_softmax,
        einsum_dot_general,
        qk_attn_weights_einsum,
    )
    return product("...hqk,...khd->...qhd", weights, value)


def _product(einsum: Any, precision: Any, dot_general: Any) -> Callable[..., Any]:
    if einsum is None:
        return functools.partial(jnp.einsum, precision=precision, _dot_general=dot_general)
    if precision is not None or dot_general is not None:
        raise _refused(
            None,
            f"attention with an einsum, precision={precision}, einsum_dot_general={dot_general}",
            "precision/einsum_dot_general and einsum are mutually exclusive",
            "let the einsum choose its precision",
        )
    return einsum  # type: ignore[no-any-return]


def _check(module: Module | None, **operands: Any) -> None:
    """Reject operands whose batch, heads or lengths differ, `query` being the first."""
    shapes = {name: tuple(x.shape) for name, x in operands.items()}
    asked = "attention of " + ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    query, key, value = shapes["query"], shapes["key"], shapes.get("value", shapes["key"])
    wrong = ""
    if not len(query) == len(key) == len(value) >= 3:
        wrong = "they must have the same rank, three or more"
    elif not query[:-3] == key[:-3] == value[:-3]:
        wrong = "their batch dims must match"
    elif not query[-2] == key[-2] == value[-2]:
        wrong = "their num_heads must match"
    elif query[-1] != key[-1]:
        wrong = "the depths of query and key must match"
    elif key[-3] != value[-3]:
        wrong = "the lengths of key and value must match"
    if wrong:
        remedy = "give query (batch..., T, heads, d), key and value (batch..., S, heads, d)"
        raise _refused(module, asked, wrong, remedy)


def _refused(module: Module | None, asked: str, wrong: str, remedy: str) -> Exception:
    if module is not None:
        return refused(module, asked, wrong, remedy)
    return ValueError(three_lines(f"{asked} at {current_source()}", wrong, remedy))


class MultiHeadDotProductAttention(Module):
    """Attention by several heads, each over its own projection of the inputs.

    The projections are the parameters `query`, `key` and `value`; the results of the heads are
    projected together by `out`.

    With `decode`, the input is one position at a time: keys and values of the earlier ones are kept
    in the collection `cache`, whose sizes are those of the inputs at initialization.

    Source: Vaswani et al. (2017), Attention is all you need; normalize_qk: Dehghani et al. (2023),
        Scaling vision transformers to 22 billion parameters
    Example:
        >>> layer = linen.MultiHeadDotProductAttention(num_heads=2, qkv_features=8)
        >>> queries, keys = jnp.ones((1, 5, 6)), jnp.ones((1, 7, 6))
        >>> layer.init_with_output(random.key(0), queries, keys)[0].shape
        (1, 5, 6)
    """

    num_heads: int
    dtype: Any = None
    param_dtype: Any = jnp.float32
    qkv_features: int | None = None
    out_features: int | None = None
    broadcast_dropout: bool = True
    dropout_rate: float = 0.0
    deterministic: bool | None = None
    precision: Any = None
    kernel_init: Callable[..., Any] = default_kernel_init
    out_kernel_init: Callable[..., Any] | None = None
    bias_init: Callable[..., Any] = initializers.zeros
    out_bias_init: Callable[..., Any] | None = None
    use_bias: bool = True
    attention_fn: Callable[..., Any] = dot_product_attention
    decode: bool = False
    normalize_qk: bool = False
    force_fp32_for_softmax: bool = False
    qkv_dot_general: Callable[..., Any] | None = None
    out_dot_general: Callable[..., Any] | None = None
    qkv_dot_general_cls: Any = None
    out_dot_general_cls: Any = None
    qk_attn_weights_einsum_cls: Callable[..., Callable[..., Any]] | None = None
    attn_weights_value_einsum_cls: Callable[..., Callable[..., Any]] | None = None

    @compact
    def __call__(
        self,
        inputs_q: Any,
        inputs_k: Any = None,
        inputs_v: Any = None,
        *,
        inputs_kv: Any = None,
        mask: Any = None,
        deterministic: bool | None = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> Any:
        """Attend from `inputs_q` to `inputs_k`, by default itself, with values `inputs_v`.

        `inputs_v` is by default `inputs_k`; `inputs_kv` gives both. If `sow_weights`, the weights
        are stored in the collection `intermediates`.

        Shapes: (batch..., T, features), (batch..., S, features) twice
            -> (batch..., T, out_features); mask (batch..., heads | 1, T | 1, S | 1)
        Raises: ValueError if the number of heads does not divide the features, for values without
            keys, and for several positions when decoding.
        """
        inputs_k, inputs_v = _sources(self, inputs_q, inputs_k, inputs_v, inputs_kv)
        query, key, value = _projected(self, inputs_q, inputs_k, inputs_v)
        if self.decode:
            key, value, mask = _remembered(self, query, key, value, mask)
        if self.dropout_rate > 0.0:
            deterministic = merge_param("deterministic", self.deterministic, deterministic)
            if not deterministic and dropout_rng is None:
                dropout_rng = self.make_rng("dropout")
        else:
            deterministic = True
        options = _known_options(self, mask, deterministic, dropout_rng, sow_weights)
        x = self.attention_fn(query, key, value, **options)
        return DenseGeneral(
            features=self.out_features or inputs_q.shape[-1],
            axis=(-2, -1),
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
            kernel_init=self.out_kernel_init or self.kernel_init,
            bias_init=self.out_bias_init or self.bias_init,
            precision=self.precision,
            dot_general=self.out_dot_general,
            dot_general_cls=self.out_dot_general_cls,
            name="out",
        )(x)


def _projected(module: Any, inputs_q: Any, inputs_k: Any, inputs_v: Any) -> tuple[Any, Any, Any]:
    """Return query, key and value: (batch..., T, heads, features / heads), and so for S."""
    features = module.qkv_features or inputs_q.shape[-1]
    if features % module.num_heads:
        raise _refused(
            module,
            f"{features} features for {module.num_heads} heads",
            f"Memory dimension ({features}) must be divisible by number of heads "
            f"({module.num_heads})",
            "choose qkv_features as a multiple of num_heads",
        )
    project = functools.partial(
        DenseGeneral,
        features=(module.num_heads, features // module.num_heads),
        axis=-1,
        use_bias=module.use_bias,
        dtype=module.dtype,
        param_dtype=module.param_dtype,
        kernel_init=module.kernel_init,
        bias_init=module.bias_init,
        precision=module.precision,
        dot_general=module.qkv_dot_general,
        dot_general_cls=module.qkv_dot_general_cls,
    )
    query = project(name="query")(inputs_q)
    key = project(name="key")(inputs_k)
    value = project(name="value")(inputs_v)
    if module.normalize_qk:
        normalize = functools.partial(
            LayerNorm, use_bias=False, dtype=module.dtype, param_dtype=module.param_dtype
        )
        query = normalize(name="query_ln")(query)
        key = normalize(name="key_ln")(key)
    return query, key, value


def _known_options(
    module: Any, mask: Any, deterministic: Any, dropout_rng: Any, sow_weights: bool
) -> dict[str, Any]:
    """Return the options that the attention function accepts: a user function may not have all."""
    options = {
        "mask": mask,
        "dropout_rng": dropout_rng,
        "dropout_rate": module.dropout_rate,
        "broadcast_dropout": module.broadcast_dropout,
        "deterministic": deterministic,
        "dtype": module.dtype,
        "precision": module.precision,
        "force_fp32_for_softmax": module.force_fp32_for_softmax,
        "qk_attn_weights_einsum": _made(module.qk_attn_weights_einsum_cls),
        "attn_weights_value_einsum": _made(module.attn_weights_value_einsum_cls),
    }
    known = inspect.signature(module.attention_fn).parameters
    options = {name: option for name, option in options.items() if name in known}
    if sow_weights:
        if "module" not in known:
            name = getattr(module.attention_fn, "__name__", "attention_fn")
            raise refused(
                module,
                "sow_weights=True",
                f"{name} does not take `module`, in which to sow",
                f"give {name} an argument module=None",
                TypeError,
            )
        options["module"] = module
    return options


def _made(factory: Any) -> Any:
    return None if factory is None else factory()


def _sources(module: Module, query: Any, key: Any, value: Any, both: Any) -> tuple[Any, Any]:
    """Return the inputs for keys and for values."""
    if both is not None:
        if key is not None or value is not None:
            raise _refused(
                module,
                "attention to inputs_kv beside inputs_k or inputs_v",
                "If either `inputs_k` or `inputs_v` is not None, `inputs_kv` must be None.",
                "leave inputs_kv out",
            )
        warnings.warn(
            "The inputs_kv arg will be deprecated soon. Use inputs_k and inputs_v instead.",
            DeprecationWarning,
            stacklevel=5,
        )
        return both, both
    if key is None:
        if value is not None:
            raise _refused(
                module,
                "attention to inputs_v",
                "`inputs_k` cannot be None if `inputs_v` is not None.",
                "pass inputs_k; values are keys where inputs_v is left out",
            )
        key = query
    elif value is not None and value.shape[-1] == value.shape[-2]:
        warnings.warn(
            "the function signature of MultiHeadDotProductAttention's `__call__` method has "
            "changed from inputs_q, inputs_kv, mask=None, deterministic=None to inputs_q, "
            "inputs_k, inputs_v, *, mask=None, deterministic=None. A square third argument may be "
            "meant as mask=",
            DeprecationWarning,
            stacklevel=5,
        )
    return key, key if value is None else value


def _remembered(
    module: Module, query: Any, key: Any, value: Any, mask: Any
) -> tuple[Any, Any, Any]:
    """Put one position's key and value into the cache; return all so far, and their mask."""
    begun = module.has_variable("cache", "cached_key")
    keys = module.variable("cache", "cached_key", jnp.zeros, key.shape, key.dtype)
    values = module.variable("cache", "cached_value", jnp.zeros, value.shape, value.dtype)
    index = module.variable("cache", "cache_index", lambda: jnp.array(0, jnp.int32))
    if not begun:
        return key, value, mask
    *batch, length, heads, depth = keys.value.shape
    if query.shape != (*batch, 1, heads, depth):
        raise _refused(
            module,
            f"decoding with queries {tuple(query.shape)}",
            f"Autoregressive cache shape error, expected query shape {(*batch, 1, heads, depth)} "
            f"instead got {tuple(query.shape)}",
            "pass one position at a time, or initialize the cache with inputs of the whole length",
        )
    here = index.value
    start = (0,) * len(batch) + (here, 0, 0)
    keys.value = dynamic_update_slice(keys.value, key, start)
    values.value = dynamic_update_slice(values.value, value, start)
    index.value = here + 1
    known = jnp.broadcast_to(jnp.arange(length) <= here, (*batch, 1, 1, length))
    return keys.value, values.value, combine_masks(mask, known)


class MultiHeadAttention(MultiHeadDotProductAttention):
    """`MultiHeadDotProductAttention` under another class name, and so other default names.

    Example:
        >>> layer = linen.MultiHeadAttention(num_heads=2, qkv_features=8)
        >>> layer.init_with_output(random.key(0), jnp.ones((1, 5, 6)))[0].shape
        (1, 5, 6)
    """


class SelfAttention(MultiHeadDotProductAttention):
    """`MultiHeadDotProductAttention` of a sequence to itself."""

    def __call__(  # type: ignore[override]
        self,
        inputs_q: Any,
        mask: Any = None,
        deterministic: bool | None = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> Any:
        """Attend from each position to all others.

        Shapes: (batch..., T, features) -> (batch..., T, out_features);
            mask (batch..., heads | 1, T | 1, T | 1)
        """
        return super().__call__(
            inputs_q,
            mask=mask,
            deterministic=deterministic,
            dropout_rng=dropout_rng,
            sow_weights=sow_weights,
        )


def make_attention_mask(
    query_input: Any,
    key_input: Any,
    pairwise_fn: Callable[..., Any] = jnp.multiply,
    extra_batch_dims: int = 0,
    dtype: Any = jnp.float32,
) -> Any:
    """Return `pairwise_fn` of each query and each key, with an axis for the heads.

    Shapes: (batch..., T), (batch..., S) -> (1..., batch..., 1, T, S), 1s by `extra_batch_dims`
    Example:
        >>> is_token = jnp.array([[1.0, 1.0, 0.0]])
        >>> linen.make_attention_mask(is_token, is_token)[0, 0]
        Array([[1., 1., 0.],
               [1., 1., 0.],
               [0., 0., 0.]], dtype=float32)
    """
    mask = pairwise_fn(jnp.expand_dims(query_input, -1), jnp.expand_dims(key_input, -2))
    mask = jnp.expand_dims(mask, -3)
    return jnp.expand_dims(mask, tuple(range(extra_batch_dims))).astype(dtype)


def make_causal_mask(x: Any, extra_batch_dims: int = 0, dtype: Any = jnp.float32) -> Any:
    """Return the mask that lets a position attend to itself and those before it.

    Shapes: (batch..., T) -> (1..., batch..., 1, T, T), 1s by `extra_batch_dims`
    Example:
        >>> linen.make_causal_mask(jnp.ones((1, 3)))[0, 0]
        Array([[1., 0., 0.],
               [1., 1., 0.],
               [1., 1., 1.]], dtype=float32)
    """
    places = jnp.broadcast_to(jnp.arange(x.shape[-1], dtype=jnp.int32), x.shape)
    return make_attention_mask(places, places, jnp.greater_equal, extra_batch_dims, dtype)


def combine_masks(*masks: Any, dtype: Any = jnp.float32) -> Any:
    """Return the conjunction of masks, ignoring Nones; None if all are None.

    Raises: ValueError for masks of different ranks.
    """
    given = [mask for mask in masks if mask is not None]
    if len({mask.ndim for mask in given}) > 1:
        raise _refused(
            None,
            "combine_masks of shapes " + ", ".join(str(tuple(mask.shape)) for mask in given),
            f"masks must have same rank: {tuple(mask.ndim for mask in given)}",
            "expand the axes of the smaller ones",
        )
    return functools.reduce(jnp.logical_and, given).astype(dtype) if given else None
