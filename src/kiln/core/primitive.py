"""Primitive: an operation that can be applied, by passing it to the active trace.

kiln's own are instances of subclasses, which have the rules as methods. Those of other libraries
are instances of `Primitive` itself, which get rules one by one: the attributes and `def_*` methods
that such libraries use are here, and the tables of rules in `kiln.interpreters`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kiln.base.caches.revisions import revise
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.weak import WeakSet
from kiln.core.trace import Trace, state
from kiln.ir.analysis.key_uses import Keys, fresh, moved, use
from kiln.ir.effects import NO_EFFECTS, Effect, Effects
from kiln.ir.jaxpr import Eqn
from kiln.ir.operation import Operation
from kiln.ir.own_effects import OwnEffect
from kiln.ir.types import ShapedArray

Align = Callable[[Operation, Sequence[Any], dict[str, Any]], Sequence[Any]]
Rule = Callable[..., Any]


def _as_they_are(
    primitive: Operation, args: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    return args


_align: Align = _as_they_are


def set_alignment(align: Align) -> None:
    """Install the function that makes operands vary along the same mesh axes."""
    global _align
    _align = align


_REMEDIES = {
    "infer": "call primitive.def_abstract_eval(rule)",
    "jvp": "set interpreters.ad.primitive_jvps[primitive]",
    "transpose": "set interpreters.ad.primitive_transposes[primitive]",
    "batch": "set interpreters.batching.primitive_batchers[primitive]",
    "expand": "call interpreters.mlir.register_lowering(primitive, mlir.lower_fun(function))",
}
_REMEDIES["numpy"] = _REMEDIES["expand"]

_made: WeakSet[Primitive] = WeakSet()
_RULES = frozenset(vars(Operation)) - {"name", "revision"}


class _Latest(threading.local):
    """The effects of the types that a rule returned last, on a thread."""

    effects: Effects = NO_EFFECTS


class Primitive(Operation):
    """An operation on arrays.

    Example:
        >>> twice_p = kiln.extend.core.Primitive("twice")
        >>> _ = twice_p.def_abstract_eval(lambda x: x)
        >>> print(kiln.make_jaxpr(twice_p.bind)(jnp.ones(3)))
        { lambda ; a:f32[3]. let b:f32[3] = twice a in (b,) }
    """

    call_primitive = False
    map_primitive = False

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        _made.add(self)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _RULES:
            self._revised()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in _RULES:
            self._revised()

    def _revised(self) -> None:
        self.revision = revise()

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation under the active trace."""
        if state.tracked:
            return state.trace.process(self, _align(self, args, params), params)
        return state.trace.process(self, args, params)

    def bind_with_trace(
        self, trace: Trace, args: Sequence[Any], avals: Any, params: dict[str, Any]
    ) -> Any:
        """Apply the operation under a trace, which knows the types: `avals` is not used."""
        return trace.process(self, args, params)

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        """Return the keys of the results; `on_keys` says what becomes of the operands' keys.

        Raises: KeyReuseError if a key is used that was used before.
        """
        if self.on_keys == "move":
            return moved(eqn, operands, values)
        if self.on_keys == "use":
            use(eqn, operands)
        return [fresh(v.aval) for v in eqn.outvars]

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of `bind` for an equation with these parameters."""
        return dict(params)

    @property
    def multiple_results(self) -> bool:
        """Whether it has a list of results."""
        return self.multiple

    @multiple_results.setter
    def multiple_results(self, value: bool) -> None:
        self.multiple = bool(value)

    @property
    def impl(self) -> Rule:
        """The function that applies the operation to arrays."""
        return self.evaluate or self._run

    def _run(self, *args: Any, **params: Any) -> Any:
        # What is set as `impl` by now may be a function that calls this.
        run = state.root.process if self.evaluate is None else state.root.run
        return run(self, args, params)

    def def_impl(self, impl: Rule) -> Rule:
        """Set the function that is called with arrays, outside all transformations.

        An earlier value of `impl` may be set again.
        """
        self.evaluate = None if impl == self._run else impl
        return impl

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Set the rule from the operands' types to the result's: a list of them, if several."""

        def infer(*avals: Any, **params: Any) -> Any:
            return self._types(rule(*avals, **params))

        self.infer = infer  # type: ignore[method-assign]
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Set a rule as `def_abstract_eval` does, which returns a pair: types, effects.

        Equations with effects are never dropped.
        """
        # The effects are asked for right after the types.
        latest = _Latest()

        def infer(*avals: Any, **params: Any) -> Any:
            types, effects = rule(*avals, **params)
            latest.effects = frozenset([self._effect(effect) for effect in effects])
            return self._types(types)

        def effects(params: dict[str, Any]) -> Effects:
            return latest.effects

        self.infer = infer  # type: ignore[method-assign]
        self.effects = effects  # type: ignore[method-assign]
        return rule

    def _effect(self, effect: Any) -> Any:
        return effect if isinstance(effect, (Effect, OwnEffect)) else Effect(self.name)

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, Effects]:
        """Return the types of the results, and the effects."""
        return self.infer(*avals, **params), self.effects(params) or NO_EFFECTS

    def remedy(self, rule: str) -> str:
        """Say how to define a rule, for messages."""
        from_outside = type(self) is Primitive or not type(self).__module__.startswith("kiln.")
        return _REMEDIES[rule] if from_outside and rule in _REMEDIES else super().remedy(rule)

    def _types(self, found: Any) -> Any:
        if not self.multiple:
            return self._type(found)
        if not isinstance(found, (list, tuple)):
            raise self._mistyped(found, "multiple_results is set, so it must return a list")
        return [self._type(x) for x in found]

    def _type(self, found: Any) -> ShapedArray:
        if isinstance(found, ShapedArray):
            return found
        try:
            return ShapedArray(found.shape, found.dtype, getattr(found, "weak_type", False))
        except AttributeError:
            raise self._mistyped(found, "a type has a shape and a dtype") from None

    def _mistyped(self, found: Any, why: str) -> TypeError:
        kind = (
            "a list of ShapedArray(shape, dtype)" if self.multiple else "ShapedArray(shape, dtype)"
        )
        return TypeError(
            three_lines(
                f"abstract evaluation of {self.name!r} at {current_source()}",
                f"the rule returned {found!r:.80}: {why}",
                f"return {kind} from the rule of def_abstract_eval",
            )
        )


class RejectsSharding(Primitive):
    """An operation with a `sharding` parameter in JAX; here the operands determine the sharding."""

    def bind(self, *args: Any, sharding: None = None, **params: Any) -> Any:
        """Apply the operation under the active trace.

        Raises: NotImplementedError for a `sharding`.
        """
        if sharding is not None:
            raise NotImplementedError(
                three_lines(
                    f"{self.name}_p with sharding={sharding!r:.60} at {current_source()}",
                    "the result of this primitive is placed where its operands are",
                    "apply lax.with_sharding_constraint, or kiln.reshard, to the result",
                )
            )
        # What `Primitive.bind` does, inlined.
        if state.tracked:
            return state.trace.process(self, _align(self, args, params), params)
        return state.trace.process(self, args, params)


def primitives() -> Iterator[Primitive]:
    """Yield all primitives that exist now, in no order."""
    yield from list(_made)
