"""Which public functions say what their signatures do not: `python -m tests.structure.docstrings`.

A function is *silent* if its docstring is one paragraph, and it may raise an error that the
paragraph does not mention, or has a parameter that neither its name nor the paragraph explains.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping

from tests.structure.source_tree import Module, modules, rules

PLAIN = {"self", "cls", "x", "y", "xs", "ys", "shape", "dtype", "axis", "key", "name", "fun", "f"}
PLAIN |= {"tree", "args", "kwargs", "operand", "loc", "scale"}
"""Parameters that mean the same wherever they occur, and need no explanation."""
NAMED = re.compile(r"\b[Rr]ais|[Ee]rror")
"""What a docstring that mentions an error contains."""


@dataclasses.dataclass(frozen=True)
class Function:
    """A public function: the module that defines it, and its definition."""

    module: Module
    node: ast.FunctionDef

    @property
    def name(self) -> str:
        """The dotted name."""
        return f"{self.module.name}.{self.node.name}"

    @property
    def room(self) -> str:
        """The folder or file directly below `kiln` that holds it."""
        return self.module.name.split(".")[1]

    def doc(self) -> str:
        """Return the docstring."""
        return ast.get_docstring(self.node) or ""


def public_modules(tree: Mapping[str, Module]) -> list[Module]:
    """Return the modules that users import, except those of `kiln.numpy`."""
    layers = rules()["layers"]
    (surface,) = (set(row) for row in layers if rules()["surface"] in row)
    folders = surface - {"numpy"} | {"linen"}
    inner = {name for row in layers for name in row} | {"engines", "tools"}
    inner -= folders
    found = []
    for module in tree.values():
        parts = module.name.split(".")[1:]
        is_hidden = any(part.startswith("_") for part in parts)
        if module.path.suffix == ".py" and not is_hidden and (not parts or parts[0] not in inner):
            found.append(module)
    return found


def exported(module: Module) -> Iterator[tuple[str, str]]:
    """Yield where a module has its public names from: a module and a name in it."""
    listed: set[str] = set()
    imports: list[ast.ImportFrom] = []
    for node in at_top(module.tree.body):
        if isinstance(node, ast.ImportFrom):
            imports.append(node)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed |= {x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant)}
    for node in imports:
        for alias in node.names:
            name = alias.asname or alias.name
            is_public = alias.asname is not None or name in listed
            if is_public and node.module is not None and not name.startswith("_"):
                yield node.module, alias.name


def at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those in `if`, `with` and `try` as well."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.With, ast.Try)):
            yield from at_top(node.body)


def definition(tree: Mapping[str, Module], module: str, name: str) -> Function | None:
    """Return the function of a name in a module, which may have it from another one."""
    where = tree.get(module)
    if where is None or where.path.suffix == ".pyi":
        return None
    # The last of several definitions: those before it are overloads.
    for node in reversed(where.tree.body):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Function(where, node)
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if name == (alias.asname or alias.name) and (node.module, alias.name) != (
                    module,
                    name,
                ):
                    return definition(tree, node.module, alias.name)
    return None


def public_functions(tree: Mapping[str, Module]) -> list[Function]:
    """Return the functions that public modules define or name, each once, without `kiln.numpy`."""
    found: dict[str, Function] = {}
    for module in public_modules(tree):
        own = [(module.name, n.name) for n in module.tree.body if isinstance(n, ast.FunctionDef)]
        for where, name in (*own, *exported(module)):
            function = None if name.startswith("_") else definition(tree, where, name)
            if function is not None and not function.module.name.startswith("kiln.numpy"):
                found[function.name] = function
    return [found[name] for name in sorted(found)]


def can_raise(function: Function) -> bool:
    """Tell whether a function, or a private one of its file that it calls, raises an error."""
    private = {
        node.name: node
        for node in function.module.tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_")
    }
    calls = (
        node.func.id
        for node in ast.walk(function.node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    bodies = [function.node, *(private[name] for name in calls if name in private)]
    return any(
        isinstance(node, ast.Raise) and node.exc is not None
        for body in bodies
        for node in ast.walk(body)
    )


def unexplained(function: Function, doc: str) -> list[str]:
    """Return the parameters that neither their names nor a docstring explain."""
    arguments = function.node.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    listed += [x for x in (arguments.vararg, arguments.kwarg) if x is not None]
    names = [x.arg for x in listed if x.arg not in PLAIN and not x.arg.startswith("_")]
    return [name for name in names if not mentions(doc, name)]


def mentions(doc: str, name: str) -> bool:
    """Tell whether a docstring mentions a parameter: by its name, in quotes if it is short."""
    if len(name) > 2:
        return re.search(rf"\b{name}\b", doc) is not None
    return any(re.search(rf"\b{name}\b", code) for code in re.findall(r"`([^`]+)`", doc))


def needs_words(function: Function) -> bool:
    """Tell whether there is something that the signature of a function does not say."""
    return bool(unexplained(function, "")) or can_raise(function)


def is_silent(function: Function) -> bool:
    """Tell whether a function does not say what its signature does not."""
    doc = function.doc()
    if "\n\n" in doc:
        return False
    return bool(unexplained(function, doc)) or (can_raise(function) and not NAMED.search(doc))


def shares(functions: list[Function]) -> dict[str, tuple[int, int]]:
    """Return for each room how many functions say what they have to, of those that have to."""
    found: dict[str, tuple[int, int]] = {}
    for function in filter(needs_words, functions):
        said, count = found.get(function.room, (0, 0))
        found[function.room] = said + (not is_silent(function)), count + 1
    return found


def main(rooms: list[str]) -> None:
    """Print the share of each room, and the silent functions of those that are named."""
    functions = public_functions(modules())
    table = shares(functions)
    for room, (said, count) in sorted(table.items()):
        print(f"{room:20} {said:4} of {count:4}  {said / count:4.0%}")
    said, count = (sum(column) for column in zip(*table.values(), strict=True))
    print(f"{'all':20} {said:4} of {count:4}  {said / count:4.0%}")
    for function in functions:
        if function.room in rooms and is_silent(function):
            wrong = [
                *unexplained(function, function.doc()),
                *(["raises"] if can_raise(function) else []),
            ]
            print(f"{function.name}: {', '.join(wrong)}")


if __name__ == "__main__":
    main(sys.argv[1:])
