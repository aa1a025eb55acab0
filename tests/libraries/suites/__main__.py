"""Run libraries' own tests on kiln, and say how many pass of those that pass on jax, and why not.

python -m tests.libraries.suites [LIBRARY ...] [--source FOLDER] [--ask-jax] [--at-most 80] ...

The tests of some libraries are installed with them; of others FOLDER has a copy, below the names
of the table. `--ask-jax` first runs a sample on the installed jax and stores which pass
(`--only-jax`: and no more); without it, the tests run that passed then. A library with less than
its goal makes the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.libraries.jax_tests.outcomes import Row
from tests.libraries.jax_tests.recording import file_of
from tests.libraries.jax_tests.report import Report
from tests.libraries.jax_tests.running import Limits, run
from tests.libraries.suites.sources import MissingSuiteError, SuiteFiles, located
from tests.libraries.suites.table import SUITES, Suite

STORED = Path(__file__).with_name("passing.json")
"""The tests that pass on jax, by suite, and of how many of each file."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises: SystemExit if a name is not in the table, or a library has less than its goal.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("libraries", nargs="*", help="names of the table; all if none is given")
    parser.add_argument("--source", type=Path, help="a folder with copies of libraries")
    parser.add_argument("--at-most", type=int, default=80, help="tests of a suite (0: all)")
    parser.add_argument("--files", type=int, default=0, help="files of a suite (0: all)")
    parser.add_argument("--ask-jax", action="store_true", help="store which pass on jax")
    parser.add_argument("--only-jax", action="store_true", help="do not run them on kiln")
    parser.add_argument("--report", type=Path, default=Path("build/libraries-suites"))
    parser.add_argument("--test-s", type=float, default=120.0)
    options = parser.parse_args(arguments)
    limits = Limits(test_s=options.test_s)
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    report = Report(options.report, "library")
    missed = []
    for suite in _named(options.libraries):
        try:
            place = located(suite, options.source, options.report / "converted")
        except MissingSuiteError as error:
            print(f"{suite.name}: not run: {error}", flush=True)
            continue
        if options.ask_jax or options.only_jax:
            sample = place.sampled(options.files)
            stored[suite.name] = _asked(sample, limits, options.at_most)
            STORED.write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        if options.only_jax:
            continue
        if suite.name not in stored:
            print(f"{suite.name}: not run: jax was never asked about it: use --ask-jax", flush=True)
            continue
        expected = stored[suite.name]["passed"]
        found = run(place.session("kiln", expected), limits, only=expected)
        row = report.add(suite.name, stored[suite.name], found)
        if not reaches(row, suite.goal):
            missed.append(f"{suite.name} (goal {suite.goal} %)")
    if missed:
        sys.exit(f"less than the goal: {', '.join(missed)}")


def reaches(row: Row, goal: int) -> bool:
    """Return whether `goal` of a hundred tests that pass on jax pass on kiln.

    Files count by how many tests they have, however many of them are in the sample.
    """
    return round(100 * row.share, 6) >= goal


def _named(names: Sequence[str]) -> list[Suite]:
    known = {suite.name: suite for suite in SUITES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"not in the table: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(SUITES)


def _asked(place: SuiteFiles, limits: Limits, at_most: int) -> dict[str, Any]:
    found = run(place.session("jax"), limits, at_most=at_most)
    passed = sorted(found.passed())
    tried = Counter(map(file_of, found.chosen))
    print(f"{place.suite.name}: {len(passed)} of {len(found.chosen)} pass on jax", flush=True)
    for name in found.unloaded:
        print(f"  does not load on jax: {name}", flush=True)
    if found.load:
        print(f"  {found.load}", flush=True)
    return {
        "release": place.suite.release,
        "files": {
            file: {"collected": size, "chosen": tried[file]} for file, size in found.sizes.items()
        },
        "collected": found.collected,
        "chosen": len(found.chosen),
        "passed": passed,
    }


if __name__ == "__main__":
    main()
