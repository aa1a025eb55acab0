"""Time two checkouts of kiln against each other: `python -m benchmarks.against TREE [NAME ...]`.

TREE is another checkout with its own environment (`git worktree add TREE COMMIT`, then
`make .venv-3.11/.has-bench` there; `.venv` before there was one for each version of Python). Each
checkout runs its own benchmarks in its own process; the two take turns within every round and
change places from round to round, as the columns of a table do.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import calls, dispatch, eager, first_calls, fresh, modules, selu, trace_compile
from benchmarks.harness import Case, load

BENCHMARKS = {
    "calls": calls,
    "dispatch": dispatch,
    "eager": eager,
    "first_calls": first_calls,
    "fresh": fresh,
    "modules": modules,
    "selu": selu,
    "trace_compile": trace_compile,
}
HERE = Path(__file__).resolve().parent.parent


def serve(names: list[str]) -> None:
    """Answer on standard output: the names of the cases, then a time for each number asked for."""
    library = load("kiln")
    cases: list[tuple[str, Case]] = []
    for name in names:
        cases += [(f"{name}: {case.name}", case) for case in BENCHMARKS[name].cases([library])]
    answer([name for name, _ in cases])
    for line in sys.stdin:
        sample = cases[int(line)][1].samplers["kiln"]
        gc.collect()
        gc.disable()
        seconds = sample()
        gc.enable()
        answer(seconds)


def answer(value: Any) -> None:
    """Write a line that the asking process reads."""
    print(json.dumps(value), flush=True)


def python_of(tree: Path) -> Path:
    """Return the interpreter of a checkout's environment, of this Python if there is one."""
    own = tree / f".venv-{sys.version_info[0]}.{sys.version_info[1]}"
    return (own if own.exists() else tree / ".venv") / "bin" / "python"


class Checkout:
    """A process that runs the benchmarks of one checkout."""

    def __init__(self, tree: Path, names: list[str]) -> None:
        # The script runs by its path here, on the packages of the checkout: one that is older than
        # the script has none.
        program = f"import runpy, sys; sys.argv = {['against', '--serve', *names]!r}; "
        program += f"sys.path.insert(0, {str(tree)!r}); "
        program += f"runpy.run_path({str(Path(__file__).resolve())!r}, run_name='__main__')"
        self.process = subprocess.Popen(
            [str(python_of(tree)), "-c", program],
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cases: list[str] = self.read()

    def read(self) -> Any:
        """Return the next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the benchmarks of {self.process.args!r} ended early")
        return json.loads(line)

    def sample(self, case: str) -> float:
        """Run a case once; return seconds per piece of work."""
        assert self.process.stdin is not None
        print(self.cases.index(case), file=self.process.stdin, flush=True)
        return float(self.read())


def main() -> None:
    """Measure this checkout against another one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("tree", type=Path, help="the other checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    arguments = parser.parse_args()
    names = arguments.names or list(BENCHMARKS)
    sides = [Checkout(HERE, names), Checkout(arguments.tree.resolve(), names)]
    width = max(map(len, sides[0].cases))
    print(f"{'':{width}}  here: median (min)    there: median (min)   medians  minima")
    for case in sides[0].cases:
        if case not in sides[1].cases or arguments.only not in case:
            continue
        times: list[list[float]] = [[], []]
        for number in range(-1, arguments.rounds):
            order = (0, 1) if number % 2 else (1, 0)
            for side in order:
                seconds = sides[side].sample(case)
                if number >= 0:
                    times[side].append(seconds * 1e6)
        (here, least), (there, least_there) = [(statistics.median(t), min(t)) for t in times]
        print(
            f"{case:{width}}  {here:8.3f} ({least:8.3f})  {there:8.3f} ({least_there:8.3f}) us"
            f"  {here / there:7.3f} {least / least_there:7.3f}",
            flush=True,
        )
    for side in sides:
        side.process.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
    else:
        main()
