"""Programs of jax as lists of equations, written in a form that both libraries can be brought to.

`python -m tests.differential.jaxprs` asks jax and writes `data/jaxprs.txt`. What the form leaves out
is what kiln leaves out on purpose: parameters about shardings and layouts, the `jit` equations that
jax's own numpy functions are wrapped in, the types of literals, the difference between `add` and
`add_any`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential.expressions import names

DATA = Path(__file__).parent / "data" / "jaxprs.txt"

PROGRAMS = """
    (lambda x: jnp.sin(x) * 2)(f(3))
    (lambda x, y: (x + y, x - y, -x))(f(3), f(3))
    (lambda x: jnp.log(2.0))(f(3))
    (lambda x: x + 1)(f(3))
    (lambda x: 1 - x)(i(3))
    (lambda x: x * 2.5)(i(3))
    (lambda x, y: x + y)(f(2, 3), f(3))
    (lambda x, y: x * y)(i(3), f(3))
    (lambda x, y: x * y)(bf(3), f(3))
    (lambda x, y: x @ y)(f(2, 3), f(3, 4))
    (lambda x, y: x @ y)(f(3), f(3))
    (lambda x, y: jnp.matmul(x, y))(f(2, 2, 3), f(2, 3, 4))
    (lambda x: jnp.sum(x))(f(2, 3))
    (lambda x: jnp.sum(x, axis=0))(i8(2, 3))
    (lambda x: jnp.mean(x, axis=1, keepdims=True))(f(2, 3))
    (lambda x: (x.max(), x.min(), x.prod()))(f(2, 3))
    (lambda x: (jnp.any(x), jnp.all(x)))(b(2, 3))
    (lambda x: (jnp.argmax(x, 1), jnp.cumsum(x, 0)))(f(2, 3))
    (lambda x: x[1:])(f(3))
    (lambda x: x[0])(f(3, 2))
    (lambda x: x[::2, None])(f(4))
    (lambda x, k: x[k])(f(4, 2), i())
    (lambda x, k: x[k])(f(4, 2), arr([0, 2]))
    (lambda x: x.at[0].set(1.0))(f(3))
    (lambda x: x.at[1:].add(2.0))(f(3))
    (lambda x: jnp.where(x > 0, x, 0))(f(3))
    (lambda x: jnp.maximum(x, 0))(f(3))
    (lambda x: jnp.clip(x, -1, 1))(f(3))
    (lambda x: (x ** 2, x ** -1, x ** 0.5, 2 ** x))(f(3))
    (lambda x: (x / 2, 1 / x, jnp.sqrt(x), jnp.square(x)))(f(3))
    (lambda x: (x / 2, x // 2, x % 2))(i(3))
    (lambda x: (x < 1, x == 2, ~(x > 0), (x > 0) & (x < 1)))(f(3))
    (lambda x: jnp.concatenate([x, x]))(f(2, 3))
    (lambda x: jnp.stack([x, x], axis=1))(f(2, 3))
    (lambda x: (x.reshape(3, 2), x.T, x.ravel(), x[None]))(f(2, 3))
    (lambda x: jnp.broadcast_to(x, (2, 3)))(f(3))
    (lambda x: (x.astype(np.int32), x.astype(np.float32)))(f(3))
    (lambda x: (jnp.zeros(3), jnp.ones((2,), np.int32), jnp.full((2,), x), jnp.arange(3)))(f())
    (lambda x: (jnp.zeros_like(x), jnp.ones_like(x)))(f(2))
    (lambda x: (jnp.tanh(x), jnp.exp(x), jnp.log1p(x), jnp.abs(x), jnp.sign(x)))(f(3))
    (lambda x: jnp.einsum('ij,kj->ik', x, x))(f(2, 3))
    (lambda x: (x.mT, jnp.swapaxes(x, 0, 2), jnp.moveaxis(x, 0, -1), jnp.flip(x, 1)))(f(2, 3, 4))
    (lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))(f())
    (lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, lambda x: x], x))(i(), f(3))
    (lambda x: lax.while_loop(lambda x: x < 10, lambda x: x * 2, x))(f())
    (lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x)))(f())
    (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x))(f())
    (lambda x, n: lax.fori_loop(0, n, lambda i, c: c + i, x))(f(), i())
    (lambda x: lax.scan(lambda c, a: (c + a, c * a), 0.0, x))(f(3))
    (lambda x, y: lax.scan(lambda c, a: (c * y, c), x, None, length=2, reverse=True))(f(3), f(3))
    (lambda x: jax.jit(lambda a: jnp.sin(a))(x) * 2)(f(3))
    (lambda x: jax.grad(lambda a: jnp.sum(jnp.sin(a) * a))(x))(f(3))
    (lambda x, y: jax.grad(lambda a: jnp.sum(jnp.tanh(a @ y)))(x))(f(2, 3), f(3))
    (lambda x: jax.jvp(lambda a: a * jnp.exp(a), (x,), (x,)))(f(3))
    (lambda x: jax.value_and_grad(lambda a: a ** 3)(x))(f())
    (lambda x: jax.grad(lambda a: jnp.sum(a[1:] * 2))(x))(f(3))
    (lambda x: jax.vmap(lambda a: jnp.dot(a, a))(x))(f(2, 3))
    (lambda x, y: jax.vmap(lambda a: a @ y)(x))(f(4, 2), f(2, 3))
    (lambda x: jax.vmap(lambda a: a.sum() + a)(x))(f(2, 3))
    (lambda x: jax.vmap(lambda a: lax.scan(lambda c, b: (c + b, c), 0.0, a)[0])(x))(f(2, 3))
    (lambda x: jax.hessian(lambda a: a * a * a)(x))(f())
    (lambda x: lax.stop_gradient(x) * x)(f(3))
    (lambda x: jax.tree.map(lambda a: a + 1, x))({'b': f(), 'a': (i(2), None)})
    (lambda x: (x, x, 1, np.float32(2)))(f(3))
"""

_FOLDED = "constants are converted while tracing"
_BROADCAST = "operands are broadcast to the full shape at once"
DIFFERENT: dict[str, str] = {
    "(lambda x, y: x + y)(f(2, 3), f(3))": _BROADCAST,
    "(lambda x: jax.vmap(lambda a: a.sum() + a)(x))(f(2, 3))": _BROADCAST,
    "(lambda x: jnp.mean(x, axis=1, keepdims=True))(f(2, 3))": "the division is by row",
    "(lambda x: x[::2, None])(f(4))": "the limit is where the last element is",
    "(lambda x, k: x[k])(f(4, 2), i())": "a start known to be 0 is not made positive",
    "(lambda x: x.at[0].set(1.0))(f(3))": "a known place is not a scatter",
    "(lambda x: x.at[1:].add(2.0))(f(3))": "a known place is not a scatter",
    "(lambda x: jnp.where(x > 0, x, 0))(f(3))": _FOLDED,
    "(lambda x: jnp.clip(x, -1, 1))(f(3))": _FOLDED,
    "(lambda x: (x / 2, x // 2, x % 2))(i(3))": _FOLDED,
    "(lambda x: jnp.stack([x, x], axis=1))(f(2, 3))": "stack is a concatenation",
    "(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + i, x))(f(), i())": "the end is a constant",
    "(lambda x, y: jax.grad(lambda a: jnp.sum(jnp.tanh(a @ y)))(x))(f(2, 3), f(3))": "1 - y * y",
    "(lambda x: jax.grad(lambda a: jnp.sum(a[1:] * 2))(x))(f(3))": "Python ints in parameters",
    "(lambda x: jax.vmap(lambda a: lax.scan(lambda c, b: (c + b, c), 0.0, a)[0])(x))(f(2, 3))": (
        "the order of two independent equations"
    ),
    "(lambda x: jax.hessian(lambda a: a * a * a)(x))(f())": "the unit vectors are constants",
}
"""Programs traced to other equations of the same meaning, and how they differ."""

# About where data lie, how they are laid out, or how jax itself evaluates the equation.
LEFT_OUT = {
    "sharding",
    "out_sharding",
    "in_shardings",
    "out_shardings",
    "in_layouts",
    "out_layouts",
    "donated_invars",
    "ctx_mesh",
    "keep_unused",
    "inline",
    "compiler_options_kvs",
    "accuracy",
    "linear",
    "memory_kind",
    "out_dtype",
}

RENAMED = {"add_any": "add", "pjit": "jit"}


def text_of(lib: Any, program: str) -> str:
    """Return the equations of a program."""
    function, _, arguments = program[1:].rpartition(")(")
    scope = names(lib)
    closed = lib.make_jaxpr(eval(function, scope))(*eval(f"({arguments[:-1]},)", scope))
    writer = _Writer()
    return "\n".join(writer.program(closed.jaxpr, ""))


def programs() -> list[str]:
    """Return the programs."""
    return [line.strip() for line in PROGRAMS.splitlines() if line.strip()]


class _Writer:
    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.kept: list[Any] = []
        self.count = 0

    def name(self, atom: Any) -> str:
        if hasattr(atom, "val"):
            value = np.asarray(atom.val)
            return str(value.item()) if value.ndim == 0 else str(value.tolist())
        if id(atom) not in self.names:
            self.names[id(atom)] = f"v{self.count}"
            self.count += 1
            self.kept.append(atom)
        return self.names[id(atom)]

    def typed(self, var: Any) -> str:
        return f"{self.name(var)}:{var.aval.str_short(short_dtypes=True)}"

    def program(self, jaxpr: Any, indent: str) -> list[str]:
        heads = [*jaxpr.constvars, *jaxpr.invars]
        lines = [f"{indent}lambda {' '.join(map(self.typed, heads))}".rstrip()]
        lines += self.equations(jaxpr, indent + "  ")
        return [*lines, f"{indent}in {' '.join(map(self.name, jaxpr.outvars))}".rstrip()]

    def equations(self, jaxpr: Any, indent: str) -> Iterator[str]:
        for eqn in jaxpr.eqns:
            name = RENAMED.get(eqn.primitive.name, eqn.primitive.name)
            if name == "jit" and eqn.params["name"] != "<lambda>":
                yield from self.inlined(eqn, indent)
                continue
            outs = [self.typed(v) for v in eqn.outvars]
            operands = [self.name(v) for v in eqn.invars]
            params, inner = self.params(eqn.params, indent + "    ")
            yield f"{indent}{' '.join(outs)} = {name}{params} {' '.join(operands)}".rstrip()
            yield from inner

    def inlined(self, eqn: Any, indent: str) -> Iterator[str]:
        body = getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"])
        for inner, outer in zip(body.invars, eqn.invars, strict=True):
            self.names[id(inner)] = self.name(outer)
            self.kept.append(inner)
        yield from self.equations(body, indent)
        for inner, outer in zip(body.outvars, eqn.outvars, strict=True):
            self.names[id(outer)] = self.name(inner)
            self.kept.append(outer)

    def params(self, params: dict[str, Any], indent: str) -> tuple[str, list[str]]:
        plain, inner = [], []
        for key in sorted(params):
            value = params[key]
            if key in LEFT_OUT or key.startswith("_"):
                continue
            bodies = value if isinstance(value, tuple) else (value,)
            if bodies and all(hasattr(body, "eqns") for body in bodies):
                for body in bodies:
                    inner += self.program(getattr(body, "jaxpr", body), indent)
            else:
                plain.append(f"{key}={_short(value)}")
        return (f"[{' '.join(plain)}]" if plain else ""), inner


def _short(value: Any) -> str:
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    return str(value)


def stored() -> dict[str, str]:
    """Return jax's answers by program."""
    found = {}
    for part in DATA.read_text(encoding="utf-8").split("\n\n"):
        program, _, text = part.strip().partition("\n")
        found[program] = text
    return found


def main() -> None:
    """Ask jax and write the answers."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    importlib.import_module("jax.numpy")
    parts = [f"{program}\n{text_of(jax, program)}" for program in programs()]
    DATA.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
