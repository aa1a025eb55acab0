"""What libraries take on disk with all that they need, and how long their import takes.

    python -m benchmarks.installed kiln=PYTHON jax=PYTHON torch=PYTHON

prints the table of docs/install.md. Each library is examined in an environment of its own, by a
fresh process for each import.
"""

from __future__ import annotations

import json
import subprocess
import sys

REPETITIONS = 7
NEEDED = """\
import json, re, sys
from importlib.metadata import PackageNotFoundError, distribution
waiting, sizes = [sys.argv[1]], {}
while waiting:
    name = re.sub("[-_.]+", "-", waiting.pop()).lower()
    if name in sizes:
        continue
    try:
        found = distribution(name)
    except PackageNotFoundError:
        continue
    paths = [file.locate() for file in found.files or () if file.suffix != ".pyc"]
    sizes[name] = sum(path.stat().st_size for path in paths if path.is_file())
    for text in found.requires or ():
        if "extra ==" not in text:
            waiting.append(re.match("[A-Za-z0-9._-]+", text)[0])
print(json.dumps(sizes))
"""
IMPORT = """\
import time
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""


def sizes(python: str, name: str) -> dict[str, int]:
    """Return the bytes of a distribution and of all that it needs, without bytecode."""
    ran = subprocess.run(
        [python, "-c", NEEDED, name], check=True, capture_output=True, text=True, cwd="/"
    )
    found: dict[str, int] = json.loads(ran.stdout)
    return found


def import_seconds(python: str, module: str, repetitions: int = REPETITIONS) -> float:
    """Return the least time that the import takes in a fresh process."""
    command = [python, "-c", IMPORT.format(name=module)]
    taken = []
    for _ in range(repetitions):
        ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
        taken.append(float(ran.stdout))
    return min(taken)


def row(name: str, python: str, repetitions: int = REPETITIONS) -> str:
    """Return a line of the table; the import includes the module `numpy` of JAX and of kiln."""
    found = sizes(python, name)
    own, whole = found[name] / 1e6, sum(found.values()) / 1e6
    seconds = import_seconds(
        python, f"{name}.numpy" if name in ("jax", "kiln") else name, repetitions
    )
    largest = sorted(found, key=lambda each: -found[each])[:4]
    parts = ", ".join(f"{each} {found[each] / 1e6:.0f}" for each in largest)
    return f"| {name} | {own:.0f} | {whole:.0f} | {parts} | {seconds * 1e3:.0f} |"


def main(chosen: list[str]) -> None:
    """Print the table for `NAME=PYTHON` pairs; a bare name means this interpreter."""
    print("| library | itself, MB | with all that it needs, MB | the largest, MB | import, ms |")
    print("|---|---|---|---|---|")
    for text in chosen:
        name, _, python = text.partition("=")
        print(row(name, python or sys.executable))


if __name__ == "__main__":
    main(sys.argv[1:])
