"""The site: what its sources are made of, and the checks of the built pages.

`make site` builds it with Sphinx, which tests do not need.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from pathlib import Path

import pytest

from tests.structure.source_tree import KILN, REPOSITORY
from website import assemble, check, reference
from website.docstrings import to_rst
from website.names import pages, public

# Public modules without a page: they spell names of other modules as JAX does, or hold modules.
WITHOUT_PAGE = {
    *("ad_checkpoint", "api_util", "core", "custom_derivatives", "dtypes", "example_libraries"),
    *("experimental", "extend", "interpreters", "lib", "scipy", "test_util", "threadpool"),
    *("as_jax", "jit", "api"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sources of the site."""
    folder = tmp_path_factory.mktemp("site")
    assemble.write(folder, lambda path: path.name)
    return folder


def test_every_public_name_has_an_entry(site: Path) -> None:
    text = "\n".join(path.read_text() for path in (site / "source" / "reference").glob("*.rst"))
    entries = set(re.findall(r"(?m)^(?:\.\. py:\w+::|             ) ([\w.]+)", text))
    for module in ("", "numpy", "lax", "random", "nn", "linen", "scipy.special", "scipy.linalg"):
        holder = importlib.import_module(f"kiln.{module}".rstrip("."))
        listed = getattr(holder, "__all__", None) or vars(holder)
        for name in listed:
            value = getattr(holder, name)
            home = str(getattr(inspect.unwrap(value), "__module__", ""))
            if name.startswith("_") or isinstance(value, types.ModuleType):
                continue
            if hasattr(holder, "__all__") or home.startswith("kiln"):
                assert f"{holder.__name__}.{name}" in entries, name
    assert len(entries) > 1400


def test_every_module_that_users_import_has_a_page() -> None:
    listed = {slug for _, slug, _, names in pages() if names}
    missing = []
    for path in KILN.iterdir():
        name = path.stem
        if path.name.startswith("_") or not (
            path.suffix == ".py" or (path / "__init__.py").exists()
        ):
            continue
        text = (KILN / "README.md").read_text(encoding="utf-8").split("| modules that programs")[1]
        if f"`{name}`" in text and name not in WITHOUT_PAGE:
            missing += [name] if not any(slug.startswith(name) for slug in listed) else []
    assert missing == []


def test_every_document_is_in_the_navigation(site: Path) -> None:
    text = (site / "source" / "index.md").read_text(encoding="utf-8")
    trees = set(re.findall(r"(?ms)^```{toctree}.*?```", text))
    entries = {line for tree in trees for line in tree.splitlines()}
    documents = {path.relative_to(assemble.DOCS) for path in assemble.DOCS.rglob("*.md")}
    assert {str(path.with_suffix("")) for path in documents} - entries == set()


@pytest.mark.tree
def test_links_lead_to_pages_of_the_site(site: Path) -> None:
    dead = []
    for page in (site / "source").rglob("*.md"):
        text = assemble.CODE.sub("", page.read_text(encoding="utf-8"))
        for _, _, goal in assemble.LINK.findall(text):
            path = goal.partition("#")[0]
            if path and not (page.parent / path).exists():
                dead.append((page.name, goal))
        for goal in re.findall(r'<a href="([^"]+)"', text):
            place = page.parent.relative_to(site / "source")
            if not (site / "extra" / place / goal).resolve().exists():
                dead.append((page.name, goal))
    assert dead == []


@pytest.mark.tree
def test_entries_show_their_source() -> None:
    names = list(public("numpy"))
    found = [reference.source_of(name.value) for name in names]
    assert sum(x is not None for x in found) > 0.95 * len(names)
    (path, line) = next(x for x, name in zip(found, names, strict=True) if x and name.name == "sum")
    source = (REPOSITORY / "src" / path).read_text(encoding="utf-8").splitlines()
    assert "def sum(" in "\n".join(source[line - 1 : line + 2])


def test_docstrings_become_restructured_text() -> None:
    text = (
        "Return `x`s * 2 of key_.\n\n- one *a*\n- two\n\nRaises: ValueError if `x`\n    is 3.\n"
        "Example:\n    >>> 1 + 1\n\n    2\n"
    )
    assert to_rst(text) == [
        "Return ``x``\\ s \\* 2 of key\\_.",
        "",
        "- one \\*a\\*",
        "- two",
        "",
        "**Raises:** ValueError if ``x`` is 3.",
        "",
        ".. code-block:: pycon",
        "",
        "   >>> 1 + 1",
        "   ",
        "   2",
        "",
    ]


def test_a_bad_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here">good `code` <code>`x`</code></p><a href="b.html">x</a><a href="#here">y</a>'
        '<a href="#there">z</a><script src="https://example.org/a.js"></script>'
        '<a href="https://example.org">w</a>'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url('//example.org/font') }")
    assert list(check.problems(tmp_path)) == [
        "a.html loads https://example.org/a.js",
        "a.html links to b.html, which is not there",
        "a.html links to #there, which has no such anchor",
        "a.html shows '`code`'",
        "a.css loads from another host",
    ]
