"""No public function takes a parameter and forgets it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.structure.source_tree import KILN

WITHOUT_EFFECT = {
    "api/inspection.py host_count backend": "all platforms belong to the one process",
    "api/inspection.py host_id backend": "all platforms belong to the one process",
    "api/sharding/per_device.py pmap global_arg_shapes": "JAX ignores it too",
    "api_util.py flatten_axes kws": "arguments are a structure like any other",
    "api_util.py flatten_axes tupled_args": "arguments are a structure like any other",
    "control/references/refs.py new_ref kind": "what is kept for a derivative, kiln decides",
    "control/loops/loops.py scan _split_transpose": "a hint to the compiler",
    "distributed.py initialize local_device_ids": "it chooses among GPUs",
    "experimental/mesh_utils.py create_device_mesh allow_split_physical_axes": "for TPUs",
    "experimental/mesh_utils.py create_device_mesh contiguous_submeshes": "for TPUs",
    "experimental/pallas/call.py pallas_call compiler_params": "for other compilers",
    "experimental/pallas/call.py pallas_call cost_estimate": "for other compilers",
    "experimental/pallas/call.py pallas_call metadata": "for other compilers",
    "experimental/pallas/kernels.py dot allow_tf32": "products are as precise as asked for",
    "experimental/pallas/kernels.py multiple_of values": "a hint to other compilers",
    "experimental/pallas/kernels.py reciprocal full_range": "all of the range is computed",
    "experimental/pallas/triton.py load cache_modifier": "a hint to other compilers",
    "experimental/pallas/triton.py load eviction_policy": "a hint to other compilers",
    "experimental/pallas/triton.py load volatile": "a hint to other compilers",
    "experimental/pallas/triton.py store eviction_policy": "a hint to other compilers",
    "extend/core/inspection.py gensym suffix": "variables have no names",
    "extend/core/inspection.py mapped_aval size": "the axis has it",
    "extend/core/inspection.py new_jaxpr_eqn ctx": "equations have no context",
    "extend/core/inspection.py unmapped_aval explicit_mesh_axis": "types say nothing of meshes",
    "extend/core/tracing.py find_top_trace xs": "the active trace is the top one",
    "extend/core/tracing.py get_opaque_trace_state convention": "there is one convention",
    "extend/core/tracing.py set_current_trace check_leaks": "leaks are checked where traces end",
    "extend/linear_util.py transformation_with_aux2 use_eq_store": "a store is written once",
    "extend/source_info_util.py register_exclusion path": "frames of users are never hidden",
    "extend/source_info_util.py summarize num_frames": "a source is one line",
    "interpreters/batching.py bdim_at_front mesh_axis": "types say nothing of meshes",
    "interpreters/batching.py broadcast mesh_axis": "types say nothing of meshes",
    "interpreters/mlir.py emit_python_callback ctx": "the call is traced like others",
    "interpreters/mlir.py emit_python_callback operand_avals": "the operands have their types",
    "interpreters/mlir.py emit_python_callback partitioned": "the engines place callbacks",
    "interpreters/mlir.py emit_python_callback returns_token": "a token comes back as it went in",
    "interpreters/mlir.py emit_python_callback sharding": "the engines place callbacks",
    "interpreters/mlir.py register_lowering cacheable": "a lowering is traced for each program",
    "interpreters/mlir.py register_lowering inline": "a hint to the compiler",
    "interpreters/partial_eval.py trace_to_jaxpr_dynamic lower": "kiln has one kind of types",
    "lax/condensed.py schur select_callable": "JAX does not use it either",
    "lax/factors.py qdwh eps": "the decomposition is not iterative",
    "lax/factors.py qdwh is_hermitian": "a property that helps nobody here",
    "lax/factors.py qdwh max_iterations": "the decomposition is not iterative",
    "lax/staged.py composite version": "programs name a call, without a version",
    "lax/selection.py approx_max_k recall_target": "allows to miss elements; none is missed",
    "lax/selection.py approx_min_k recall_target": "allows to miss elements; none is missed",
    "lax/selection.py approx_max_k reduction_input_size_override": "counts allowed misses",
    "lax/selection.py approx_min_k reduction_input_size_override": "counts allowed misses",
    "linen/fp8_ops.py out_qdq amax_history": "the derivative reads it",
    "linen/fp8_ops.py out_qdq compute_dtype": "the derivative reads it",
    "linen/fp8_ops.py out_qdq q_dtype": "the derivative reads it",
    "linen/fp8_ops.py out_qdq scale": "the derivative reads it",
    "linen/transforms/shape_preserving.py named_call force": "operations have no modules' names",
    "nn/initializers.py zeros key": "initializers have one signature",
    "nn/initializers.py ones key": "initializers have one signature",
    "numpy/creation/arrays.py copy order": "arrays have one memory order",
    "numpy/histograms.py histogram_bin_edges weights": "edges do not depend on weights",
    "numpy/shapes.py reshape copy": "arrays are immutable: nobody sees a copy",
    "numpy/polynomials.py polyval unroll": "a hint to the compiler",
    "numpy/search.py digitize method": "a hint to the compiler",
    "numpy/sets/distinct.py unique sorted": "the result is always sorted",
    "numpy/sets/combinations.py isin assume_unique": "promises a property that helps nobody here",
    "scipy/cluster/vq.py vq check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py cho_factor check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py cho_factor overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py cholesky check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py cholesky overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py eigh check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py eigh overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py eigh overwrite_b": "arrays are immutable",
    "scipy/linalg/factorizations.py eigh turbo": "chooses a routine of LAPACK",
    "scipy/linalg/factorizations.py eigh_tridiagonal key": "the matrix is diagonalized whole",
    "scipy/linalg/factorizations.py eigh_tridiagonal tol": "the matrix is diagonalized whole",
    "scipy/linalg/factorizations.py hessenberg check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py hessenberg overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py lu check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py lu overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py lu_factor check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py lu_factor overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py polar eps": "there are no iterations",
    "scipy/linalg/factorizations.py polar max_iterations": "there are no iterations",
    "scipy/linalg/factorizations.py qr check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py qr lwork": "a size of LAPACK's own memory",
    "scipy/linalg/factorizations.py qr overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py qr_multiply overwrite_a": "arrays are immutable",
    "scipy/linalg/factorizations.py qr_multiply overwrite_c": "arrays are immutable",
    "scipy/linalg/factorizations.py svd check_finite": "values are not known while tracing",
    "scipy/linalg/factorizations.py svd lapack_driver": "chooses a routine of LAPACK",
    "scipy/linalg/factorizations.py svd overwrite_a": "arrays are immutable",
    "scipy/linalg/functions.py rsf2csf check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py cho_solve check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py cho_solve overwrite_b": "arrays are immutable",
    "scipy/linalg/systems.py det check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py det overwrite_a": "arrays are immutable",
    "scipy/linalg/systems.py inv check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py inv overwrite_a": "arrays are immutable",
    "scipy/linalg/systems.py lu_solve check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py lu_solve overwrite_b": "arrays are immutable",
    "scipy/linalg/systems.py solve check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py solve debug": "SciPy's own, without effect there too",
    "scipy/linalg/systems.py solve overwrite_a": "arrays are immutable",
    "scipy/linalg/systems.py solve overwrite_b": "arrays are immutable",
    "scipy/linalg/systems.py solve_triangular check_finite": "values are not known while tracing",
    "scipy/linalg/systems.py solve_triangular debug": "SciPy's own, without effect there too",
    "scipy/linalg/systems.py solve_triangular overwrite_b": "arrays are immutable",
    "ops/elements/families.py to_bool dtype": "members of a family have one signature",
    "ops/linear/spectral.py eig use_magma": "chooses a library that only graphics cards have",
    "profiler.py device_memory_profile backend": "refused",
    "profiler.py save_device_memory_profile backend": "refused",
    "profiler.py save_device_memory_profile filename": "refused",
    "profiler.py start_server port": "refused",
    "profiler.py start_trace create_perfetto_trace": "every trace is one",
    "api/arrays.py device_put src": "arrays know where they are",
    "profiler.py start_trace profiler_options": "annotations are recorded at all levels",
    "engines/xla/lowerings/elements/elementwise.py identity b": "lowerings have one signature",
    "engines/xla/lowerings/elements/elementwise.py identity out": "lowerings have one signature",
}


def _public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            if not any("overload" in ast.unparse(d) for d in node.decorator_list):
                yield node


def _forgotten(node: ast.FunctionDef) -> Iterator[str]:
    used = {x.id for part in node.body for x in ast.walk(part) if isinstance(x, ast.Name)}
    args = node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        if arg.arg not in used and "locals" not in used:
            yield arg.arg


def forgotten(path: Path, source: str) -> list[str]:
    """Return `file function parameter` of each parameter that its function never reads."""
    return [
        f"{path} {node.name} {name}"
        for node in _public_functions(ast.parse(source))
        for name in _forgotten(node)
    ]


def test_every_parameter_is_read() -> None:
    found = {
        line
        for path in KILN.rglob("*.py")
        for line in forgotten(path.relative_to(KILN), path.read_text(encoding="utf-8"))
    }
    assert found == set(WITHOUT_EFFECT)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x, y): return x", ["a.py f y"]),
        ("def f(x, *, y): return [y for _ in x]", []),
        ("def _f(x): return 1", []),
    ],
)
def test_the_check_sees(source: str, expected: list[str]) -> None:
    assert forgotten(Path("a.py"), source) == expected
