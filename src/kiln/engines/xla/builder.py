"""Builder: one function body or region of StableHLO text under construction.

This is what a lowering writes with. Methods append operations and return `Value`s, which print as
their names, so operations may also be written as f-strings and given to `emit`. Constants belong to
the region that asks for them: XLA refuses regions of reductions that use values from outside.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import CheckError, UnsupportedPrimitive, three_lines
from kiln.base.source import Source
from kiln.core.array import ConcreteArray, host_value
from kiln.core.staging import stage
from kiln.engines.xla import text
from kiln.engines.xla.callbacks import HostCallback
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.types import ShapedArray

if TYPE_CHECKING:
    from kiln.engines.xla.module import Module


class _Token:
    """The type of a token: what ordered effects pass along."""

    dtype = None
    shape = ()


TOKEN: Any = _Token()
Body = Callable[..., Sequence["Value"]]


class Value(NamedTuple):
    """A value of the program under construction; prints as its name."""

    name: str
    aval: ShapedArray

    def __str__(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.aval.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.aval.shape)


Lowering = Callable[..., Any]
"""`lower(b, out, *operands, **params) -> Value | Sequence[Value]`; `out` lists the result types."""


@functools.lru_cache(maxsize=8192)
def type_of(aval: ShapedArray) -> str:
    """Return a type as text."""
    return "!stablehlo.token" if aval is TOKEN else text.tensor_type(aval)


def physical(aval: ShapedArray) -> ShapedArray:
    """Return the type of the data behind a type; the same for most types."""
    if isinstance(aval.dtype, np.dtype) and aval.dtype != dtypes.float0:
        return aval
    return ShapedArray(*text.host_dtype(aval))


def trailing(aval: ShapedArray) -> tuple[int, ...]:
    """Return the sizes that stand behind a type's shape in the program: (2,) for `key<fry>`."""
    return aval.dtype.physical_shape if dtypes.is_extended(aval.dtype) else ()  # type: ignore[no-any-return]


def is_ordered(jaxpr: Jaxpr) -> bool:
    """Tell whether a jaxpr has effects that keep their order."""
    return any(effect.ordered for effect in jaxpr.effects)


def _listed(values: Sequence[Value]) -> str:
    return ", ".join([v.name for v in values])


def _types(values: Sequence[Value]) -> str:
    return ", ".join([type_of(v.aval) for v in values])


def _result_types(avals: Sequence[ShapedArray]) -> str:
    written = ", ".join([type_of(aval) for aval in avals])
    return written if len(avals) == 1 else f"({written})"


class Builder:
    """Appends operations to one body."""

    __slots__ = ("_constants", "_indent", "_numbers", "lines", "module", "source", "token")

    def __init__(
        self, module: Module, numbers: Iterator[int], *, token: Value | None = None, depth: int = 2
    ) -> None:
        self.module = module
        self.token = token
        """The token of the last ordered effect; None where the program has no ordered effects."""
        self.source: Source | None = None
        """Where the equation being lowered comes from."""
        self.lines: list[str] = []
        self._numbers = numbers
        self._indent = "  " * depth
        self._constants: dict[Any, Value] = {}

    # Writing operations.

    def fresh(self, aval: ShapedArray) -> Value:
        """Return a new name of a type, for a block argument."""
        return Value(f"%{next(self._numbers)}", aval)

    def emit(self, operation: str, out: Any) -> Any:
        """Append an operation written as text, all but its result names.

        `out` is a type, for one Value; or a sequence of types, for a list of Values.
        """
        if isinstance(out, (list, tuple)):
            number = next(self._numbers)
            if len(out) == 1:
                names = [f"%{number}"]
                bound = f"%{number} = "
            else:
                names = [f"%{number}#{i}" for i in range(len(out))]
                bound = f"%{number}:{len(out)} = " if out else ""
            self._append(bound + operation)
            return [Value(name, aval) for name, aval in zip(names, out, strict=True)]
        value = Value(f"%{next(self._numbers)}", out)
        self._append(f"{value.name} = {operation}")
        return value

    def _append(self, line: str) -> None:
        if self.module.locations and self.source is not None:
            line = f"{line} loc({text.quoted(self.source.file)}:{self.source.line}:0)"
        self.lines.append(self._indent + line)

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        out: Any,
        attrs: str = "",
        regions: Sequence[str] = (),
    ) -> Any:
        """Append an operation: `b.op("stablehlo.add", [x, y], x.aval)`.

        `attrs` is text such as `dimension = 0 : i64, is_stable = true`; `regions` come from
        `region`. `out` as in `emit`.
        """
        outs = out if isinstance(out, (list, tuple)) else (out,)
        types = [type_of(v.aval) for v in operands]
        results = [type_of(aval) for aval in outs]
        if attrs or regions or not name.startswith("stablehlo."):
            inner = f" ({', '.join(regions)})" if regions else ""
            dictionary = f" {{{attrs}}}" if attrs else ""
            written = (
                f'"{name}"({_listed(operands)}){inner}{dictionary} : '
                f"({', '.join(types)}) -> {_result_types(outs)}"
            )
        elif len({*types, *results}) == 1:
            written = f"{name} {_listed(operands)} : {results[0]}"
        else:
            written = f"{name} {_listed(operands)} : ({', '.join(types)}) -> {_result_types(outs)}"
        return self.emit(written, out)

    def apply(self, name: str, *operands: Value) -> Value:
        """Append an element-wise stablehlo operation with the first operand's type: `"add"`."""
        return self.op(f"stablehlo.{name}", operands, operands[0].aval)  # type: ignore[no-any-return]

    # Operations that many lowerings need.

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """Return a constant: a number filling a type, or an array of exactly that type."""
        shape, dtype = text.host_dtype(aval)
        array = np.asarray(value, dtype)
        if 0 in shape:
            written = ""
        else:
            written = text.dense(array) if array.ndim else text.scalar(array, dtype)
        key = (written, type_of(aval))
        known = self._constants.get(key)
        if known is None:
            known = self.emit(f"stablehlo.constant dense<{written}> : {key[1]}", aval)
            self._constants[key] = known
        return Value(known.name, aval)

    def like(self, value: Any, x: Value) -> Value:
        """Return a number as a constant of the type of `x`."""
        return self.constant(value, x.aval)

    def broadcast(self, x: Value, out: ShapedArray, dims: Sequence[int] = ()) -> Value:
        """Place the axes of `x` at `dims` of `out`, stretching those of size 1."""
        extra = len(trailing(x.aval))
        dims = [*dims, *range(len(out.shape), len(out.shape) + extra)]
        if x.shape == out.shape and dims == list(range(len(dims))):
            return x
        operation = (
            f"stablehlo.broadcast_in_dim {x}, dims = {text.int_list(dims)} : "
            f"({type_of(x.aval)}) -> {type_of(out)}"
        )
        return self.emit(operation, out)  # type: ignore[no-any-return]

    def fill(self, x: Value, shape: Sequence[int]) -> Value:
        """Stretch a scalar to a shape; leave an operand of that shape as it is."""
        return x if x.shape == tuple(shape) else self.broadcast(x, x.aval.with_(shape=shape))

    def convert(self, x: Value, dtype: Any) -> Value:
        """Convert numbers to a dtype, as XLA does (see README.md for complex and boolean)."""
        if x.dtype == dtype:
            return x
        return self.op("stablehlo.convert", [x], x.aval.with_(dtype=np.dtype(dtype)))  # type: ignore[no-any-return]

    def bitcast(self, x: Value, dtype: Any) -> Value:
        """Reinterpret the bits as a dtype of the same width."""
        if x.dtype == dtype:
            return x
        return self.op("stablehlo.bitcast_convert", [x], x.aval.with_(dtype=np.dtype(dtype)))  # type: ignore[no-any-return]

    def compare(self, direction: str, x: Value, y: Value, kind: str | None = None) -> Value:
        """Compare numbers: EQ NE LT LE GT GE. `kind` may be TOTALORDER for floats."""
        if kind is None:
            if dtypes.issubdtype(x.dtype, np.inexact):
                kind = "FLOAT"
            elif dtypes.issubdtype(x.dtype, np.signedinteger):
                kind = "SIGNED"
            else:
                kind = "UNSIGNED"
        out = ShapedArray(x.shape, np.dtype(np.bool_))
        operation = (
            f"stablehlo.compare {direction}, {x}, {y}, {kind} : "
            f"({_types([x, y])}) -> {type_of(out)}"
        )
        return self.emit(operation, out)  # type: ignore[no-any-return]

    def select(self, predicate: Value, on_true: Value, on_false: Value) -> Value:
        """Take elements from `on_true` where the predicate, a scalar or an array, holds."""
        operation = (
            f"stablehlo.select {predicate}, {on_true}, {on_false} : "
            f"{type_of(predicate.aval)}, {type_of(on_true.aval)}"
        )
        return self.emit(operation, on_true.aval)  # type: ignore[no-any-return]

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Reshape in row-major order."""
        out = x.aval.with_(shape=shape)
        return x if x.shape == out.shape else self.op("stablehlo.reshape", [x], out)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Axis i of the result is axis permutation[i] of `x`."""
        out = x.aval.with_(shape=[x.shape[p] for p in permutation])
        dims = [*permutation, *range(x.ndim, x.ndim + len(trailing(x.aval)))]
        if dims == list(range(len(dims))):
            return x
        operation = (
            f"stablehlo.transpose {x}, dims = {text.int_list(dims)} : "
            f"({type_of(x.aval)}) -> {type_of(out)}"
        )
        return self.emit(operation, out)  # type: ignore[no-any-return]

    def iota(self, out: ShapedArray, dimension: int = 0) -> Value:
        """Count along a dimension."""
        return self.emit(f"stablehlo.iota dim = {dimension} : {type_of(out)}", out)  # type: ignore[no-any-return]

    def slice(
        self,
        x: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Take elements start, start + stride, ... before limit along each axis."""
        steps = list(strides) if strides is not None else [1] * x.ndim
        sizes = [
            max(0, -(-(limit - start) // step))
            for start, limit, step in zip(starts, limits, steps, strict=True)
        ]
        out = x.aval.with_(shape=sizes)
        behind = trailing(x.aval)
        attrs = (
            f"start_indices = {text.int_array([*starts, *[0] * len(behind)])}, "
            f"limit_indices = {text.int_array([*limits, *behind])}, "
            f"strides = {text.int_array([*steps, *[1] * len(behind)])}"
        )
        return self.op("stablehlo.slice", [x], out, attrs)  # type: ignore[no-any-return]

    def concatenate(self, xs: Sequence[Value], dimension: int) -> Value:
        """Join arrays along a dimension."""
        shape = list(xs[0].shape)
        shape[dimension] = sum(x.shape[dimension] for x in xs)
        out = xs[0].aval.with_(shape=shape)
        return self.op("stablehlo.concatenate", xs, out, f"dimension = {dimension} : i64")  # type: ignore[no-any-return]

    def pad(self, x: Value, value: Value, config: Sequence[tuple[int, int, int]]) -> Value:
        """Pad with a scalar: (low, high, interior) for each axis; negative low or high crop."""
        rest = [(0, 0, 0)] * len(trailing(x.aval))
        sizes = [
            low + high + size + max(0, size - 1) * interior
            for size, (low, high, interior) in zip(x.shape, config, strict=True)
        ]
        attrs = (
            f"edge_padding_low = {text.int_array(c[0] for c in [*config, *rest])}, "
            f"edge_padding_high = {text.int_array(c[1] for c in [*config, *rest])}, "
            f"interior_padding = {text.int_array(c[2] for c in [*config, *rest])}"
        )
        return self.op("stablehlo.pad", [x, value], x.aval.with_(shape=sizes), attrs)  # type: ignore[no-any-return]

    def reduce(
        self, xs: Sequence[Value], initial: Sequence[Value], axes: Sequence[int], body: Body
    ) -> list[Value]:
        """Reduce arrays together over axes.

        `body(inner, *accumulated, *elements)` gets and returns scalars.
        """
        scalars = [v.aval for v in initial]
        kept = [size for i, size in enumerate(xs[0].shape) if i not in set(axes)]
        return self.op(  # type: ignore[no-any-return]
            "stablehlo.reduce",
            [*xs, *initial],
            [x.aval.with_(shape=kept) for x in xs],
            f"dimensions = {text.int_array(axes)}",
            [self.region([*scalars, *scalars], body)],
        )

    def reduce_with(self, name: str, x: Value, initial: Any, axes: Sequence[int]) -> Value:
        """Reduce one array over axes by a binary stablehlo operation, such as `"add"`."""
        start = self.constant(initial, ShapedArray((), x.dtype))
        (out,) = self.reduce([x], [start], axes, lambda b, p, q: [b.apply(name, p, q)])
        return out

    # Regions and control flow.

    def region(
        self,
        avals: Sequence[ShapedArray],
        body: Body,
        *,
        takes_token: bool = False,
        gives_token: bool = False,
        token: Value | None = None,
    ) -> str:
        """Return a region as text: `body(inner, *arguments)` returns what the region yields.

        With `takes_token`, the first block argument is a token; with `gives_token`, the first
        result is the token after the body's ordered effects.
        """
        depth = len(self._indent) // 2
        inner = Builder(self.module, self._numbers, token=token, depth=depth + 1)
        inner.source = self.source
        args = [inner.fresh(aval) for aval in avals]
        heads = list(args)
        if takes_token:
            inner.token = inner.fresh(TOKEN)
            heads.insert(0, inner.token)
        results = list(body(inner, *args))
        if gives_token:
            assert inner.token is not None
            results.insert(0, inner.token)
        end = f" {_listed(results)} : {_types(results)}" if results else ""
        inner._append(f"stablehlo.return{end}")
        head = ", ".join(f"{v}: {type_of(v.aval)}" for v in heads)
        label = [f"{self._indent}^bb0({head}):"] if heads else []
        return "\n".join(["{", *label, *inner.lines, self._indent + "}"])

    def while_loop(
        self,
        cond: Callable[..., Value],
        body: Body,
        init: Sequence[Value],
        *,
        ordered: bool = False,
        ordered_cond: bool = False,
    ) -> list[Value]:
        """Repeat `values = body(b, *values)` while `cond(b, *values)`; return the last values.

        Set `ordered` if the body has ordered effects, `ordered_cond` if the condition has.
        """
        if ordered_cond:
            return self._while_with_effects_in_cond(cond, body, init)
        avals = [v.aval for v in init]
        before = [self.token_now()] if ordered else []
        test = self.region(avals, lambda b, *xs: [cond(b, *xs)], takes_token=ordered)
        step = self.region(avals, body, takes_token=ordered, gives_token=ordered)
        outs = self.op(
            "stablehlo.while",
            [*before, *init],
            [v.aval for v in before] + avals,
            regions=[test, step],
        )
        return self._after(outs) if ordered else outs  # type: ignore[no-any-return]

    def _while_with_effects_in_cond(
        self, cond: Callable[..., Value], body: Body, init: Sequence[Value]
    ) -> list[Value]:
        # A condition region cannot yield a token, so the predicate is a carried value.
        first = cond(self, *init)

        def step(b: Builder, _: Value, *xs: Value) -> list[Value]:
            values = list(body(b, *xs))
            return [cond(b, *values), *values]

        outs = self.while_loop(lambda b, p, *xs: p, step, [first, *init], ordered=True)
        return outs[1:]

    def case(
        self,
        index: Value,
        branches: Sequence[Callable[[Builder], Sequence[Value]]],
        out: Sequence[ShapedArray],
        *,
        ordered: bool = False,
    ) -> list[Value]:
        """Run `branches[index](b)`, which may use values from outside.

        `index` is an int32 scalar; one that is out of range takes the last branch. Set `ordered`
        if some branch has ordered effects.
        """
        before = self.token_now() if ordered else None
        regions = [self.region([], run, gives_token=ordered, token=before) for run in branches]
        outs = self.op(
            "stablehlo.case", [index], [TOKEN, *out] if ordered else list(out), regions=regions
        )
        return self._after(outs) if ordered else outs  # type: ignore[no-any-return]

    def new_token(self) -> Value:
        """Return a token that follows nothing."""
        return self.emit("stablehlo.create_token : !stablehlo.token", TOKEN)  # type: ignore[no-any-return]

    def token_now(self) -> Value:
        """Return the token to give to the next ordered effect."""
        if self.token is None:
            raise CheckError(
                f"lowering an ordered effect at {self.source}\n"
                "the enclosing function or region was not declared ordered\n"
                "pass ordered=is_ordered(jaxpr) to while_loop or case"
            )
        return self.token

    def _after(self, outs: list[Value]) -> list[Value]:
        self.token = outs[0]
        return outs[1:]

    # Programs inside programs.

    def inline(self, jaxpr: Jaxpr | ClosedJaxpr, values: Sequence[Value]) -> list[Value]:
        """Lower a jaxpr's equations here; `values` stand for its constants and inputs, in order."""
        if isinstance(jaxpr, ClosedJaxpr):
            values = [*[self.host_constant(c) for c in jaxpr.consts], *values]
            jaxpr = jaxpr.jaxpr
        env: dict[Var, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))
        outer = self.source
        for eqn in jaxpr.eqns:
            self.source = eqn.source
            outs = self.equation(eqn, [self._read(env, atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, outs, strict=True))
        self.source = outer
        return [self._read(env, atom) for atom in jaxpr.outvars]

    def _read(self, env: dict[Var, Value], atom: Atom) -> Value:
        if atom.is_literal:
            return self.constant(atom.val, atom.aval)  # type: ignore[union-attr]
        return env[atom]  # type: ignore[index]

    def call(self, jaxpr: Jaxpr, values: Sequence[Value], name: str) -> list[Value]:
        """Call a jaxpr as a private function, which is written once however often it is called."""
        symbol = self.module.function(jaxpr, name)
        ordered = is_ordered(jaxpr)
        operands = [self.token_now(), *values] if ordered else list(values)
        out = [TOKEN, *jaxpr.out_avals] if ordered else jaxpr.out_avals
        operation = (
            f"func.call @{symbol}({_listed(operands)}) : "
            f"({_types(operands)}) -> {_result_types(out)}"
        )
        outs: list[Value] = self.emit(operation, out)
        return self._after(outs) if ordered else outs

    def lower_fun(self, fun: Callable[..., Any], *values: Value, **params: Any) -> Any:
        """Lower `fun(*arrays, **params)`, an ordinary function of kiln's operations.

        Returns a list of Values if `fun` returns a list or tuple, else one Value.
        """
        avals = [v.aval for v in values]
        staged = self.module.staged(fun, avals, params)
        consts = [self.host_constant(c) for c in staged.consts]
        outs = self.inline(staged.jaxpr, [*consts, *values])
        return outs[0] if staged.single else outs

    def host_constant(self, value: Any) -> Value:
        """Return a concrete array or scalar as a constant."""
        if isinstance(value, ConcreteArray):
            return self.constant(host_value(value), value.aval)
        array = np.asarray(value)
        return self.constant(array, ShapedArray(array.shape, array.dtype))

    def equation(self, eqn: Eqn, operands: Sequence[Value]) -> list[Value]:
        """Lower one equation by its lowering, or by the primitive's `expand`."""
        primitive = eqn.primitive
        avals = [v.aval for v in eqn.outvars]
        lowering = self.module.lowerings.get(primitive)
        if lowering is not None:
            result = lowering(self, avals, *operands, **eqn.params)
        elif primitive.has("expand"):
            result = self.lower_fun(primitive.expand, *operands, **eqn.params)
        else:
            raise UnsupportedPrimitive(
                three_lines(
                    f"{primitive.name}: operands "
                    f"{', '.join(str(v.aval) for v in operands)} at {eqn.source}",
                    f"the xla engine has no lowering for {primitive.name!r}, and "
                    f"{type(primitive).__name__} has no `expand`",
                    "add an entry to engines/xla/lowerings, or define `expand`",
                )
            )
        outs = [result] if isinstance(result, Value) else list(result)
        if [type_of(v.aval) for v in outs] != [type_of(aval) for aval in avals]:
            raise CheckError(
                f"lowering {primitive.name} at {eqn.source}\n"
                f"it returned {', '.join(str(v.aval) for v in outs)} where the equation has "
                f"{', '.join(map(str, avals))}\nmend the lowering"
            )
        return [Value(v.name, aval) for v, aval in zip(outs, avals, strict=True)]

    # The host.

    def callback(
        self,
        fn: Callable[..., Any],
        operands: Sequence[Value],
        out: Sequence[ShapedArray],
        *,
        ordered: bool = False,
        pure: bool = False,
    ) -> list[Value]:
        """Call `fn(*numpy_arrays)` on the host, which returns one array for each type of `out`.

        A `pure` call may be dropped or shared; others run once each time they are reached, and
        `ordered` ones in program order.
        """
        index = self.module.add_callback(HostCallback(fn, out, token=ordered))
        operands = [self.token_now(), *operands] if ordered else list(operands)
        results = [TOKEN, *out] if ordered else list(out)
        attrs = (
            "api_version = 4 : i32, call_target_name = "
            f'"xla_ffi_python_cpu_callback", has_side_effect = {"false" if pure else "true"}, '
            f"backend_config = {{index = {index} : ui64}}, "
            f"operand_layouts = [{', '.join(_row_major(v.aval) for v in operands)}], "
            f"result_layouts = [{', '.join(_row_major(aval) for aval in results)}]"
        )
        outs = self.op("stablehlo.custom_call", operands, results, attrs)
        return self._after(outs) if ordered else outs  # type: ignore[no-any-return]


def _row_major(aval: ShapedArray) -> str:
    rank = 0 if aval is TOKEN else len(text.host_dtype(aval)[0])
    order = text.int_list(range(rank - 1, -1, -1)) if rank else ""
    return f"dense<{order}> : tensor<{rank}xindex>"


class Staged(NamedTuple):
    """A function of kiln's operations, recorded."""

    jaxpr: Jaxpr
    consts: Sequence[Any]
    single: bool


def record(fun: Callable[..., Any], avals: Sequence[ShapedArray], params: Any) -> Staged:
    """Record a function that returns one array, or a sequence of them."""
    single = False

    def flat(*tracers: Any) -> Sequence[Any]:
        nonlocal single
        out = fun(*tracers, **params)
        single = not isinstance(out, (list, tuple))
        return [out] if single else out

    jaxpr, consts = stage(flat, avals, purpose="lowering")
    return Staged(jaxpr, consts, single)


def numbers() -> Iterator[int]:
    """Return a new sequence of names for one function."""
    return itertools.count()
