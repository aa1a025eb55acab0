"""Break one behavior at a time and watch the tests of its item fail.

    python -m tests.mutation            all rows of `breaks.py`; writes `log.txt` beside it
    python -m tests.mutation 3.6 8.1    some of them; writes nothing
    python -m tests.mutation content    those of `content_breaks.py`; writes `content.txt`
    python -m tests.mutation unseen     those that no test saw once; writes `unseen.txt`
    python -m tests.mutation rooms      those of `breaks_by_room.py`; writes `rooms.txt`
    python -m tests.mutation unseen checksums-of-programs
                                        some of these, or of those by room; replaces their lines

Every break is made in a copy of `src/`; one of the extension is compiled there. Ends with an error
if the tests of an item pass although it is broken, or fail although nothing is.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation.breaks import BREAKS, DRAWN, SEED, UNSEEN, Break, drawn, order
from tests.mutation.breaks_by_hand import BY_HAND
from tests.mutation.breaks_by_room import BY_ROOM
from tests.mutation.content_breaks import CONTENT_BREAKS

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "tests"
LOG = Path(__file__).with_name("log.txt")
CONTENT_LOG = Path(__file__).with_name("content.txt")
UNSEEN_LOG = Path(__file__).with_name("unseen.txt")
ROOMS_LOG = Path(__file__).with_name("rooms.txt")
ONCE_UNSEEN = [*UNSEEN, *BY_HAND]
OF_ROOMS = [row for rows in BY_ROOM.values() for row in rows]
NAMED = {
    "unseen": (ONCE_UNSEEN, UNSEEN_LOG, "breaks that no test saw once"),
    "rooms": (OF_ROOMS, ROOMS_LOG, f"breaks, five in each of {len(BY_ROOM)} rooms"),
}
"""The breaks of which some can be made alone: what they are, and their log."""
NOTHING_BROKEN = "nothing broken: of the tests of the rows that were made last, 0 fail"
SECONDS = 1800
_WITHOUT_INSTALLATION = """\
import sys
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__name__.startswith("ScikitBuild")]
"""


@functools.cache
def marks() -> dict[str, list[str]]:
    """Return for each item the tests marked with it, as pytest names them."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "@contract(" in text else ():
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "contract":
                    for item in map(ast.literal_eval, mark.args):
                        name = f"{path.relative_to(REPOSITORY).as_posix()}::{node.name}"
                        found.setdefault(item, []).append(name)
    return found


def broken(text: str, row: Break) -> str:
    """Return a file's text with the break made.

    Raises: ValueError if the text to replace does not stand there exactly once.
    """
    if text.count(row.text) != 1:
        raise ValueError(f"{row.file} has {row.text!r} {text.count(row.text)} times, not once")
    return text.replace(row.text, row.instead)


def tests_of(row: Break) -> Sequence[str]:
    """Return the tests that are to see a break."""
    return row.tests or marks()[row.item]


def run(tests: Sequence[str], source: Path) -> tuple[int, list[str], str]:
    """Run tests against a copy of `src`: how many passed, which failed, and the output."""
    # `-S` leaves out the editable installation, which would put the sources before their copy.
    command = [sys.executable, "-S", "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    command += ["-m", "not full", *tests]
    places = os.pathsep.join([str(source), *[p for p in sys.path if p.endswith("-packages")]])
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return int(passed.group(1)) if passed else 0, failed, done.stdout + done.stderr


def build(path: Path, work: Path) -> None:
    """Compile the extension of the copy if the file is one of its."""
    if path.suffix not in (".cc", ".h"):
        return
    shutil.copy(REPOSITORY / "CMakeLists.txt", work)
    objects = str(work / "objects")
    programs = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    for command in (
        ["cmake", "-S", str(work), "-B", objects, "-G", "Ninja"]
        + [f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", objects],
    ):
        environment = {**os.environ, "PATH": programs}
        subprocess.run(command, env=environment, capture_output=True, check=True)


def lines(rows: Sequence[Break], work: Path) -> Iterator[tuple[bool, str]]:
    """Yield for each step whether it went as it should, and what to write about it."""
    source = work / "src"
    shutil.copytree(
        REPOSITORY / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    every = sorted({test for row in rows for test in tests_of(row)})
    # In the processes that tests start, too.
    (source / "sitecustomize.py").write_text(_WITHOUT_INSTALLATION, encoding="utf-8")
    passed, failed, output = run(every, source)
    yield (
        passed > 0 and not failed,
        f"nothing broken: {passed} tests pass, {len(failed)} fail"
        + ("" if passed else f"\n{output}"),
    )
    for row in rows:
        path = source / "kiln" / row.file
        text = path.read_text(encoding="utf-8")
        path.write_text(broken(text, row), encoding="utf-8")
        build(path, work)
        passed, failed, output = run(tests_of(row), source)
        path.write_text(text, encoding="utf-8")
        build(path, work)
        first = re.sub(r"^[^:]*/", "", failed[0]) if failed else "NO TEST FAILED"
        yield (
            bool(failed),
            f"{row.item:6} {row.file:28} {len(failed):3} of {passed + len(failed):3} fail: {first}"
            + ("" if failed or passed else f"\n{output}"),
        )


def main(items: Sequence[str]) -> int:
    """Run the rows of the items named, or all rows, and return the exit status."""
    rows = sorted(BREAKS, key=lambda row: order().index(row.item))
    file = None if items else LOG
    named = NAMED.get(items[0]) if items else None
    if items == ["content"]:
        rows, file = CONTENT_BREAKS, CONTENT_LOG
    elif named is not None:
        every, file, what = named
        rows = [row for row in every if row.item in (items[1:] or row.item)]
    elif items:
        rows = [row for row in rows if row.item in items]
    if not rows:
        print(f"there is no break of {' '.join(items)}")
        return 2
    count = sum(row.item in drawn() for row in rows)
    log = [
        f"{count} of the {DRAWN} items drawn with seed {SEED}, in the order of the draw; then "
        f"{len(rows) - count} written later"
    ]
    if rows is CONTENT_BREAKS:
        log = [f"{len(rows)} breaks of the reading of contents"]
    elif named is not None:
        log = [f"{len(every)} {what}"]
    good = True
    with tempfile.TemporaryDirectory() as work:
        for fine, line in lines(rows, Path(work)):
            good &= fine
            log.append(line)
            print(line, flush=True)
    if named is not None and len(rows) < len(every):
        log = _with_others(log, every, named[1].read_text(encoding="utf-8"))
    if file is not None:
        file.write_text("\n".join(log) + "\n", encoding="utf-8")
    return 0 if good else 1


def _with_others(made: Sequence[str], every: Sequence[Break], log: str) -> list[str]:
    """Return a log of some breaks with the lines about the others that a log has."""
    _, _, *logged = log.splitlines()
    lines = {line.split()[0]: line for line in (*logged, *made[2:])}
    # How many tests of all rows pass is not known, as those of the others were not run.
    unbroken = NOTHING_BROKEN if made[1].endswith(" 0 fail") else made[1]
    return [made[0], unbroken, *(lines[row.item] for row in every if row.item in lines)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
