"""Files of the extension lie in rooms, include only lower rooms, and know Python only in some.

The rooms, their order and those without Python are in `pyproject.toml`, section
`tool.kiln.includes`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.structure.source_tree import KILN, REPOSITORY

pytestmark = pytest.mark.tree

RUNTIME = KILN / "_runtime"
MOST_ENTRIES = 25
QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
PYTHON = re.compile(
    r'^\s*#\s*include\s*[<"]((?:Python|structmember)\.h|numpy/[^>"]+)[>"]', re.MULTILINE
)
LISTED = re.compile(r"^\s*\$\{RUNTIME\}/(\S+)$", re.MULTILINE)


def rules() -> dict[str, Any]:
    """Return what `pyproject.toml` declares."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["kiln"]["includes"]


def sources(root: Path) -> dict[str, str]:
    """Return the text of each C++ file by its path below `root`."""
    found = (path for path in sorted(root.rglob("*")) if path.suffix in (".cc", ".h"))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in found}


def not_from_the_root(files: dict[str, str]) -> list[str]:
    """Return includes in quotes that are not written as paths from the root."""
    return [
        f"{name} includes {target}: not a path from the root"
        for name, text in files.items()
        for target in QUOTED.findall(text)
        if target not in files
    ]


def room_of(name: str, folder: str, rows: list[list[str]]) -> str | None:
    """Return the room of a folder that a file lies in; None for files elsewhere."""
    path, top = PurePosixPath(name), PurePosixPath(folder)
    if not path.is_relative_to(top):
        return None
    parts = path.relative_to(top).parts
    room = parts[0] if len(parts) > 1 else path.stem
    if not any(room in row for row in rows):
        raise LookupError(f"{folder}: {room!r} has no row; declare it in pyproject.toml")
    return room


def includes_against_the_rooms(files: dict[str, str], rules: dict[str, Any]) -> list[str]:
    """Return each include that the order of a folder's rooms forbids."""
    found = []
    for folder, rows in rules["rooms"].items():
        ranks = {room: rank for rank, row in enumerate(rows) for room in row}
        rooms = {name: room_of(name, folder, rows) for name in files}
        for name, text in files.items():
            for target in QUOTED.findall(text):
                low, high = rooms[name], rooms.get(target)
                if low is None or high is None or high == low or ranks[high] < ranks[low]:
                    continue
                how = "is beside" if ranks[high] == ranks[low] else "is above"
                found.append(f"{name} includes {target}: {high!r} {how} {low!r}")
    return found


def circles(files: dict[str, str]) -> list[list[str]]:
    """Return the circles of includes, each as the list of its files."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in done:
            for target in QUOTED.findall(files.get(name, "")):
                visit(target, [*path, name])
            done.add(name)

    for name in files:
        visit(name, [])
    return found


def python_where_there_is_none(files: dict[str, str], rules: dict[str, Any]) -> list[str]:
    """Return includes of Python, and of rooms that know it, in rooms without it."""
    free = rules["without_python"]
    found = []
    for name, text in files.items():
        if name.split("/")[0] in free:
            known = [*PYTHON.findall(text)]
            known += [t for t in QUOTED.findall(text) if t.split("/")[0] not in free]
            found += [f"{name} includes {target}: its room is without Python" for target in known]
    return found


def crowded(root: Path) -> list[str]:
    """Return folders with too many files and folders in them."""
    folders = [root, *(path for path in sorted(root.rglob("*")) if path.is_dir())]
    counts = {path: len(list(path.iterdir())) for path in folders}
    return [
        f"{path.relative_to(root).as_posix()} has {count} entries"
        for path, count in counts.items()
        if count > MOST_ENTRIES
    ]


def test_includes_are_written_from_the_root() -> None:
    assert not_from_the_root(sources(RUNTIME)) == []


def test_includes_go_down() -> None:
    assert includes_against_the_rooms(sources(RUNTIME), rules()) == []


def test_no_file_includes_itself() -> None:
    assert circles(sources(RUNTIME)) == []


def test_rooms_without_python_know_none() -> None:
    assert python_where_there_is_none(sources(RUNTIME), rules()) == []


def test_no_folder_is_crowded() -> None:
    assert crowded(RUNTIME) == []


def test_declared_rooms_exist() -> None:
    files = sources(RUNTIME)
    declared = [PurePosixPath(room) for room in rules()["without_python"]]
    for folder, rows in rules()["rooms"].items():
        declared += [PurePosixPath(folder) / room for row in rows for room in row]
    real = {PurePosixPath(name).with_suffix("") for name in files}
    real |= {folder for name in files for folder in PurePosixPath(name).parents}
    assert [room.as_posix() for room in declared if room not in real] == []


def test_each_source_file_is_compiled() -> None:
    listed = LISTED.findall((REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert set(listed) == {name for name in sources(RUNTIME) if name.endswith(".cc")}


# Self-checks: each rule above must be able to fail.

RULES = {
    "without_python": ["code"],
    "rooms": {
        ".": [["base", "code"], ["left", "right"], ["module"]],
        "left": [["low"], ["high"]],
    },
}
GOOD = {
    "base/object.h": "#include <Python.h>\n",
    "base/object.cc": '#include "base/object.h"\n#include <numpy/arrayobject.h>\n',
    "code/call.h": "#pragma once\n#include <cstdint>\n",
    "code/call.cc": '#include "code/call.h"\n',
    "left/low/a.h": '#include "base/object.h"\n#include "code/call.h"\n',
    "left/high.cc": '#include "left/low/a.h"\n',
    "right/b.h": '#include "base/object.h"\n// #include "left/low/a.h"\n',
    "module.cc": '#include "left/low/a.h"\n#include "right/b.h"\n',
}


def judged(files: dict[str, str]) -> list[str]:
    """Return what all rules but that of crowded folders say of a made-up tree."""
    return [
        *not_from_the_root(files),
        *includes_against_the_rooms(files, RULES),
        *(" -> ".join(circle) for circle in circles(files)),
        *python_where_there_is_none(files, RULES),
    ]


def test_a_good_tree_passes() -> None:
    assert judged(GOOD) == []


@pytest.mark.parametrize(
    ("file", "target", "reason"),
    [
        ("base/a.cc", "right/b.h", "'right' is above 'base'"),
        ("right/a.h", "left/low/a.h", "'left' is beside 'right'"),
        ("left/low/b.h", "left/high.cc", "'high' is above 'low'"),
        ("right/a.h", "b.h", "not a path from the root"),
        ("right/a.h", "../base/object.h", "not a path from the root"),
        ("code/a.cc", "Python.h", "its room is without Python"),
        ("code/a.cc", "numpy/ndarraytypes.h", "its room is without Python"),
    ],
)
def test_a_bad_include_is_found(file: str, target: str, reason: str) -> None:
    is_ours = target not in ("Python.h", "numpy/ndarraytypes.h")
    written = f'"{target}"' if is_ours else f"<{target}>"
    for text in (f"#include {written}\n", f"int x;\n  # include{written}"):
        assert judged({**GOOD, file: text}) == [f"{file} includes {target}: {reason}"]


def test_a_file_that_includes_itself_is_found() -> None:
    files = {**GOOD, "base/object.h": '#include "base/object.h"'}
    assert judged(files) == ["base/object.h -> base/object.h"]


def test_a_circle_of_two_files_is_found() -> None:
    files = {**GOOD, "right/c.h": '#include "right/d.h"', "right/d.h": '#include "right/c.h"'}
    assert circles(files) == [["right/c.h", "right/d.h", "right/c.h"]]


def test_a_room_that_knows_python_is_found_through_its_header() -> None:
    found = judged({**GOOD, "code/a.cc": '#include "base/object.h"'})
    assert "code/a.cc includes base/object.h: its room is without Python" in found


@pytest.mark.parametrize("file", ["attic/a.h", "attic.cc", "left/attic/a.h"])
def test_a_room_without_a_row_is_refused(file: str) -> None:
    with pytest.raises(LookupError, match="attic"):
        includes_against_the_rooms({**GOOD, file: ""}, RULES)


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for number in range(MOST_ENTRIES):
        (tmp_path / "room" / f"a{number}.h").touch()
    assert crowded(tmp_path) == []
    (tmp_path / "room" / "inner").mkdir()
    assert crowded(tmp_path) == [f"room has {MOST_ENTRIES + 1} entries"]
