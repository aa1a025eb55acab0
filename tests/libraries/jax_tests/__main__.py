"""Run the tests of a checkout of JAX's release 0.10.2 on kiln, and say what fails and why.

python -m tests.libraries.jax_tests SOURCE [FILE ...] [--at-most 30] [--ask-jax] [--report FOLDER]

`--ask-jax` first runs them on the installed jax and stores which pass (`--only-jax`: and no more);
without it, the tests run that passed then. The report has a table of the files and a list of
reasons.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tests.libraries.jax_tests.report import Report
from tests.libraries.jax_tests.running import Limits, run_file

STORED = Path(__file__).with_name("passing.json")
"""The tests that pass on jax, by file, and of how many."""

NOT_FOR_CPUS = frozenset(
    f"{name}_test.py"
    for name in (
        "absl_cpp_logging",
        "blocked_sampler",
        "clear_backends",
        "colocated_python",
        "cudnn_fusion",
        "distributed",
        "distributed_initialize",
        "export_back_compat",
        "fused_attention_stablehlo",
        "gpu_memory_flags",
        "hardware_utils",
        "heap_profiler",
        "jax_jit",
        "jax_to_ir",
        "lax_scipy_spectral_dac",
        "local_wheel_smoke",
        "magma_linalg",
        "mesh_utils",
        "mock_gpu",
        "mock_gpu_topology",
        "mosaic",
        "multiprocess_gpu",
        "pgle",
        "pytorch_interoperability",
        "ragged_collective",
        "scaled_matmul_stablehlo",
        "scheduling_groups",
        "source_mapper",
        "sourcemap",
        "stack",
        "unary_ops_accuracy",
        "xla_bridge",
        "xla_interpreter",
        "xla_metadata",
        "xla_transform",
    )
)
"""Files that need a GPU or a TPU, or steer XLA's compiler or look into its bindings."""

PALLAS = tuple(
    f"pallas/{name}_test.py"
    for name in (
        "indexing",
        "ops",
        "pallas",
        "pallas_cost_estimate",
        "pallas_vmap",
    )
)
"""Files about kernels of which a part is interpreted on CPUs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises: SystemExit if jax was never asked about a file.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path, help="a checkout of jax")
    parser.add_argument("files", nargs="*", help="names below tests; all if none is given")
    parser.add_argument("--at-most", type=int, default=0, help="tests of a file (0: all)")
    parser.add_argument("--ask-jax", action="store_true", help="store which pass on jax")
    parser.add_argument("--only-jax", action="store_true", help="do not run them on kiln")
    parser.add_argument("--report", type=Path, default=Path("build/jax-tests"))
    parser.add_argument("--test-s", type=float, default=Limits.test_s)
    options = parser.parse_args(arguments)
    folder = options.source / "tests"
    names = options.files or [
        path.name for path in sorted(folder.glob("*_test.py")) if path.name not in NOT_FOR_CPUS
    ] + [*PALLAS]
    limits = Limits(test_s=options.test_s)
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    report = Report(options.report)
    for name in names:
        if options.ask_jax or options.only_jax:
            stored[name] = _asked(options.source, name, limits, options.at_most)
            STORED.write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        if options.only_jax:
            continue
        if name not in stored:
            raise SystemExit(f"jax was never asked about {name}: use --ask-jax")
        report.add(
            name,
            stored[name],
            run_file(options.source, name, "kiln", limits, only=stored[name]["passed"]),
        )


def _asked(source: Path, name: str, limits: Limits, at_most: int) -> dict[str, object]:
    found = run_file(source, name, "jax", limits, at_most=at_most)
    print(f"{name}: {len(found.passed())} of {len(found.chosen)} pass on jax", flush=True)
    return {
        "collected": found.collected,
        "chosen": len(found.chosen),
        "passed": sorted(found.passed()),
    }


if __name__ == "__main__":
    main()
