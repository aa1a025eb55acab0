"""Primitives of high values: operations that libraries define on their own types.

A call on mutable or concrete values computes the primitive's meaning immediately. A call on traced
values becomes an equation of the arrays that the values consist of (`core/hitypes.py`), which keeps
the primitive with its rules: derivatives use the library's rules, engines compile the meaning.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from kiln.base.errors import MissingRule, three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.core.absent import Linear, Zero, is_linear, is_zero
from kiln.core.hitypes import (
    AvalQDD,
    check_tangents,
    full_type_of,
    is_high,
    lowered,
    owned,
    owner_of,
    raised,
)
from kiln.core.meaning import meaning
from kiln.core.primitive import Primitive
from kiln.core.staging import StagingTrace, stage_pure
from kiln.core.trace import Trace, Tracer, aval_of, in_force, state
from kiln.ir.effects import HELD, Effects
from kiln.ir.rewrite import params_key
from kiln.ir.types import ShapedArray
from kiln.ops.shape import filled
from kiln.transforms.batching import BatchTrace, BatchTracer
from kiln.transforms.jvp import JVPTrace


class HiPrimitive(Primitive):
    """An operation on values of any kind, with rules as methods.

    `abstract_eval(*types, **params)` returns the type of the result and a set of effects;
    `to_lojax(*values, **params)` computes it; `jvp` and `transpose` are like those of `Primitive`.
    With `multiple_results` there is a list of results.

    Example:
        >>> from kiln.experimental import hijax
        >>> class Double(hijax.HiPrimitive):
        ...     def abstract_eval(self, x):
        ...         return x, set()
        ...
        ...     def to_lojax(self, x):
        ...         return 2 * x
        ...
        ...     def jvp(self, primals, tangents):
        ...         return double_p.bind(*primals), double_p.bind(*tangents)
        ...
        ...     def transpose(self, ct, x):
        ...         return [double_p.bind(ct)]
        >>> double_p = Double("double")
        >>> print(kiln.make_jaxpr(double_p.bind)(1.0))
        { lambda ; a:f32[]. let b:f32[] = double a in (b,) }
        >>> kiln.grad(double_p.bind)(1.0)
        Array(2., dtype=float32, weak_type=True)
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.multiple = type(self).multiple_results

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Tell whether `to_lojax` defines the operation; otherwise `impl` does."""
        return True

    def is_effectful(self, params: dict[str, Any]) -> bool:
        """Tell whether an equation is kept though its results are unused."""
        return False

    def abstract_eval(self, *arg_avals: Any, **params: Any) -> tuple[Any, Any]:
        """Return the types of the results, and the effects."""
        raise self._undefined("abstract_eval")

    def to_lojax(self, *values: Any, **params: Any) -> Any:
        """Compute the operation, by functions of arrays."""
        raise self._undefined("to_lojax")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        """Return the results and their tangents."""
        raise self._undefined("jvp")

    def transpose(self, cotangent: Any, *operands: Any, **params: Any) -> Any:
        """Return a cotangent for each operand that is an `UndefinedPrimal`, None for others."""
        raise self._undefined("transpose")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation to values, traced or not."""
        types = [full_type_of(x) if is_high(x) else aval_of(x) for x in args]
        if any(kind.has_qdd for kind in types):
            owners = [owner_of(x) for x, kind in zip(args, types, strict=True) if kind.has_qdd]
            if not self.multiple and any(isinstance(x, Tracer) for x in args):
                # The derivative of the primitive may differ from that of the operations it
                # computes.
                held_p.bind()
                if type(state.trace) is JVPTrace:
                    return self._moved(state.trace, args, types, params)
            _require_within(self, owners, args)
            return self._computed(args, params)
        arrays = lowered(types, args)
        if not any(isinstance(x, Tracer) for x in arrays):
            return self._computed(args, params)
        results, effects = self.abstract_eval(*types, **params)
        outs = list(results) if self.multiple else [results]
        if effects or any(isinstance(kind, AvalQDD) or kind.has_qdd for kind in outs):
            return self._computed(args, params)
        equation = Application(self, tuple(types), tuple(outs), params)
        found = raised(outs, hi_call_p.bind(*arrays, application=equation))
        return found if self.multiple else found[0]

    def _moved(
        self, trace: JVPTrace, args: Sequence[Any], types: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Apply the rule `jvp`; a mutable value does not move."""
        pairs = [
            (x, Zero(kind.aval)) if kind.has_qdd else trace.split(x)
            for x, kind in zip(args, types, strict=True)
        ]
        primals, tangents = [p for p, _ in pairs], [t for _, t in pairs]
        assert trace.parent is not None
        with in_force(trace.parent):
            if all(map(is_zero, tangents)):
                return self.bind(*primals, **params)
            out, moved = self.jvp(primals, tangents, **params)
        return trace.wrap(out, moved)

    def _computed(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not self.is_high(*map(aval_of, args), **params):
            return self.impl(*args, **params)
        found = self.to_lojax(*args, **params)
        results = list(found) if self.multiple else [found]
        for x in results:
            if is_high(x) and aval_of(x).has_qdd:
                owned(x)
        return results if self.multiple else found

    def _undefined(self, rule: str) -> MissingRule:
        return MissingRule(
            three_lines(
                f"{rule} of {self.name!r} at {current_source()}",
                f"the primitive {type(self).__name__} does not define {rule}, which this needs",
                f"define `{rule}` on {type(self).__name__}",
            )
        )


def _require_within(primitive: HiPrimitive, owners: Sequence[Trace], args: Sequence[Any]) -> None:
    """Check that traced operands exist wherever mutable values do: they may be stored there.

    Raises: ValueError for one that belongs to a derivative or a map inside.
    """
    for x in args:
        if isinstance(x, Tracer) and not all(_exists_in(x, owner) for owner in owners):
            under = "vmap" if isinstance(x, BatchTracer) else "differentiation"
            raise ValueError(
                three_lines(
                    f"{primitive.name!r} under {under} at {current_source()}",
                    f"an operand of type {x.aval} is {'mapped' if under == 'vmap' else 'moving'}, "
                    "and the value that changes was made outside the function",
                    "make the value inside the function; or pass lax.stop_gradient(operand)"
                    if under == "differentiation"
                    else "make the value inside the function, or change it outside",
                )
            )


def _exists_in(x: Tracer, owner: Trace) -> bool:
    trace: Trace | None = owner
    while trace is not None:
        if trace is x.owner or (
            isinstance(trace, BatchTrace)
            and isinstance(x.owner, BatchTrace)
            and trace.tag is x.owner.tag
        ):
            return True
        trace = trace.parent
    return False


class Application(Record, eq=False):
    """What an equation applies: a primitive to operands of some types, with parameters."""

    primitive: HiPrimitive
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    params: dict[str, Any]

    def _key(self) -> Hashable:
        return self.primitive, self.primitive.revision, self.ins, self.outs

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Application)
            and self._key() == other._key()
            and params_key(self.params) == params_key(other.params)
        )

    def several(self, found: Any) -> Sequence[Any]:
        """Return the results of a rule as a sequence."""
        return list(found) if self.primitive.multiple else [found]

    def single(self, values: Sequence[Any]) -> Any:
        """Return results in the form that the rules of the primitive get."""
        return list(values) if self.primitive.multiple else values[0]

    def tangents(self) -> list[Any]:
        """Return the types of the tangents of the operands."""
        return [kind.to_tangent_aval() for kind in self.ins]

    def parts(self, kinds: Iterable[Any], values: Sequence[Any]) -> list[list[Any]]:
        """Divide arrays into those of each type."""
        rest = iter(values)
        return [[next(rest) for _ in kind.lo_ty()] for kind in kinds]

    def __repr__(self) -> str:
        return self.primitive.name


class HiCall(Primitive):
    """Apply a `HiPrimitive` to the arrays that its operands consist of."""

    name = "hi_call"
    multiple = True

    def infer(self, *xs: Any, application: Application) -> list[ShapedArray]:
        return [aval for kind in application.outs for aval in kind.lo_ty()]

    def expand(self, *xs: Any, application: Application) -> Any:
        values = raised(application.ins, xs)
        found = application.primitive.to_lojax(*values, **application.params)
        return lowered(application.outs, application.several(found))

    evaluate = expand

    def numpy(self, *xs: Any, application: Application) -> Any:
        avals = [aval_of(x) for x in xs]
        return meaning(stage_pure(lambda *ys: self.expand(*ys, application=application), avals), xs)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, application: Application
    ) -> Any:
        moves = application.tangents()
        kinds = (*application.ins, *application.outs)
        check_tangents(repr(application.primitive.name), kinds)
        given = [
            Zero(kind) if all(map(is_zero, group)) else raised([kind], map(filled, group))[0]
            for kind, group in zip(moves, application.parts(application.ins, tangents), strict=True)
        ]
        values = raised(application.ins, primals)
        outs, moved = application.primitive.jvp(values, given, **application.params)
        found: list[Any] = []
        pairs = zip(application.outs, application.several(moved), strict=True)
        for kind, tangent in pairs:
            to = kind.to_tangent_aval()
            if is_zero(tangent):
                found += [Zero(aval) for aval in to.lo_ty()]
            else:
                found += lowered([to], [tangent])
        return lowered(application.outs, application.several(outs)), found

    def transpose(self, cts: Sequence[Any], *xs: Any, application: Application) -> Any:
        groups = application.parts(application.ins, xs)
        linear = [any(map(is_linear, group)) for group in groups]
        operands = [
            Linear(kind) if pulled else raised([kind], group)[0]
            for kind, group, pulled in zip(application.ins, groups, linear, strict=True)
        ]
        kinds = [kind.to_ct_aval() for kind in application.outs]
        given = application.single(raised(kinds, map(filled, cts)))
        found = application.primitive.transpose(given, *operands, **application.params)
        back: list[Any] = []
        for kind, group, pulled, ct in zip(application.ins, groups, linear, found, strict=True):
            if not pulled:
                back += [None] * len(group)
            elif ct is None or is_zero(ct):
                back += [Zero(aval) for aval in kind.to_ct_aval().lo_ty()]
            else:
                back += lowered([kind.to_ct_aval()], [ct])
        return back

    def batch(
        self,
        size: Any,
        operands: Sequence[Any],
        axes: Sequence[Any],
        /,
        *,
        application: Application,
    ) -> Any:
        raise application.primitive._undefined("batch")

    def write(self, outs: Sequence[str], xs: Sequence[str], *, application: Application) -> str:
        given = [f"{name}={value}" for name, value in sorted(application.params.items())]
        named = f"{application.primitive.name}{f'[{chr(32).join(given)}]' if given else ''}"
        return f"{' '.join(outs) or '_'} = {' '.join([named, *xs])}"


class HeldMark(Primitive):
    """A no-op that marks a program: its function is differentiated instead of the program."""

    name = "held"
    multiple = True

    def bind(self, *args: Any, **params: Any) -> Any:
        trace: Trace | None = state.trace
        while trace is not None and type(trace) is not StagingTrace:
            trace = trace.parent
        return [] if trace is None else trace.process(self, args, params)

    def infer(self) -> list[ShapedArray]:
        return []

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((HELD,))

    def numpy(self) -> Any:
        return []

    expand = numpy


hi_call_p = HiCall()
held_p = HeldMark()
