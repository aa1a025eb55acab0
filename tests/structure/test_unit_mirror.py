"""Every module of the inner layers has its own file of unit tests, found by its path."""

from __future__ import annotations

from pathlib import Path

from tests.structure.source_tree import KILN, REPOSITORY, code_lines, modules, write_tree

MIRRORED = ("base", "ir", "core", "content", "execution", "transforms", "control", "jit")
# Below this many lines of code a module is tested through those that use it.
FEWEST_LINES = 40
# A module without a file of its own, and where it is tested instead.
TESTED_ELSEWHERE: dict[str, str] = {
    "core/__init__.py": "tests/unit/extend/test_core.py: names of other files",
}


def without_tests(root: Path, tests: Path, elsewhere: dict[str, str]) -> list[str]:
    """Return modules without their file of tests, and exceptions nobody needs any more."""
    found = []
    needed = set()
    for module in modules(root).values():
        path = Path(module.relative)
        if path.parts[0] not in MIRRORED or code_lines(module) <= FEWEST_LINES:
            continue
        stem = path.parent.name if path.stem == "__init__" else path.stem
        mirror = tests / path.parent / f"test_{stem}.py"
        if mirror.exists():
            continue
        needed.add(module.relative)
        if module.relative not in elsewhere:
            found.append(f"{module.relative} has no {mirror.relative_to(tests.parent)}")
    return found + [f"{name} needs no exception" for name in elsewhere if name not in needed]


def test_inner_layers_have_unit_tests() -> None:
    assert without_tests(KILN, REPOSITORY / "tests" / "unit", TESTED_ELSEWHERE) == []


def test_a_missing_mirror_is_found(tmp_path: Path) -> None:
    long, short = "x = 1\n" * (FEWEST_LINES + 1), "x = 1\n" * FEWEST_LINES
    commented = short + '# why\n\n"""Text\nover lines."""\n'
    root = write_tree(
        tmp_path / "src",
        {
            "core/arrays/array.py": long,
            "core/trace.py": long,
            "core/absent.py": short,
            "ir/types.py": commented,
            "ops/shape.py": long,
        },
    )
    tests = tmp_path / "unit"
    (tests / "core").mkdir(parents=True)
    (tests / "core" / "test_trace.py").touch()
    found = without_tests(root, tests, {})
    assert found == ["core/arrays/array.py has no unit/core/test_array.py"]
    assert without_tests(root, tests, {"core/arrays/array.py": "in test_trace"}) == []
    assert without_tests(root, tests, {"core/arrays/array.py": "", "core/trace.py": ""}) == [
        "core/trace.py needs no exception"
    ]
