"""The documents tell the truth: links lead somewhere, the map is complete, the example runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from kiln.__main__ import main
from tests.structure.source_tree import KILN, REPOSITORY, rules

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = [*(REPOSITORY / page for page in PAGES), *sorted((REPOSITORY / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)\)")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def broken_links(document: Path) -> list[str]:
    """Return the links of a document to files that are not there."""
    text = document.read_text(encoding="utf-8")
    return [link for link in LINK.findall(text) if not (document.parent / link).exists()]


def missing_folders(text: str, root: Path, prefix: str = "") -> list[str]:
    """Return the folders directly below `root` that a text does not name, after the prefix."""
    folders = [path.name for path in root.iterdir() if (path / "__init__.py").exists()]
    return [name for name in sorted(folders) if f"`{prefix}{name}/" not in text]


def unnamed_files(text: str, root: Path) -> list[str]:
    """Return the modules directly below `root` that a text does not name."""
    names = sorted(path.name for path in root.glob("*.py") if path.name != "__init__.py")
    return [name for name in names if f"`{name}`" not in text]


def missing_files(text: str, root: Path) -> list[str]:
    """Return the paths that a text names and `root` has not; `FAMILY.py` is a blank to fill."""
    folders = {path.name for path in root.iterdir() if path.is_dir()}
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    return [path for path in named if path.split("/")[0] in folders and not (root / path).exists()]


@pytest.mark.tree
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    assert broken_links(document) == []


def test_the_map_names_every_folder_and_only_files_that_exist() -> None:
    text = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    assert missing_folders(text, KILN) == []
    assert missing_files(text, KILN) == []
    assert missing_folders(text, REPOSITORY / "tests", "tests/") == []


def test_the_page_of_the_package_names_every_entry_and_what_only_jax_spells() -> None:
    text = (KILN / "README.md").read_text(encoding="utf-8")
    folders = [path.name for path in KILN.iterdir() if (path / "README.md").exists()]
    names = {*folders, *(path.stem for path in KILN.glob("*.py"))}
    listed, spelled = text.split("## JAX's spellings")
    named = set(re.findall(r"`(\w+)`", listed)) & names
    (layer,) = (set(row) for row in rules()["layers"] if "tree_util" in row)
    assert names - named == layer
    assert set(re.findall(r"`(\w+)`", spelled)) & names == layer


LONGEST_PAGE = 40
CODE = {".py", ".cc"}


def folders_without_page(root: Path) -> list[str]:
    """Return folders of code whose page is missing, too long, or names files that are not there."""
    found = []
    for folder in sorted(path for path in root.rglob("*") if path.is_dir()):
        if not any(path.suffix in CODE for path in folder.iterdir()):
            continue
        page = folder / "README.md"
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        lines = text.splitlines()
        if not 0 < len(lines) <= LONGEST_PAGE:
            found.append(f"{page.relative_to(root)} has {len(lines)} lines")
        rows = re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)
        found += [f"{page.relative_to(root)}: {row}" for row in rows if not (folder / row).exists()]
    return found


def test_every_folder_of_code_says_what_it_decides() -> None:
    assert folders_without_page(KILN) == []


def test_a_folder_without_a_page_is_found(tmp_path: Path) -> None:
    for name in ("told", "untold", "empty", "wrong"):
        (tmp_path / name).mkdir()
    for name in ("told", "untold", "wrong"):
        (tmp_path / name / "a.py").touch()
    (tmp_path / "told" / "README.md").write_text("| `a.py` | all of it |\n", encoding="utf-8")
    (tmp_path / "wrong" / "README.md").write_text("| `b.py` | gone |\n", encoding="utf-8")
    assert folders_without_page(tmp_path) == [
        "untold/README.md has 0 lines",
        "wrong/README.md: b.py",
    ]


def test_the_map_of_the_xla_engine_names_every_file() -> None:
    folder = KILN / "engines" / "xla"
    assert unnamed_files((folder / "README.md").read_text(encoding="utf-8"), folder) == []


def test_the_example_of_the_readme_prints_what_it_says() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    blocks = dict(BLOCK.findall(text))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks["python"], "README.md", "exec"), {})
    assert printed.getvalue() == blocks["text"]


def test_the_table_of_primitives_is_that_of_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    main(["coverage", "--markdown"])
    written = (REPOSITORY / "docs" / "primitives.md").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out, "write docs/primitives.md again: make docs"


def test_the_table_of_options_is_that_of_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    main(["options"])
    written = (REPOSITORY / "docs" / "options.md").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out, "write docs/options.md again: make docs"


@pytest.mark.parametrize(
    "page",
    [
        *("tour.md", "linen.md", "debugging.md", "see.md", "editors.md", "extend.md", "refs.md"),
        *(
            "checkpoints.md",
            "data.md",
            "explicit_sharding.md",
            "export.md",
            "pallas.md",
            "profiling.md",
        ),
    ],
)
def test_a_page_prints_what_it_says(page: str) -> None:
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    steps = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(steps) == text.count("```python")
    names: dict[str, object] = {}
    options = np.get_printoptions()
    try:
        for code, shown in steps:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"docs/{page}", "exec"), names)
            assert printed.getvalue() == shown
    finally:
        np.set_printoptions(**options)


def test_bad_documents_are_found(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("[a](there.md) [b](not/there.md) [c](https://example.org)")
    (tmp_path / "there.md").touch()
    assert broken_links(document) == ["not/there.md"]
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "__init__.py").touch()
    assert missing_folders("the map names `ir/`", tmp_path) == ["ops"]
    assert missing_folders("`tests/ops/` and `ir/`", tmp_path, "tests/") == []
    (tmp_path / "ops" / "shape_of.py").touch()
    assert unnamed_files("`shape.py`", tmp_path / "ops") == ["shape_of.py"]
    assert missing_files(
        "start with `ops/shape.py` or `ops/FAMILY.py` or `other/x.py`", tmp_path
    ) == ["ops/shape.py"]
