"""Every block of the pages for users runs, and prints what stands below it."""

from __future__ import annotations

import builtins
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.documents.pages import rows, steps, value
from tests.structure.source_tree import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted([*(DOCS / "start").glob("*.md"), *(DOCS / "howto").glob("*.md")])

LINK = re.compile(r"\]\(([^)\s:]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(prose)
    }


def dead_links(page: Path) -> Iterator[str]:
    """Yield the links of a page to files or headings that do not exist."""
    text = page.read_text(encoding="utf-8")
    for link in LINK.findall(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            yield link


@pytest.mark.tree
def test_no_link_is_dead() -> None:
    pages = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")]
    assert [(page.name, link) for page in sorted(pages) for link in dead_links(page)] == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# A, b\n[x](#a-b) [y](#c) [z](b.md) [w](a.md#a-b) [v](https://example.org)")
    assert list(dead_links(page)) == ["#c", "b.md"]


def different(text: str, name: str) -> list[str]:
    """Run the blocks of a page in one namespace; return those that print something else."""
    names: dict[str, object] = {}
    found = []
    options = np.get_printoptions()
    try:
        for code, printed in steps(text):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, name, "exec"), names)
            if out.getvalue() != printed:
                found.append(f"{code}\nprints\n{out.getvalue()}\ninstead of\n{printed}")
    finally:
        np.set_printoptions(**options)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_prints_what_it_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(steps(text)) == text.count("```python")
    assert different(text, str(page)) == []


def test_a_block_that_prints_something_else_is_found() -> None:
    block = "```python\nprint(1)\n```\n"
    assert different(block + "\n```text\n1\n```\n", "page") == []
    assert len(different(block + "\n```text\n2\n```\n", "page")) == 1
    assert len(different(block, "page")) == 1


# The first column of the table of what cannot be done, and code that does it.
REFUSED = {
    "`x[i] = v`": "x[0] = 1",
    "`if x > 0:` in `jit`": "kiln.jit(lambda x: 1 if x > 0 else 2)(1.0)",
    "`for i in range(n)` with a traced `n`": "kiln.jit(lambda n: [i for i in range(n)])(3)",
    "`x[mask]` in `jit`": "kiln.jit(lambda x: x[x > 0])(x)",
    "`np.sin(x)` in `jit`": "kiln.jit(lambda x: np.sin(x))(x)",
    "`print(x)` in `jit`": "",
    "keeping a tracer in a global": "kept = []; kiln.jit(kept.append)(x); kept[0] + 1",
    "`grad` of a function with integer arguments": "kiln.grad(lambda n: n * 2.0)(3)",
    "`grad` through `lax.while_loop`": (
        "kiln.grad(lambda x: kiln.lax.while_loop(lambda y: y < 9, lambda y: y * 2, x))(1.0)"
    ),
}


def test_what_cannot_be_done_is_refused_as_the_page_says() -> None:
    text = (DOCS / "start" / "start_here.md").read_text(encoding="utf-8")
    table = [row for row in rows(text) if row.columns[0] == "you write"]
    assert [row.cells[0] for row in table] == list(REFUSED)
    for row in table:
        code, error = REFUSED[row.cells[0]], row.cells[1].split()[0]
        if code:
            kind = getattr(kiln.errors, error, None) or getattr(builtins, error)
            with pytest.raises(kind):
                value(code, {"kiln": kiln, "np": np, "x": jnp.arange(3.0)})


# Pages directly in docs/ with blocks of Python, and the tests that run them.
RUN_BY = {
    **dict.fromkeys(
        (
            *(
                "checkpoints.md",
                "data.md",
                "debugging.md",
                "explicit_sharding.md",
                "export.md",
                "extend.md",
            ),
            *(
                "linen.md",
                "pallas.md",
                "profiling.md",
                "refs.md",
                "see.md",
                "editors.md",
                "tour.md",
            ),
        ),
        "tests/structure/test_documents.py",
    ),
    "install.md": "tests/benchmarks/test_first_page.py",
    "command_line.md": "tests/documents/test_command_line.py",
    "library.md": "tests/programs/test_library_languages.py",
    "recipes.md": "tests/structure/test_contributing.py",
}
# Pages whose blocks are parts of programs, with names that a reader fills in.
FRAGMENTS = {"native.md", "processes.md", "clusters.md"}


def test_every_page_with_code_is_run() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    with_code = {name for name, text in pages.items() if "```python" in text}
    assert with_code == {*RUN_BY, *FRAGMENTS}
    for name, test in RUN_BY.items():
        assert name in (REPOSITORY / test).read_text(encoding="utf-8"), name
    for name in FRAGMENTS:
        for code, _ in steps(pages[name]):
            compile(code, name, "exec")
