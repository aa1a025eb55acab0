"""What the generic checks leave out on purpose: (primitive, rule) -> the reason.

The rules: case, numpy, infer, named, jvp, transpose, batch, second order, engines, expand.
"""

from __future__ import annotations

RULES = (
    "case",
    "numpy",
    "infer",
    "named",
    "jvp",
    "transpose",
    "batch",
    "second order",
    "engines",
    "expand",
)

KNOWN_GAPS: dict[tuple[str, str], str] = {
    ("argmax", "jvp"): "the result is an integer, whose tangent is nothing",
    ("argmin", "jvp"): "the result is an integer, whose tangent is nothing",
    ("bitcast_convert_type", "jvp"): "reinterpreted bits have no derivative: the tangent is zero",
    ("stop_gradient", "jvp"): "the tangent is zero by definition, which no difference shows",
    ("random_gamma_grad", "jvp"): "its own derivatives are refused by an error",
    ("igamma", "second order"): "the second derivative by a is refused by an error",
    ("igammac", "second order"): "the second derivative by a is refused by an error",
    ("custom_jvp_function", "case"): "recorded, and so checked, as custom_jvp_call",
    ("custom_jvp_function", "batch"): "mapped by its bind, under the very trace",
    ("custom_jvp_function", "engines"): "recorded, and so lowered, as custom_jvp_call",
    ("custom_vjp_function", "case"): "recorded, and so checked, as custom_vjp_call",
    ("custom_vjp_function", "batch"): "mapped by its bind, under the very trace",
    ("custom_vjp_function", "engines"): "recorded, and so lowered, as custom_vjp_call",
    ("custom_vjp_call", "jvp"): "has reverse derivatives only: test_custom_vjp.py",
    ("custom_lin", "case"): "can only be transposed: test_custom_vjp.py",
    **{
        ("call_exported", rule): "holds a stored program: tests/rules/test_exported.py"
        for rule in ("case", "numpy", "engines")
    },
    ("call_exported", "jvp"): "has the derivative stored beside it: tests/unit/export",
    **{
        ("ffi_call", rule): "is known to XLA alone: test_foreign_call.py"
        for rule in ("case", "numpy", "engines")
    },
    ("ffi_call", "jvp"): "its jvp raises an error: test_foreign_call.py",
    ("while", "transpose"): "reverse mode is refused by an error: test_while_loop.py",
    ("while", "second order"): "reverse mode is refused by an error: test_while_loop.py",
    ("debug_callback", "case"): "has no results to compare: test_callback.py",
    ("held", "batch"): "has no operands, so that nothing of it is mapped",
    ("held", "case"): "has no operands, and no results: test_high_arguments.py",
    ("hi_call", "case"): "computes what another library says: test_hi_primitive.py",
    ("call_hi_primitive", "case"): "computes what another library says: test_hi_rules.py",
    ("check", "case"): "has no results to compare: test_check.py, test_checkify.py",
    ("io_callback", "jvp"): "its jvp raises an error: test_callback.py",
    ("pure_callback", "jvp"): "its jvp raises an error: test_callback.py",
    ("rng_bit_generator", "batch"): "as in jax, the first state draws for all: test_generators.py",
    ("rng_uniform", "engines"): "each draw is another one: test_generators.py",
    ("rng_uniform", "batch"): "mapped bounds are refused by an error: test_generators.py",
    **{
        (name, rule): "has a meaning under vmap and shard_map only: test_collective.py"
        for name in (
            "all_gather",
            "all_gather_invariant",
            "all_to_all",
            "axis_index",
            "pmax",
            "pmin",
            "ppermute",
            "psum",
            "pvary",
            "reduce_scatter",
        )
        for rule in ("case", "engines")
    },
    **{
        (name, rule): "acts on references, which no engine meets: test_discharge.py"
        for name in ("addupdate", "freeze", "get", "new_ref", "swap")
        for rule in ("case", "numpy", "engines")
    },
    ("freeze", "batch"): "a reference inside a map is a value: test_discharge.py",
    ("new_ref", "batch"): "a reference inside a map is a value: test_discharge.py",
}
