"""Random well-typed programs, as Python source.

A program is written line by line: a step takes values already there and adds one. Values stay of
moderate size, and comparisons keep away from numbers that rounding could put on either side, so
that engines and finite differences can be held to tight tolerances.
"""

from __future__ import annotations

import dataclasses
import itertools
import linecache
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import lax

Shape = tuple[int, ...]
MOST_ELEMENTS = 48
MOST_AXES = 3
_numbers = itertools.count()


@kiln.custom_jvp
def bump(x: Any) -> Any:
    """A smooth function with its own derivative."""
    return jnp.exp(-x * x)


@bump.defjvp
def _bump_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = bump(x)
    return out, -2.0 * x * out * t


@kiln.custom_vjp
def ramp(x: Any) -> Any:
    """A smooth function with its own reverse derivative."""
    return jnp.sqrt(1.0 + x * x)


ramp.defvjp(lambda x: (ramp(x), (x, ramp(x))), lambda kept, ct: (ct * kept[0] / kept[1],))


def logsumexp(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """The logarithm of a sum of exponentials, shifted by the largest."""
    top = lax.stop_gradient(jnp.max(x, axis=axis, keepdims=True))
    out = top + jnp.log(jnp.sum(jnp.exp(x - top), axis=axis, keepdims=True))
    return out if keepdims else jnp.squeeze(out, axis)


def softmax(x: Any, axis: Any) -> Any:
    """Exponentials divided by their sum."""
    return jnp.exp(x - logsumexp(x, axis, True))


@dataclasses.dataclass(frozen=True)
class Program:
    """The source of a function `program`, shapes of arguments and results, a seed of values."""

    source: str
    shapes: tuple[Shape, ...]
    seed: int
    results: tuple[Shape, ...] = ()

    @property
    def function(self) -> Callable[..., Any]:
        """A new function of that source."""
        namespace = {"kiln": kiln, "jnp": jnp, "lax": lax, "bump": bump, "ramp": ramp}
        namespace |= {"logsumexp": logsumexp, "softmax": softmax}
        # Tracebacks then show the lines, and equal failures have equal texts.
        name = f"<program {zlib.crc32(self.source.encode()):08x}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        exec(compile(self.source, name, "exec"), namespace)
        return namespace["program"]  # type: ignore[return-value]

    def inputs(self, dtype: Any = np.float32, turn: int = 0) -> list[Any]:
        """Return arguments; another `turn` gives other values."""
        rng = np.random.default_rng([self.seed, turn])
        return [jnp.asarray(rng.uniform(-2, 2, shape).astype(dtype)) for shape in self.shapes]

    def scalar(self) -> Callable[..., Any]:
        """Return the program followed by a weighted sum of its results."""
        function = self.function

        def scalar(*args: Any) -> Any:
            leaves = kiln.tree.leaves(function(*args))
            return sum(jnp.sum(jnp.sin(x + i)) for i, x in enumerate(leaves))

        return scalar

    def __repr__(self) -> str:
        return f"\n{self.source}\n# shapes {self.shapes}, seed {self.seed}\n"


class _Writer:
    """Writes one function: its lines, and the values that its next line may use."""

    def __init__(self, draw: Any, allowed: frozenset[str], depth: int, indent: str) -> None:
        self.draw = draw
        self.allowed = allowed
        self.depth = depth
        self.indent = indent
        self.lines: list[str] = []
        self.values: list[tuple[str, Shape]] = []

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def name(self) -> str:
        return f"v{next(_numbers)}"

    def add(self, text: str, shape: Shape) -> None:
        """Write `name = text`; what would be too large is reduced."""
        if int(np.prod(shape, dtype=int)) > MOST_ELEMENTS or len(shape) > MOST_AXES:
            text, shape = f"jnp.mean({text}, axis=0)", shape[1:]
            if int(np.prod(shape, dtype=int)) > MOST_ELEMENTS or len(shape) > MOST_AXES:
                text, shape = f"jnp.mean({text})", ()
        name = self.name()
        self.line(f"{name} = {text}")
        self.values.append((name, shape))

    def pick(self, ok: Callable[[Shape], bool] = lambda shape: True) -> tuple[str, Shape] | None:
        """Return a value, the newest ones first in Hypothesis' eyes."""
        found = [value for value in reversed(self.values) if ok(value[1])]
        return self.choose(found) if found else None

    def function(
        self, arguments: list[Shape], result: Shape | None, steps: int
    ) -> tuple[str, Shape]:
        """Write a nested function; its result has the shape `result` if one is asked for."""
        parameters = [(self.name(), shape) for shape in arguments]
        name = f"f{next(_numbers)}"
        inner = _Writer(self.draw, self.allowed, self.depth + 1, self.indent + "    ")
        inner.values = [*self.values, *parameters]
        for _ in range(self.number(1, steps)):
            inner.step()
        value, shape = inner.values[-1]
        if result is not None and shape != result:
            value, shape = f"jnp.zeros({result}) + 0.1 * jnp.sum({value})", result
        self.line(f"def {name}({', '.join(p for p, _ in parameters)}):")
        self.lines += inner.lines
        self.line(f"    return {value}")
        return name, shape

    def step(self) -> None:
        """Write one step of a kind that fits the values there are."""
        kinds = [
            step
            for step, needs in STEPS
            if (needs is None or needs in self.allowed) and (self.depth < 2 or step not in NESTING)
        ]
        before = len(self.values)
        self.choose(kinds)(self)
        if len(self.values) == before:
            _unary(self)


UNARY = """
    jnp.tanh({0})|jnp.sin({0})|jnp.cos({0})|-{0}|0.5 * {0}|{0} + 0.75|jnp.abs({0})
    jnp.exp(-{0} * {0})|jnp.sqrt(1.0 + {0} ** 2)|jnp.maximum({0}, 0.0)|lax.logistic({0})
    jnp.arctan({0})|jnp.log1p(jnp.abs({0}))|jnp.clip({0}, -1.5, 1.25)|jnp.square(jnp.sin({0}))
    jnp.where({0} > 0.2718, {0}, 0.1 * {0})|1.0 / (1.5 + jnp.abs({0}))|bump({0})
    softmax({0}, None)|lax.erf({0})|lax.rsqrt(1.0 + {0} ** 2)
    lax.stop_gradient({0}) * {0}|jnp.expm1(jnp.tanh({0}))|lax.integer_pow(jnp.sin({0}), 3)
""".replace("\n", "|").split("|")
UNARY = [text.strip() for text in UNARY if text.strip()]

BINARY = [
    "{0} + {1}",
    "{0} - {1}",
    "{0} * jnp.tanh({1})",
    "jnp.maximum({0}, {1})",
    "jnp.minimum({0}, 0.5 * {1})",
    "{0} / (1.0 + {1} ** 2)",
    "jnp.arctan2({0}, 1.5 + jnp.abs({1}))",
    "jnp.where({0} > 0.2718, {0}, {1})",
    "jnp.where(({0} > 0.2718) & ({1} < 0.577), {1}, 0.25)",
    "lax.select_n(jnp.broadcast_to({1}, jnp.broadcast_shapes({0}.shape, {1}.shape)) > 0.2718,"
    " *jnp.broadcast_arrays({0}, {1}))",
    "jnp.logaddexp({0}, {1})",
    "jnp.power(1.5 + jnp.abs({0}), jnp.tanh({1}))",
    "jnp.hypot(1.0 + {0} ** 2, {1})",
]


def _unary(w: _Writer) -> None:
    name, shape = w.pick()  # type: ignore[misc]
    texts = [t for t in UNARY if "smooth" not in w.allowed or "stop_gradient" not in t]
    w.add(w.choose(texts).format(name), shape)


def _binary(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]

    def fits(other: Shape) -> bool:
        try:
            np.broadcast_shapes(shape, other)
        except ValueError:
            return False
        return True

    y, other = w.pick(fits)  # type: ignore[misc]
    w.add(w.choose(BINARY).format(x, y), np.broadcast_shapes(shape, other))


def _ranked(w: _Writer, least: int = 1) -> tuple[str, Shape] | None:
    return w.pick(lambda shape: len(shape) >= least)


def _reduce(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    x, shape = found
    axes = w.choose([None, -1, 0, tuple(range(len(shape)))])
    keep = w.choose([False, True])
    which = range(len(shape)) if axes is None else np.atleast_1d(axes) % len(shape)
    left = tuple(1 if i in which else d for i, d in enumerate(shape) if keep or i not in which)
    text = w.choose(
        [
            "jnp.sum({0}, axis={1}, keepdims={2})",
            "jnp.mean({0}, axis={1}, keepdims={2})",
            "jnp.max({0}, axis={1}, keepdims={2})",
            "jnp.min({0}, axis={1}, keepdims={2})",
            "jnp.prod(jnp.tanh({0}), axis={1}, keepdims={2})",
            "jnp.var({0}, axis={1}, keepdims={2})",
            "logsumexp({0}, axis={1}, keepdims={2})",
            "jnp.where(jnp.any({0} > 0.2718, axis={1}, keepdims={2}),"
            " jnp.sum({0}, axis={1}, keepdims={2}), 0.5)",
            "1.0 * jnp.sum({0} > 0.2718, axis={1}, keepdims={2})",
        ]
    )
    w.add(text.format(x, axes, keep), left)


def _along(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    x, shape = found
    axis = w.number(-len(shape), len(shape) - 1)
    text = w.choose(
        [
            "0.5 * jnp.cumsum({0}, axis={1})",
            "jnp.cumprod(jnp.cos({0}), axis={1})",
            "lax.cummax({0}, axis={2})",
            "jnp.flip({0}, axis={1})",
            "jnp.roll({0}, 1, axis={1})",
            "jnp.sort({0}, axis={1})",
            "softmax({0}, axis={1})",
            "jnp.take_along_axis({0}, jnp.argsort({0}, axis={1}), axis={1})",
            "lax.associative_scan(jnp.add, jnp.tanh({0}), axis={2})",
        ]
    )
    w.add(text.format(x, axis, axis % len(shape)), shape)


def _reshape(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]
    size = int(np.prod(shape, dtype=int))
    rank = len(shape)
    kind = w.choose(["ravel", "split", "expand", "transpose", "moveaxis", "broadcast", "squeeze"])
    if kind == "split":
        first = w.choose([d for d in range(1, size + 1) if size % d == 0])
        w.add(f"{x}.reshape({first}, -1)", (first, size // first))
    elif kind == "expand":
        axis = w.number(-rank - 1, rank)
        at = axis % (rank + 1)
        w.add(f"jnp.expand_dims({x}, {axis})", (*shape[:at], 1, *shape[at:]))
    elif kind == "transpose" and rank:
        order = tuple(w.draw(st.permutations(range(rank))))
        w.add(f"jnp.transpose({x}, {order})", tuple(shape[i] for i in order))
    elif kind == "moveaxis" and rank:
        w.add(f"jnp.moveaxis({x}, 0, -1)", (*shape[1:], shape[0]))
    elif kind == "broadcast":
        w.add(f"jnp.broadcast_to({x}, {(2, *shape)})", (2, *shape))
    elif kind == "squeeze" and 1 in shape:
        w.add(f"jnp.squeeze({x})", tuple(d for d in shape if d != 1))
    else:
        w.add(f"jnp.ravel({x})", (size,))


def _join(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    x, shape = found
    other = w.pick(lambda s: s[1:] == shape[1:] and len(s) == len(shape))
    y, second = other  # type: ignore[misc]
    kind = w.choose(["concatenate", "stack", "pad", "tile", "repeat"])
    if kind == "concatenate":
        w.add(f"jnp.concatenate([{x}, {y}])", (shape[0] + second[0], *shape[1:]))
    elif kind == "stack" and shape == second:
        w.add(f"jnp.stack([{x}, {y}], axis=-1)", (*shape, 2))
    elif kind == "tile":
        w.add(f"jnp.tile({x}, 2)", (*shape[:-1], 2 * shape[-1]))
    elif kind == "repeat":
        w.add(f"jnp.repeat({x}, 2, axis=0)", (2 * shape[0], *shape[1:]))
    else:
        low, high, between = w.choose([(1, 0, 0), (0, 2, 0), (0, 0, 1), (2, -1, 0), (1, 1, 1)])
        rest = "".join(", (0, 0, 0)" for _ in shape[1:])
        length = low + high + shape[0] + between * (shape[0] - 1)
        w.add(f"lax.pad({x}, 0.25, [({low}, {high}, {between}){rest}])", (length, *shape[1:]))


def _index(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    x, shape = found
    n, rest = shape[0], shape[1:]
    i = w.number(-n, n - 1)
    picks = [w.number(-n, n - 1) for _ in range(w.number(1, 3))]
    like = w.pick(lambda s: s == rest)
    value = like[0] if like else "0.5"
    kind = w.choose(range(12))
    if kind == 0:
        w.add(f"{x}[{i}]", rest)
    elif kind == 1:
        w.add(f"{x}[::-1]", shape)
    elif kind == 2:
        w.add(f"{x}[..., None]", (*shape, 1))
    elif kind == 3:
        w.add(f"{x}[jnp.array({picks})]", (len(picks), *rest))
    elif kind == 4 and n > 1:
        w.add(f"{x}[1:]", (n - 1, *rest))
    elif kind == 5:
        w.add(f"{x}[::2]", ((n + 1) // 2, *rest))
    elif kind == 6:
        w.add(f"{x}.at[{i}].set({value})", shape)
    elif kind == 7:
        w.add(f"{x}.at[jnp.array({picks})].add({value})", shape)
    elif kind == 8:
        w.add(f"{x}.at[{i}].multiply(jnp.tanh({value}))", shape)
    elif kind == 9:
        w.add(f"lax.dynamic_slice_in_dim({x}, jnp.argmax(x0.ravel()) % {n + 1}, 1)", (1, *rest))
    elif kind == 10:
        w.add(
            f"lax.dynamic_update_index_in_dim({x}, {value}, jnp.argmin(x0.ravel()), 0)"
            if like
            else f"{x}[jnp.argmax(x0.ravel()) % {n}]",
            shape if like else rest,
        )
    else:
        w.add(f"jnp.take({x}, jnp.array({picks}), axis=-1, mode='clip')", (*shape[:-1], len(picks)))


def _contract(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    x, shape = found
    other = w.pick(lambda s: len(s) >= 1 and s[max(len(s) - 2, 0)] == shape[-1])
    if other is None or w.choose([False, False, True]):
        y, second = w.pick(lambda s: len(s) == 1) or (f"jnp.ravel({x})", (int(np.prod(shape)),))
        if len(shape) == 1:
            w.add(f"0.3 * jnp.outer({x}, jnp.sin({y}))", (*shape, *second))
        else:
            letters = "abcd"[: len(shape)]
            w.add(f"jnp.einsum('{letters},{letters}->{letters[0]}', {x}, jnp.cos({x}))", shape[:1])
        return
    y, second = other
    try:
        out = np.matmul(np.zeros(shape), np.zeros(second)).shape
    except ValueError:
        axes = ([len(shape) - 1], [max(len(second) - 2, 0)])
        out = np.tensordot(np.zeros(shape), np.zeros(second), axes).shape
        w.add(f"0.3 * jnp.tensordot({x}, jnp.tanh({y}), {axes})", out)
        return
    w.add(f"0.5 * {x} @ jnp.tanh({y})", out)


def _convolve(w: _Writer) -> None:
    found = w.pick(lambda s: len(s) == 1 and s[0] > 1)
    if found is None:
        return
    x, (n,) = found
    w.add(f"jnp.convolve({x}, jnp.array([0.5, -0.25]), mode='same')", (n,))


def _scan(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    xs, shape = found
    c, carry = w.pick(lambda s: len(s) < MOST_AXES)  # type: ignore[misc]
    name, _ = w.function([carry, shape[1:]], carry, 3)
    reverse = w.choose([False, True])
    unroll = w.choose([1, 1, 2])
    final, stack = w.name(), w.name()
    w.line(
        f"{final}, {stack} = lax.scan(lambda c, a: ({name}(c, a), jnp.sin(c) + jnp.sum(a)), "
        f"jnp.tanh({c}), {xs}, reverse={reverse}, unroll={unroll})"
    )
    w.values += [(stack, (shape[0], *carry)), (final, carry)]


def _fori_loop(w: _Writer) -> None:
    c, carry = w.pick()  # type: ignore[misc]
    name, _ = w.function([carry], carry, 2)
    w.add(f"lax.fori_loop(0, 3, lambda i, c: {name}(c) + 0.1 * i, {c})", carry)


def _while_loop(w: _Writer) -> None:
    c, carry = w.pick()  # type: ignore[misc]
    name, _ = w.function([carry], carry, 2)
    most = w.choose(["3", "jnp.argmax(x0.ravel()) % 3"])
    # What no iteration reads is a result too, also of a loop that does not run.
    found = w.choose([1, 1, 2])
    w.add(
        f"lax.while_loop(lambda s: (s[0] < {most}) & (jnp.sum(s[1]) < 1e3),"
        f" lambda s: (s[0] + 1, {name}(s[1]), jnp.cos(s[1])), (0, {c}, jnp.sin({c})))[{found}]",
        carry,
    )


def _cond(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]
    p, _ = w.pick()  # type: ignore[misc]
    yes, result = w.function([shape], None, 2)
    no, _ = w.function([shape], result, 2)
    w.add(f"lax.cond(jnp.sum({p}) > 0.2718, {yes}, {no}, {x})", result)


def _switch(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]
    names = [w.function([shape], shape, 1)[0] for _ in range(3)]
    w.add(f"lax.switch(jnp.argmax(x0.ravel()) % 3, [{', '.join(names)}], {x})", shape)


def _call(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]
    y, other = w.pick()  # type: ignore[misc]
    name, result = w.function([shape, other], None, 3)
    how = w.choose(["kiln.jit", "kiln.checkpoint", "kiln.jit"])
    w.add(f"{how}({name})({x}, {y})", result)


def _mapped(w: _Writer) -> None:
    found = _ranked(w)
    if found is None:
        return
    x, shape = found
    axis = w.number(0, len(shape) - 1)
    name, result = w.function([shape[:axis] + shape[axis + 1 :]], None, 2)
    out = w.number(0, len(result))
    w.add(
        f"kiln.vmap({name}, in_axes={axis}, out_axes={out})({x})",
        (*result[:out], shape[axis], *result[out:]),
    )


def _gradient(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]
    allowed, w.allowed = w.allowed, w.allowed - {"while"}
    name, _ = w.function([shape], None, 2)
    w.allowed = allowed
    w.add(f"jnp.tanh(kiln.grad(lambda a: jnp.sum({name}(a)))({x}))", shape)


def _ramp(w: _Writer) -> None:
    x, shape = w.pick()  # type: ignore[misc]
    w.add(f"ramp({x})", shape)


NESTING = (_scan, _fori_loop, _while_loop, _cond, _switch, _call, _mapped, _gradient)
STEPS: list[tuple[Callable[[_Writer], None], str | None]] = [
    (_unary, None),
    (_binary, None),
    (_binary, None),
    (_reduce, None),
    (_along, None),
    (_reshape, None),
    (_join, None),
    (_index, None),
    (_contract, None),
    (_convolve, None),
    (_scan, "scan"),
    (_cond, "cond"),
    (_switch, "cond"),
    (_call, "jit"),
    (_fori_loop, "scan"),
    (_mapped, "vmap"),
    (_gradient, "grad"),
    (_while_loop, "while"),
    (_ramp, "custom_vjp"),
]
SMOOTH = frozenset(["scan", "cond", "jit", "vmap", "smooth"])
"""Programs that finite differences understand, in forward and reverse mode."""
ANY = frozenset(["scan", "cond", "jit", "vmap", "grad", "while", "custom_vjp"])
"""Everything that runs."""


@st.composite
def programs(draw: Any, allowed: frozenset[str] = SMOOTH, steps: int = 6) -> Program:
    """Draw a program of up to `steps` steps."""
    shapes = draw(
        st.lists(
            st.lists(st.integers(1, 3), min_size=0, max_size=2).map(tuple), min_size=1, max_size=3
        )
    )
    w = _Writer(draw, allowed, 0, "    ")
    w.values = [(f"x{i}", shape) for i, shape in enumerate(shapes)]
    for _ in range(draw(st.integers(1, steps))):
        w.step()
    last = [name for name, _ in w.values[-3:]][::-1]
    results = tuple(shape for _, shape in w.values[-3:])[::-1]
    head = f"def program({', '.join(f'x{i}' for i in range(len(shapes)))}):"
    result = "{" + f"'a': {last[0]}, 'b': ({', '.join(last[1:])},)" + "}"
    source = "\n".join([head, *w.lines, f"    return {result}"])
    return Program(_renamed(source), tuple(shapes), draw(st.integers(0, 1000)), results)


_NAME = re.compile(r"\b[vf]\d+\b")


def _renamed(source: str) -> str:
    """Number the names from 0, so that equal programs have equal sources."""
    numbers: dict[str, str] = {}

    def name(match: Any) -> str:
        kind = match.group()[0]
        return numbers.setdefault(match.group(), f"{kind}{len(numbers)}")

    return _NAME.sub(name, source)
