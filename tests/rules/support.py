"""Which cases an engine compiles; `python -m tests.rules.support native` counts the reasons."""

from __future__ import annotations

import os

# Cases of several devices find eight.
os.environ.setdefault("KILN_NUM_CPU_DEVICES", "8")

import collections
import sys

from kiln.core.engines.engine import Program, engine
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn


def unsupported(case: Case, name: str) -> str | None:
    """Return why an engine does not compile a case; None if it does."""
    compiler = engine(name).compiler
    jaxpr = stage_pure(lambda *xs: applied(case, xs), [aval_of(x) for x in drawn(case)])
    return compiler.unsupported(Program(jaxpr, case.primitive.name))


def main() -> None:
    """Print how many cases an engine compiles, and why not the others, by number of cases."""
    counts: collections.Counter[str | None] = collections.Counter()
    for case in CASES:
        counts[unsupported(case, sys.argv[1])] += 1
    print(f"{counts.pop(None, 0)} of {len(CASES)} cases are compiled")
    for reason, count in counts.most_common():
        print(f"{count:5} {reason}")


if __name__ == "__main__":
    main()
