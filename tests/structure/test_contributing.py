"""The recipes of docs/recipes.md are applied to a copy of the sources; CONTRIBUTING.md is true."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kiln.base.named_tuples import NamedTuple
from tests.structure.source_tree import REPOSITORY

TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE = (REPOSITORY / "docs" / "recipes.md").read_text(encoding="utf-8")
# What the recipes are run in. Of the cases only their own: the others have been seen.
COPIED = (".github", "src", "docs", "examples", "benchmarks")
COPIED += tuple(f"tests/{name}" for name in ("golden", "properties", "rules", "structure", "unit"))
STRUCTURE = ("documents", "layers", "names", "parameters", "public_names", "unit_mirror")
CASES = ("__init__.py", "case.py", "collection.py", "known_gaps.py")
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
BESIDE += ("Makefile", "CMakeLists.txt", "tests/__init__.py", "tests/conftest.py")
BESIDE += ("tests/differential/test_coverage.py",)


class Step(NamedTuple):
    """A block of code of a recipe: the file that it makes or changes, and its language."""

    path: str
    language: str
    code: str


def sections(text: str) -> dict[str, str]:
    """Return the sections of a document by their headings."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))


def steps(recipe: str) -> list[Step]:
    """Return the blocks of a recipe: each is for the file that its numbered step names first."""
    found, path = [], ""
    token = r"^(\d+\. |   and in )|`([\w/]+\.(?:py|md|cc|txt))`|^```(python|cpp|diff)\n(.*?)^```"
    for step, named, language, code in re.findall(token, recipe, re.DOTALL | re.MULTILINE):
        path = "" if step else path or named
        if language:
            found.append(Step(path, language, code))
    return found


def commands(recipe: str) -> list[list[str]]:
    """Return the arguments of Python, and the environment before them, of a recipe's checks."""
    (block,) = re.findall(r"^Then.*?^```sh\n(.*?)^```", recipe, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for line in block.splitlines() if "python -m " in line]


RECIPES = {
    name.removeprefix("Add a "): text
    for name, text in sections(PAGE).items()
    if name.startswith("Add a ")
}
STEPS = {name: steps(text) for name, text in RECIPES.items()}


def patched(text: str, diff: str) -> str:
    """Return a text with a change made: lines that start with a blank, + or -, without numbers.

    Raises: ValueError if the lines to change do not stand there exactly once.
    """
    old = "".join(line[1:] for line in diff.splitlines(True) if line[0] != "+")
    new = "".join(line[1:] for line in diff.splitlines(True) if line[0] != "-")
    if text.count(old) != 1:
        raise ValueError(f"{text.count(old)} places, not one, for\n{diff}")
    return text.replace(old, new)


def follow(recipe: str, root: Path) -> list[str]:
    """Make all changes of a recipe; return the files that are new."""
    made = []
    for path, language, code in STEPS[recipe]:
        file = root / path
        if language == "diff":
            file.write_text(patched(file.read_text(encoding="utf-8"), code), encoding="utf-8")
        else:
            assert not file.exists(), f"{path} is there already"
            file.write_text(code, encoding="utf-8")
            made.append(path)
    return made


def copy(root: Path) -> None:
    """Copy what the recipes touch, and what their checks need."""
    unneeded = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in COPIED:
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=unneeded)
    for folder in ("cases", "differential"):
        (root / "tests" / folder).mkdir()
    for file in (*BESIDE, *(f"tests/cases/{name}" for name in CASES)):
        shutil.copy(REPOSITORY / file, root / file)


def run(root: Path, *arguments: str) -> str:
    """Run a module in the copy, and return what it prints; it must end well.

    Arguments such as `NAME=text` before the others are for its environment.
    """
    given = dict(a.split("=", 1) for a in arguments if re.match(r"[A-Z_]+=", a))
    # `-S` leaves out the editable installation, which would put the sources before their copy.
    originals = {"", str(REPOSITORY), str(REPOSITORY / "src")}
    packages = [path for path in sys.path if path not in originals]
    done = subprocess.run(
        [sys.executable, "-S", "-m", *arguments[len(given) :]],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), *packages]), **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def passed(root: Path, *arguments: str) -> int:
    """Run pytest in the copy, and return how many tests passed; none may fail."""
    printed = run(root, *arguments, "-p", "no:cacheprovider")
    found = re.search(r"^(\d+) passed", printed.splitlines()[-1])
    assert found is not None, printed
    return int(found[1])


PYTHON_ONLY = ("primitive", "lowering", "pass", "target")
followed = pytest.mark.skipif(
    (REPOSITORY / STEPS["primitive"][0].path).exists(),
    reason="the recipes were followed in this tree",
)


@pytest.mark.tree
@followed
def test_the_recipes_fit_the_sources_and_do_what_they_say(tmp_path: Path) -> None:
    assert list(RECIPES) == [*PYTHON_ONLY, "kernel"]
    copy(tmp_path)
    made = [path for recipe in PYTHON_ONLY for path in follow(recipe, tmp_path)]
    tests = [path for path in made if path.startswith("tests/unit/")]
    assert len(tests) == len(PYTHON_ONLY)
    assert passed(tmp_path, "pytest", "-q", *tests) >= 20
    assert len(follow("kernel", tmp_path)) == 2


def checks(recipe: str) -> list[list[str]]:
    """Return the arguments of `run` for each check of a recipe that the copy has."""
    found = []
    for command in commands(RECIPES[recipe]):
        arguments = [a for a in command if a not in ("python", "-m")]
        # JAX's answers are many megabytes, and not in the copy.
        if any(a.startswith("tests/differential") for a in arguments):
            continue
        if "tests/structure" in arguments:
            arguments.remove("tests/structure")
            arguments += [f"tests/structure/test_{name}.py" for name in STRUCTURE]
        found.append(arguments)
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources in which all recipes but the kernel's were followed."""
    root = tmp_path_factory.mktemp("tree")
    copy(root)
    for recipe in PYTHON_ONLY:
        follow(recipe, root)
    table = run(root, "kiln", "coverage", "--markdown")
    assert "| ops/indexing/rolling | `roll` | x | x | x | x | x |  | x | x |" in table
    (root / "docs" / "primitives.md").write_text(table, encoding="utf-8")
    return root


@pytest.mark.tree
@followed
@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("recipe", PYTHON_ONLY)
def test_a_recipe_passes_its_checks(recipe: str, tree: Path) -> None:
    for arguments in checks(recipe):
        assert passed(tree, *arguments) > 0


REGISTRAR = """
#include "abi/symbols.h"
extern "C" {
int count;
const char* names[8];
void* addresses[8];
}
namespace kiln {
Symbols::Symbols(std::initializer_list<Symbol> symbols) {
  for (const Symbol& each : symbols) {
    names[count] = each.name;
    addresses[count++] = each.address;
  }
}
}  // namespace kiln
"""
PLUGIN = """
import ctypes
from kiln import _runtime

library = ctypes.CDLL("./added.so")
count = ctypes.c_int.in_dll(library, "count").value
names = (ctypes.c_char_p * 8).in_dll(library, "names")
addresses = (ctypes.c_void_p * 8).in_dll(library, "addresses")
known = _runtime.native_symbols()
added = {names[i].decode(): addresses[i] for i in range(count)}
assert added and not added.keys() & known.keys()
_runtime.native_symbols = lambda: {**known, **added}
"""
"""Adds kernels of a library to those of the extension, which takes minutes to build."""
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


@pytest.mark.tree
@followed
@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_the_kernel_is_compiled_and_passes_its_checks(tree: Path) -> None:
    follow("kernel", tree)
    (tree / "registrar.cc").write_text(REGISTRAR, encoding="utf-8")
    (tree / "added_kernels.py").write_text(PLUGIN, encoding="utf-8")
    (source,) = [step.path for step in STEPS["kernel"] if step.language == "cpp"]
    options = ("-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
    subprocess.run(
        [str(COMPILER), *options, f"-I{tree / 'src/kiln/_runtime'}", "-o", "added.so"]
        + ["registrar.cc", source],
        cwd=tree,
        check=True,
        timeout=200,
    )
    for arguments in checks("kernel"):
        assert passed(tree, *arguments, "-p", "added_kernels") > 0
    # Without the kernel the same tests fail: they reach it by its name.
    with pytest.raises(AssertionError, match="rolled"):
        passed(tree, *checks("kernel")[0])


@pytest.mark.tree
def test_the_files_that_they_name_exist() -> None:
    text = TEXT + PAGE
    named = set(re.findall(r"\b(?:src|tests|docs)/[\w/]+\.\w+", text))
    made = {step.path for recipe in STEPS.values() for step in recipe if step.language != "diff"}
    assert len(named - made) > 30
    assert [path for path in sorted(named - made) if not (REPOSITORY / path).exists()] == []


PRINTING = """
import contextlib, io, json, sys
names, printed = {}, []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    printed.append(shown.getvalue())
print(json.dumps(printed))
"""


def test_what_the_page_prints() -> None:
    blocks = re.findall(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", sections(TEXT)["Debug"], re.DOTALL
    )
    assert len(blocks) == sections(TEXT)["Debug"].count("```python") > 2
    # In a process of its own, as a reader has it: programs of other tests may have been evicted.
    done = subprocess.run(
        [sys.executable, "-c", PRINTING],
        input=json.dumps([code for code, _ in blocks]),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert json.loads(done.stdout) == [shown for _, shown in blocks]


def test_a_change_that_does_not_fit_is_found() -> None:
    assert patched("a\nb\nc\n", " b\n+x\n-c\n") == "a\nb\nx\n"
    for text in ("a\n", "b\nc\nb\nc\n"):
        with pytest.raises(ValueError, match="places, not one"):
            patched(text, " b\n+x\n c\n")
