"""Detection of results that are not finite, and of the operation that produced them.

With `debug_nans` or `debug_infs` the results of every program are checked. If one is not finite,
the program is evaluated again without `jit`: equation by equation, inside loops, branches and
called programs too, each operation eagerly. The error names the first whose result is not finite.
Debug callbacks are not called again; the evaluation stops before an `io_callback`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.options.config import options, override
from kiln.base.process.identity import process_count
from kiln.base.records import Record
from kiln.base.source import Source, api_boundary, current_source, place_of
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.arrays.shards import is_all_here
from kiln.core.meaning import meaning, observed
from kiln.core.remedies import REMEDIES
from kiln.core.trace import aval_of, in_force, state
from kiln.ir.effects import must_keep
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.operation import Operation
from kiln.ir.rewrite import eliminate_dead_code

_OPTIONS = {"nan": "debug_nans", "inf": "debug_infs"}
_DEBUGGING = (*_OPTIONS.values(), "debug_key_reuse")


class _Bad(Record):
    """A value that is not finite in an array: `kind` is nan or inf, `index` its position."""

    kind: str
    index: tuple[int, ...]
    count: int
    size: int

    def __str__(self) -> str:
        if not self.index:
            return f"is {self.kind}"
        return f"has {self.kind} at {list(self.index)} ({self.count} of {self.size} values)"


Wanted = Sequence[str]
"""The kinds of values that are detected."""


def _wanted() -> Wanted:
    opts = options()
    return [kind for kind, name in _OPTIONS.items() if getattr(opts, name)]


def _bad(value: np.ndarray, wanted: Wanted) -> _Bad | None:
    """Return the first value of an array that is not finite, if any."""
    if value.dtype.kind not in "fc" and not dtypes.issubdtype(value.dtype, np.inexact):
        return None
    for kind in wanted:
        mask = np.isnan(value) if kind == "nan" else np.isinf(value)
        if mask.any():
            first = np.unravel_index(int(np.argmax(mask)), mask.shape)
            index = tuple(int(i) for i in first)
            return _Bad(kind, index, int(np.count_nonzero(mask)), mask.size)
    return None


def _first_bad(values: Sequence[Any], wanted: Wanted) -> tuple[int, _Bad] | None:
    for i, value in enumerate(values):
        found = _bad(_on_host(value), wanted)
        if found is not None:
            return i, found
    return None


def _on_host(x: Any) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, ConcreteArray):
        if process_count() > 1 and not is_all_here(x.sharding, x.ndim):
            raise UnavailableOptionError(
                three_lines(
                    f"checking an array {x.aval} for nans or infinities at {current_source()}",
                    "other processes hold parts of it",
                    "leave debug_nans and debug_infs out, and look at x.addressable_shards",
                )
            )
        return host_value(x)
    return np.asarray(x, aval_of(x).dtype)


def kept_for_search(args: Sequence[Any]) -> list[Any]:
    """Return copies of arguments that survive the donation of the originals."""
    return [np.array(_on_host(x)) if isinstance(x, ConcreteArray) else x for x in args]


class _Found(Exception):
    """The first operation with a bad result."""

    def __init__(self, eqn: Eqn, values: Sequence[np.ndarray], out: np.ndarray, bad: _Bad) -> None:
        super().__init__()
        self.eqn = eqn
        self.values = values
        self.out = out
        self.bad = bad


class _Stopped(Exception):
    """The evaluation reached an effect that must not be repeated."""

    def __init__(self, eqn: Eqn) -> None:
        super().__init__()
        self.eqn = eqn


class _Search:
    """Evaluates a program equation by equation until a result is bad."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        # The equations that hold the program evaluated now, from the outside in, with the iteration
        # of those that are loops.
        self.around: list[tuple[Eqn, int | None]] = []

    def begin_iteration(self, step: int) -> None:
        """Record which iteration of the innermost loop is evaluated from now on."""
        self.around[-1] = self.around[-1][0], step

    def evaluate(self, eqn: Eqn, values: Sequence[np.ndarray]) -> Any:
        """Return the result of an equation.

        Raises: _Found if it is bad.
        """
        primitive = eqn.primitive
        if primitive.region:
            self.around.append((eqn, None))
            result = primitive.numpy(*values, **eqn.params)
            self.around.pop()
        elif must_keep(eqn.effects):
            if eqn.outvars:
                raise _Stopped(eqn)
            return []
        else:
            with observed(None):
                result = _applied(eqn, values)
        results = list(result) if primitive.multiple else [result]
        results = [_on_host(x) for x in results]
        found = _first_bad(results, self.wanted)
        if found is not None:
            raise _Found(eqn, values, results[found[0]], found[1])
        return results if primitive.multiple else results[0]


def _applied(eqn: Eqn, values: Sequence[np.ndarray]) -> Any:
    """Return the result of an operation, computed as it is outside of `jit`."""
    primitive = eqn.primitive
    types = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    is_physical = all(isinstance(aval.dtype, np.dtype) for aval in types)
    inexact = any(dtypes.issubdtype(v.aval.dtype, np.inexact) for v in eqn.outvars)
    if primitive.evaluate is not None or not is_physical or not inexact:
        return primitive.numpy(*values, **eqn.params)
    return state.root.process(primitive, values, eqn.params)


@api_boundary
def check_program(name: str, jaxpr: Jaxpr, args: Sequence[Any], outs: Sequence[Any]) -> None:
    """Check the results of a program.

    Raises: FloatingPointError naming the first operation with a result that is not finite.
    """
    wanted = _wanted()
    found = _first_bad(outs, wanted)
    if found is not None:
        raise _located(name, jaxpr, args, found, wanted)


@api_boundary
def check_operation(
    primitive: Operation, args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]
) -> None:
    """Check the results of an eager operation.

    Raises: FloatingPointError naming the operation, or the first one of the program it holds.
    """
    wanted = _wanted()
    found = _first_bad(outs, wanted)
    if found is None:
        return
    source = state.source or current_source()
    ins, results = [Var(aval_of(x)) for x in args], [Var(aval_of(x)) for x in outs]
    eqn = Eqn(primitive, ins, results, params, primitive.effects(params), source)
    if primitive.region:
        name = params.get("name") or primitive.name
        raise _located(name, Jaxpr([], ins, [eqn], results), args, found, wanted)
    i, bad = found
    raise _error(_Found(eqn, [_on_host(x) for x in args], _on_host(outs[i]), bad), [], "", ())


def _located(
    name: str, jaxpr: Jaxpr, args: Sequence[Any], found: tuple[int, _Bad], wanted: Wanted
) -> FloatingPointError:
    """Return the error for a program with bad results, after a search for the operation."""
    clean, _ = eliminate_dead_code(jaxpr)
    search = _Search(wanted)
    how = f"evaluating {name} again without jit, equation by equation"
    try:
        with (
            override(
                debug_nans=False,
                debug_infs=False,
                debug_key_reuse=False,
                jit=True,
                default_device=None,
            ),
            in_force(state.root),
            observed(search),
            np.errstate(all="ignore"),
        ):
            meaning(clean, [_on_host(x) for x in args])
        why = f"{how} gives no {found[1].kind}: the compiled program rounds differently"
    except _Found as place:
        named = dict(zip(map(id, clean.invars), jaxpr.arg_names, strict=False))
        names = [named.get(id(v), "") for v in place.eqn.invars]
        return _error(place, search.around, f"; found by {how}", names)
    except _Stopped as stop:
        why = (
            f"{how} gives none up to {stop.eqn.primitive.name} at {stop.eqn.source}, which would "
            "happen a second time"
        )
    except Exception as error:  # noqa: BLE001  A failed search must not hide the finding.
        why = f"{how} ended with {type(error).__name__}: {str(error).splitlines()[:1]}"
    i, bad = found
    passed = next((n for n, v in enumerate(clean.invars) if v is clean.outvars[i]), None)
    if passed is not None:
        given = jaxpr.arg_names[passed] if passed < len(jaxpr.arg_names) else passed
        why = f"it is the argument {given}, which {bad} already"
    return FloatingPointError(
        three_lines(
            f"call of {name} at {current_source()}",
            f"invalid value ({bad.kind}) encountered in {name}: result {i}, "
            f"{clean.outvars[i].aval}, {bad}; {why}",
            f"look at the values with kiln.debug.print, or {_switch_off(bad)}",
        )
    )


def _error(
    found: _Found, around: Sequence[tuple[Eqn, int | None]], how: str, names: Sequence[str]
) -> FloatingPointError:
    """Return the error of an operation, `names` being those of operands that are arguments."""
    eqn, bad = found.eqn, found.bad
    operation = eqn.primitive.name
    types = ", ".join(str(v.aval) for v in eqn.invars)
    source = eqn.source
    where = place_of(source)
    inside = "".join(f", {_described(outer, step, source)}" for outer, step in reversed(around))
    kinds = [_bad(x, [bad.kind]) for x in found.values]
    already = next((i for i, other in enumerate(kinds) if other is not None), None)
    cause = ""
    if already is not None:
        name = names[already] if already < len(names) else ""
        cause = (
            f"; operand {already}{f', argument {name},' if name else ''} {kinds[already]} already"
        )
    else:
        cause = _computation(found)
    remedy = REMEDIES.get(operation) if already is None else None
    # Both with JAX's wording.
    said = f"invalid value ({bad.kind}) encountered in {operation}"
    if any(outer.primitive.name == "shard_map" for outer, _ in around):
        said = f"Invalid value ({bad.kind}) encountered in sharded computation, in {operation}"
    return FloatingPointError(
        three_lines(
            f"`{operation}` of {types or 'nothing'} at {where}{inside}",
            f"{said}: the result, {eqn.outvars[0].aval}, {bad}{cause}{how}",
            f"{remedy or 'look at the operands with kiln.debug.print'}; or {_switch_off(bad)}",
        )
    )


def _switch_off(bad: _Bad) -> str:
    return f"stop looking with kiln.{_OPTIONS[bad.kind]}(False)"


def _described(eqn: Eqn, step: int | None, inner: Source | None) -> str:
    name = eqn.params.get("name")
    what = f"{eqn.primitive.name}({name})" if name else eqn.primitive.name
    at = f" at {eqn.source}" if eqn.source and str(eqn.source) != str(inner) else ""
    return f"in {what}{at}" if step is None else f"iteration {step} of {what}{at}"


def _computation(found: _Found) -> str:
    """Return how the first bad element was computed, for elementwise operations."""
    shape, index, primitive = found.out.shape, found.bad.index, found.eqn.primitive
    if not found.values or any(x.shape not in (shape, ()) for x in found.values):
        return ""
    picked = [x[index if x.shape == shape else ()] for x in found.values]
    try:
        with np.errstate(all="ignore"):
            alone = primitive.numpy(*map(np.asarray, picked), **found.eqn.params)
    except Exception:  # noqa: BLE001
        # Its parameters refer to axes: it is not elementwise.
        return ""
    if np.shape(alone) or _bad(np.asarray(alone), [found.bad.kind]) is None:
        return ""
    return f", where {primitive.name}({', '.join(map(str, picked))}) = {found.out[index]}"
