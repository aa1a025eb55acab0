"""Every public function of arrays has a row in the table of derivatives, or a reason for none."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import kiln
from tests.derivatives.table import ROWS

MODULES = ["numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "nn.initializers"]
MODULES += ["image", "ops", "random", "experimental.sparse", "experimental.sparse.linalg"]
WITHOUT = {
    "results are integers or booleans, or the operands are": """
numpy: all allclose any argmax argmin argpartition argsort argwhere array_equal array_equiv
numpy: bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or
numpy: bitwise_right_shift bitwise_xor count_nonzero digitize equal flatnonzero gcd greater
numpy: greater_equal invert isclose iscomplex isfinite isin isinf isnan isneginf isposinf isreal lcm
numpy: left_shift less less_equal lexsort logical_and logical_not logical_or logical_xor nanargmax
numpy: nanargmin nonzero not_equal packbits ravel_multi_index right_shift searchsorted signbit
numpy: unpackbits unravel_index
numpy.linalg: matrix_rank
lax: argmin bitwise_and bitwise_not bitwise_or bitwise_xor clz eq ge gt is_finite le lt mulhi ne
lax: population_count reduce_and reduce_or reduce_xor shift_left shift_right_arithmetic
lax: shift_right_logical
lax.linalg: lu_pivots_to_permutation
nn: one_hot
random: PRNGKey bernoulli binomial bits categorical clone fold_in geometric key key_data multinomial
random: poisson rademacher randint split wrap_key_data
""",
    "results depend on no number": """
numpy: arange bartlett blackman diag_indices diag_indices_from empty eye hamming hanning identity
numpy: indices ix_ kaiser mask_indices ones tri tril_indices tril_indices_from triu_indices
numpy: triu_indices_from zeros
numpy.fft: fftfreq rfftfreq
lax: broadcasted_iota empty iota rng_bit_generator rng_uniform
random: ball cauchy exponential laplace logistic maxwell normal orthogonal
experimental.sparse: empty eye random_bcoo
scipy.linalg: dft hadamard helmert hilbert invhilbert invpascal pascal
nn.initializers: constant delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform
nn.initializers: kaiming_normal kaiming_uniform lecun_normal lecun_uniform normal ones orthogonal
nn.initializers: truncated_normal uniform variance_scaling xavier_normal xavier_uniform zeros
""",
    "says something about types and shapes": """
numpy: broadcast_shapes can_cast einsum_path finfo iinfo iscomplexobj isdtype isrealobj isscalar
numpy: issubdtype iterable ndim promote_types result_type shape size
lax: broadcast_shapes conv_dimension_numbers conv_general_permutations conv_general_shape_tuple
lax: conv_shape_tuple conv_transpose_shape_tuple dtype padtype_to_pads reduce_window_shape_tuple
lax: shape_as_value
random: key_dtype key_impl
""",
    "reads or writes bytes": """
numpy: array_repr from_dlpack frombuffer fromfile fromiter fromstring load save savez
lax: bitcast_convert_type
""",
    "shapes of results depend on values": """
numpy: trim_zeros
""",
    "as many steps as an array says: forward derivatives only, and JAX has none": """
lax: scatter_apply
""",
    "steps until something converges: forward derivatives only, as JAX's": """
scipy.optimize: minimize
experimental.sparse.linalg: lobpcg_standard
""",
}


def public_modules() -> list[str]:
    """Return `MODULES` and those of scipy: its packages, and files that list their names."""
    root = Path(kiln.__file__).parent
    found = list(MODULES)
    for path in sorted((root / "scipy").rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if path.stem == "__init__" or hasattr(importlib.import_module(f"kiln.{name}"), "__all__"):
            found.append(name)
    return found


def public_functions(name: str) -> set[str]:
    """Return the functions of a module, under the names with which rows are about them."""
    module = importlib.import_module(f"kiln.{name}")
    names = getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")])
    return {f"{name}.{n}" for n in names if _is_function(getattr(module, n))}


def _is_function(value: Any) -> bool:
    is_ours = str(getattr(value, "__module__", "")).startswith("kiln")
    return callable(value) and not isinstance(value, type) and is_ours


def excepted() -> list[str]:
    """Return the functions without rows, as `MODULE.NAME`."""
    lines = [line.split() for text in WITHOUT.values() for line in text.strip().splitlines()]
    return [f"{module.rstrip(':')}.{name}" for module, *names in lines for name in names]


def complaints(functions: set[str], rows: set[str], exceptions: list[str]) -> list[str]:
    """Say which functions have neither row nor exception, and which have both."""
    return [
        *(f"{name} has no row" for name in sorted(functions - rows - set(exceptions))),
        *(f"{name} has a row and an exception" for name in sorted(rows & set(exceptions))),
        *(f"{name} is not a public function" for name in sorted(set(exceptions) - functions)),
        *(f"{name} is excepted twice" for name in exceptions if exceptions.count(name) > 1),
    ]


def test_every_public_function_has_a_row() -> None:
    functions = {f for module in public_modules() for f in public_functions(module)}
    assert complaints(functions, {row.name for row in ROWS}, excepted()) == []


def test_a_missing_row_is_found() -> None:
    found = complaints({"a.f", "a.g", "a.h"}, {"a.f", "a.h"}, ["a.h", "a.i", "a.i"])
    assert [line.split(" ", 1)[0] for line in found] == ["a.g", "a.h", "a.i", "a.i", "a.i"]
