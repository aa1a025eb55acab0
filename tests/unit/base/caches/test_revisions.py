"""The count of what was replaced moves for each replacement, and is never the same again."""

from __future__ import annotations

import ast
import threading

import kiln
from kiln.base.caches.revisions import revise, revision
from kiln.interpreters import ad, batching, mlir
from tests.structure.source_tree import KILN


def test_it_moves_and_is_never_the_same() -> None:
    seen: list[int] = []

    def work() -> None:
        seen.extend(revise() for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 400
    assert revision() in seen


def test_everything_that_is_replaced_moves_it() -> None:
    p = kiln.extend.core.Primitive("p")

    class Node:
        """A class that becomes a node."""

    def set_jvp() -> None:
        p.jvp = lambda primals, tangents: (primals[0], tangents[0])  # type: ignore[assignment]

    moves = [
        lambda: p.def_abstract_eval(lambda a: a),
        lambda: p.def_effectful_abstract_eval(lambda a: (a, set())),
        lambda: p.def_impl(lambda x: x),
        lambda: ad.primitive_jvps.__setitem__(p, lambda v, t: (v[0], t[0])),
        lambda: ad.primitive_jvps.__delitem__(p),
        lambda: batching.primitive_batchers.__setitem__(p, lambda a, d: (a[0], d[0])),
        lambda: mlir.register_lowering(p, mlir.lower_fun(lambda a: a, False)),
        lambda: mlir.register_lowering(p, mlir.lower_fun(lambda a: a, False)),
        lambda: mlir.register_lowering(p, mlir.lower_fun(lambda a: a, False), platform="cpu"),
        lambda: setattr(p, "multiple_results", False),
        set_jvp,
        lambda: kiln.tree_util.register_pytree_node(Node, lambda x: ((), None), lambda d, c: 0),
    ]
    for number, move in enumerate(moves):
        before, of_primitive = revision(), p.revision
        move()
        assert revision() != before, number
        assert p.revision != of_primitive or number == len(moves) - 1, number


def test_no_rule_is_set_past_the_count() -> None:
    # Through `vars` a rule would be replaced without `Primitive.__setattr__`.
    found = []
    for path in KILN.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Subscript):
                found += _of_primitives(target.value, path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("update", "pop", "setdefault", "__setitem__"):
                    found += _of_primitives(node.func.value, path)
    assert found == []


def _of_primitives(node: ast.expr, path: object) -> list[str]:
    """Return the place if a node is `vars(p)`, or `p.__dict__`, of what may be a primitive."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "vars" and node.args:
        node = node.args[0]
    elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
        node = node.value
    else:
        return []
    text = ast.unparse(node)
    return [f"{path}: {text}"] if text in ("prim", "primitive", "p") or text.endswith("_p") else []
