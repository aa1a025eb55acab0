"""Run benchmarks, print their tables and write the results: `python -m benchmarks --help`.

`--libraries again=jax,jax` puts one library in both columns, which shows the noise.
"""

from __future__ import annotations

import argparse

from benchmarks import (
    calls,
    code_generators,
    dispatch,
    eager,
    first_calls,
    fresh,
    harness,
    kernels,
    long_programs,
    modules,
    report,
    selu,
    startup,
    trace_compile,
    xla,
)

BENCHMARKS = {
    "calls": calls,
    "code_generators": code_generators,
    "dispatch": dispatch,
    "eager": eager,
    "first_calls": first_calls,
    "fresh": fresh,
    "kernels": kernels,
    "long_programs": long_programs,
    "modules": modules,
    "selu": selu,
    "trace_compile": trace_compile,
    "startup": startup,
    "xla": xla,
}


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--libraries", default="kiln,jax", help="columns, in this order")
    parser.add_argument("--rounds", type=int, help="at most this many rounds per case")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--dry-run", action="store_true", help="print, but write no results")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")

    libraries = [harness.load(name) for name in arguments.libraries.split(",")]
    groups = {}
    for name in arguments.names or BENCHMARKS:
        rows = []
        for case in BENCHMARKS[name].cases(libraries):
            if arguments.only not in case.name:
                continue
            rows.append(harness.measure(case, at_most=arguments.rounds))
            print(".", end="", flush=True)
        groups[name] = rows
        result = report.to_json({name: rows})
        print(f"\n{name}\n{report.table(result['benchmarks'][name])}\n", flush=True)
    if not arguments.dry_run and not arguments.only and not arguments.rounds:
        report.write(groups)
        print(f"written: {report.LATEST_JSON}, {report.LATEST_TABLE}")


if __name__ == "__main__":
    main()
