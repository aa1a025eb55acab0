"""The sources of the site: documents with their links adapted, the reference, pages of sources."""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from website import notebooks, reference
from website.names import MODULES, pages

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
NOTEBOOKS = REPOSITORY / "examples" / "notebooks"
LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)\s:]+)\)")
CODE = re.compile(r"(```.*?```)", re.DOTALL)
# Documents outside docs/ that are pages, and their place.
MOVED = {"CHANGELOG.md": "whats_new.md", "CONTRIBUTING.md": "contributing.md"}
# The notebooks, in the order in which the first of them names them.
SUBJECTS = "tour simulation regression neural_network mcmc images devices debugging"
# Pages about the implementation, in the order in which docs/README.md reads them.
INSIDE = """
    README install tour glossary linen debugging see profiling editors command_line extend refs
    pallas explicit_sharding checkpoints data export library platforms processes clusters security
    libraries content eager cache threads_and_signals native hooks scale special elementary
    primitives options differences recipes testing style
"""


def place(path: Path) -> str | None:
    """Return where a file of the repository is in the site, if it is a page or a figure."""
    if path.is_relative_to(DOCS) and path.suffix == ".md":
        return str(path.relative_to(DOCS))
    if path.parent == NOTEBOOKS and path.suffix == ".ipynb":
        return f"notebooks/{path.stem}.md"
    name = str(path.relative_to(REPOSITORY))
    if path.suffix in (".svg", ".png"):
        return f"figures/{path.name}"
    return "index.md" if name == "README.md" else MOVED.get(name)


def adapted(text: str, page: Path, shown: Callable[[Path], None]) -> str:
    """Return a document whose links lead to pages of the site; report other files to `shown`."""
    here = Path(place(page) or page.name).parent

    def link(found: re.Match[str]) -> str:
        image, words, goal = found.groups()
        path, _, anchor = goal.partition("#")
        if not path:
            return found[0]
        target = (page.parent / path).resolve()
        target = target / "README.md" if target.is_dir() else target
        if not target.exists():
            # The reference, which is written.
            return found[0]
        shown(target)
        there = place(target)
        if there is not None:
            return (
                f"{image}[{words}]({os.path.relpath(there, here)}{'#' + anchor if anchor else ''})"
            )
        inside = f"{reference.SOURCES}/{target.relative_to(REPOSITORY)}.html"
        words = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(words, quote=False))
        return f'<a href="{os.path.relpath(inside, here)}">{words}</a>'

    parts = CODE.split(text)
    return "".join(part if i % 2 else LINK.sub(link, part) for i, part in enumerate(parts))


def source_page(path: Path) -> str:
    """Return a file as a page with an anchor for each line, in colors for light and dark."""
    text = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    light = HtmlFormatter(linenos="inline", lineanchors="line", style="default")
    dark = HtmlFormatter(style="monokai").get_style_defs("pre")
    title = html.escape(str(path.relative_to(REPOSITORY)))
    style = f"{light.get_style_defs('pre')} @media (prefers-color-scheme: dark) {{ {dark} }}"
    body = highlight(text, lexer, light)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style><h1>{title}</h1>{body}"
    )


def toctree(caption: str, entries: list[str]) -> str:
    """Return a part of the navigation."""
    lines = "\n".join(entries)
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def navigation(written: list[str]) -> str:
    """Return the navigation, of all pages."""
    start = ["start/start_here"]
    coming = [f"start/{path.stem}" for path in sorted((DOCS / "start").glob("from_*.md"))]
    recipes = [f"howto/{path.stem}" for path in sorted((DOCS / "howto").glob("*.md"))]
    recipes.sort(key=lambda name: not name.endswith("README"))
    parts = [
        toctree("Start here", start),
        toctree("Coming from", coming),
        toctree("How to", recipes),
        toctree("Notebooks", [f"notebooks/{name}" for name in SUBJECTS.split()]),
        toctree("Reference", ["reference/index"]),
        toctree("Inside", [*INSIDE.split(), "contributing"]),
        toctree("Performance", ["performance"]),
        toctree("What's new", ["whats_new"]),
    ]
    return "\n".join(parts)


def reference_index(written: list[str]) -> str:
    """Return the page that lists the pages of the reference, with their names."""
    lines = ["Reference", "=========", ""]
    lines += ["Every public function and class, by module. The search finds each by its name.", ""]
    for _, slug, title, names in pages():
        if slug in written:
            shown = ", ".join(f"``{name.name}``" for name in names)
            lines += [f":doc:`{title} <{slug}>`", f"   {shown}", ""]
    assert len(written) >= len(MODULES)
    tree = [".. toctree::", "   :hidden:", "", *(f"   {slug}" for slug in written), ""]
    return "\n".join([*lines, *tree])


def write(folder: Path, render: Callable[[Path], str] = source_page) -> None:
    """Write the sources of the site into a folder, and what is copied as it is into another.

    `render` makes the page of a source file.
    """
    source, extra = folder / "source", folder / "extra"
    for old in (source, extra):
        shutil.rmtree(old, ignore_errors=True)
    shown: set[Path] = set()
    documents = [*DOCS.rglob("*.md"), *(REPOSITORY / name for name in MOVED)]
    for page in documents:
        target = source / str(place(page))
        target.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        target.write_text(adapted(text, page, shown.add), encoding="utf-8")
    for path in NOTEBOOKS.glob("*.ipynb"):
        target = source / str(place(path))
        text = notebooks.page(path, target.parent)
        target.write_text(adapted(text, path, shown.add), encoding="utf-8")
    written = reference.write(source / "reference")
    (source / "reference" / "index.rst").write_text(reference_index(written), encoding="utf-8")
    front = REPOSITORY / "website" / "index.md"
    text = adapted(front.read_text(encoding="utf-8"), DOCS / "index.md", shown.add)
    (source / "index.md").write_text(f"{text}\n{navigation(written)}", encoding="utf-8")
    for *_, names in pages():
        where = [reference.source_of(name.value) for name in names]
        shown.update(REPOSITORY / "src" / found[0] for found in where if found is not None)
    for path in sorted(shown):
        there = place(path)
        if there is None:
            made = extra / reference.SOURCES / f"{path.relative_to(REPOSITORY)}.html"
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(render(path), encoding="utf-8")
        elif there.startswith("figures/"):
            (source / "figures").mkdir(exist_ok=True)
            shutil.copy(path, source / there)
