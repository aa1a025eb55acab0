"""The pages of the reference, written from docstrings."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from website.docstrings import to_rst
from website.names import Name, pages, values

REPOSITORY = Path(__file__).resolve().parents[1]
LAST = {"numpy": "numpy_dtypes_printing_the_rest", "lax": "lax_the_rest"}
"""The last page of each module that has several."""
SOURCES = "sources"
"""The folder of the site with the pages of sources."""


def source_of(value: Any) -> tuple[Path, int] | None:
    """Return the file, below `src`, and the line that define a function or class."""
    plain = inspect.unwrap(value)
    try:
        path = inspect.getsourcefile(plain)
        line = inspect.getsourcelines(plain)[1]
    except (TypeError, OSError):
        return None
    source = REPOSITORY / "src"
    found = Path(path or "").resolve()
    return (found.relative_to(source), line) if found.is_relative_to(source) else None


def signature_of(value: Any) -> str:
    """Return the parameters of a function or class, with defaults and without types."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    bare = [
        x.replace(annotation=inspect.Parameter.empty)
        for x in signature.parameters.values()
        if not x.name.startswith("_")
    ]
    try:
        shown = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    except ValueError:
        return "(...)"
    # Defaults that are objects print their address.
    return shown if "<" not in shown and len(shown) < 600 else _short(bare)


def _short(parameters: list[inspect.Parameter]) -> str:
    shown = [
        f"{x.name}=..." if x.default is not x.empty else str(x.replace(default=x.empty))
        for x in parameters
    ]
    return f"({', '.join(shown)})"


def entry(names: list[Name]) -> Iterator[str]:
    """Yield the lines of an entry: the names of one function or class, and its docstring."""
    value = names[0].value
    kind = "class" if inspect.isclass(value) else "function"
    yield f".. py:{kind}:: {names[0].dotted}{signature_of(value)}"
    for other in names[1:]:
        yield f"              {other.dotted}{signature_of(other.value)}"
    yield ""
    body = to_rst(inspect.getdoc(value) or "")
    yield from (f"   {line}".rstrip() for line in body)
    if inspect.isclass(value):
        yield from methods(value)
    where = source_of(value)
    if where is not None:
        path, line = where
        yield f"   `source <../{SOURCES}/src/{path}.html#line-{line}>`__"
        yield ""


def methods(value: type) -> Iterator[str]:
    """Yield the entries of the documented methods that a class defines itself."""
    for name, member in vars(value).items():
        doc = inspect.getdoc(member) if inspect.isfunction(member) else None
        if doc and not name.startswith("_"):
            shown = signature_of(member).replace("(self, ", "(").replace("(self)", "()")
            yield f"   .. py:method:: {name}{shown}"
            yield ""
            yield from (f"      {line}".rstrip() for line in to_rst(doc))


def groups(names: list[Name]) -> list[list[Name]]:
    """Return names in alphabetical order, aliases with the first of them."""
    found: dict[int, list[Name]] = {}
    for name in names:
        found.setdefault(id(inspect.unwrap(name.value)), []).append(name)
    return sorted(found.values(), key=lambda group: group[0].name.lower())


def value_entry(name: Name) -> list[str]:
    """Return the lines of the entry of a constant, a dtype, a primitive or a type alias."""
    value = name.value
    home = str(getattr(value, "__module__", ""))
    doc = (inspect.getdoc(value) or "").partition("\n")[0]
    if name.name.endswith("_p"):
        said = f"The primitive `{value.name}`. {doc}"
    elif isinstance(value, (int, float, str, frozenset, types.NoneType)):
        said = f"The value `{value!r}`."
    elif home.partition(".")[0] == "numpy":
        said = f"NumPy's `{name.name}`, unchanged."
    elif isinstance(value, (types.UnionType, types.GenericAlias)) or value is Any:
        said = "A type for annotations."
    else:
        said = doc
    return [f".. py:data:: {name.dotted}", "", *(f"   {x}".rstrip() for x in to_rst(said))]


def page(title: str, names: list[Name], others: list[Name]) -> str:
    """Return the text of a page: the entries of functions and classes, then those of others."""
    lines = [title, "=" * len(title), ""]
    for group in groups(names):
        lines += entry(group)
    for name in others:
        lines += value_entry(name)
    return "\n".join(lines) + "\n"


def write(folder: Path) -> list[str]:
    """Write all pages into a folder; return their names, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for module, slug, title, names in pages():
        # Other values are on the last page of their module.
        others = list(values(module)) if slug == LAST.get(module, slug) else []
        if names:
            (folder / f"{slug}.rst").write_text(page(title, names, others), encoding="utf-8")
            written.append(slug)
    return written
