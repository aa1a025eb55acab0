"""Lowerings of other libraries' primitives: `register_lowering`, `lower_fun`.

The names are those of `jax.interpreters.mlir`. A lowering rule `rule(context, *operands, **params)`
is a function of arrays here, which all engines trace: it says what the primitive is in terms of
others. There is no MLIR to write.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.effects.callback import io_callback, pure_callback
from kiln.core.meaning import meaning
from kiln.core.primitive import Primitive
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ir.own_effects import OwnEffect, lowerable_effects
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.struct import struct_of

LoweringRule = Callable[..., Any]

_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "oneapi", "tpu", "METAL", "neuron")
"""Where programs of JAX run; rules for others than the first are never used here."""


class ModuleContext:
    """What a lowering rule sees of the program that it is part of."""

    platforms = ("cpu",)

    def __init__(self) -> None:
        self.keepalives: list[Any] = []

    def add_keepalive(self, value: Any) -> None:
        """Do nothing: programs keep what they call."""


class Token:
    """What an ordered effect passes from one lowering to the next: the order, and no value."""


class TokenSet:
    """A token for each of some effects. Immutable."""

    def __init__(self, tokens: Mapping[Any, Any] | None = None) -> None:
        self._tokens = dict(tokens or {})

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, effect: Any) -> Any:
        """Return the token of an effect; KeyError if there is none."""
        return self._tokens[effect]

    @classmethod
    def create(cls, effects: Iterable[Any]) -> TokenSet:
        """Return a token for each effect."""
        return cls({effect: Token() for effect in effects})

    def items(self) -> tuple[tuple[Any, Any], ...]:
        """Return the pairs of effects and tokens."""
        return tuple(self._tokens.items())

    def effects(self) -> set[Any]:
        """Return the effects."""
        return set(self._tokens)

    def tokens(self) -> tuple[Any, ...]:
        """Return the tokens."""
        return tuple(self._tokens.values())

    def subset(self, effects: Iterable[Any]) -> TokenSet:
        """Return the tokens of some of the effects."""
        return TokenSet({effect: self._tokens[effect] for effect in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """Return the tokens with some replaced."""
        return TokenSet({**self._tokens, **tokens._tokens}) if len(tokens) else self


@dataclasses.dataclass(frozen=True)
class LoweringRuleContext:
    """What a lowering rule is given beside the operands: the types of operands and results.

    `tokens_in` has a token for each ordered effect; a rule passes them on, or tokens of what it
    does, with `set_tokens_out`.
    """

    primitive: Primitive
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]
    module_context: ModuleContext = dataclasses.field(default_factory=ModuleContext)
    tokens_in: Any = None
    tokens_out: Any = None

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Say which tokens the ordered effects leave.

        Raises: ValueError if they were set before.
        """
        if self.tokens_out is not None:
            raise ValueError(
                three_lines(
                    f"set_tokens_out in the lowering of {self.primitive} at {current_source()}",
                    "tokens_out are already set",
                    "set them once",
                )
            )
        object.__setattr__(self, "tokens_out", tokens_out)

    def replace(self, **changes: Any) -> LoweringRuleContext:
        """Return a copy with some parts replaced."""
        return dataclasses.replace(self, **changes)


class Lowerings:
    """The lowering rules of a primitive by platform, as its `expand` rule."""

    def __init__(self, primitive: Primitive) -> None:
        self._primitive = primitive
        self._rules: dict[str | None, LoweringRule] = {}

    def add(self, platform: str | None, rule: LoweringRule) -> None:
        """Add the rule of a platform; None is for all that have none of their own."""
        self._rules[platform] = rule

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Compute the operation with simpler primitives."""
        primitive, rules = self._primitive, self._rules
        avals = [aval_of(x) for x in operands]
        types = primitive.infer(*avals, **params)
        rule = rules.get("cpu") or rules.get(None) or next(iter(rules.values()))
        effects = primitive.effects(params) or ()
        tokens = TokenSet.create([e for e in effects if isinstance(e, OwnEffect) and e.ordered])
        context = LoweringRuleContext(
            primitive, avals, types if primitive.multiple else [types], tokens_in=tokens
        )
        found = rule(context, *operands, **params)
        if len(tokens):
            self._check_tokens(context)
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        wanted = len(context.avals_out)
        if len(results) != wanted:
            raise TypeError(
                three_lines(
                    f"lowering of {primitive.name!r} at {current_source()}",
                    f"the rule returned {len(results)} results, the primitive has {wanted}",
                    "return a list with each result; lower_fun has multiple_results=False for one",
                )
            )
        return results if primitive.multiple else results[0]

    def _check_tokens(self, context: LoweringRuleContext) -> None:
        name, wanted, found = self._primitive.name, context.tokens_in, context.tokens_out
        wrong = ""
        if found is None:
            wrong = (
                f"Lowering rule for `{name}` needs to set `tokens_out` because it has effects: "
                f"{sorted(map(str, wanted.effects()))}"
            )
        elif found.effects() != wanted.effects():
            wrong = (
                f"Lowering rule for `{name}` returns incorrect set of output token. Expected: "
                f"{wanted.effects()} vs. Actual: {found.effects()}"
            )
        if wrong:
            raise ValueError(
                three_lines(
                    f"lowering of {name!r} at {current_source()}",
                    wrong,
                    "pass them on: ctx.set_tokens_out(ctx.tokens_in)",
                )
            )

    def meaning(self, *arrays: Any, **params: Any) -> Any:
        """Compute the operation with NumPy."""

        def flat(*xs: Any) -> Sequence[Any]:
            found = self(*xs, **params)
            return found if self._primitive.multiple else [found]

        outs = meaning(stage_pure(flat, [aval_of(x) for x in arrays]), arrays)
        return outs if self._primitive.multiple else outs[0]


def register_lowering(
    prim: Primitive,
    rule: LoweringRule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> LoweringRule:
    """Set how a primitive is lowered on a platform, or on all; `inline`, `cacheable` are ignored.

    Raises: NotImplementedError for a platform that there is not, ValueError for primitives of
        kiln, which the engines lower.
    """
    if platform is not None and platform not in _PLATFORMS:
        raise NotImplementedError(
            three_lines(
                f"register_lowering(..., platform={platform!r}) at {current_source()}",
                f"Registering an MLIR lowering rule for primitive {prim} for an unknown platform "
                f"{platform}. Known platforms are: {', '.join(_PLATFORMS)}.",
                "name one of them, or none for a rule that is for all",
            )
        )
    found = vars(prim).get("expand")
    if not isinstance(found, Lowerings):
        if type(prim).__module__.startswith("kiln.") and type(prim) is not Primitive:
            raise ValueError(
                three_lines(
                    f"register_lowering of {prim.name!r} at {current_source()}",
                    "the engines lower kiln's own primitives; these lowerings cannot be replaced",
                    "define a primitive of your own: kiln.extend.core.Primitive(name)",
                )
            )
        found = Lowerings(prim)
        prim.numpy = found.meaning  # type: ignore[method-assign]
    found.add(platform, rule)
    # Set again, so that programs made with the lowerings before are told apart.
    prim.expand = found  # type: ignore[method-assign]
    return rule


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """Return the lowering rule that traces `fun(*operands, **params)`.

    With `multiple_results` the function returns a sequence, otherwise a single array.
    """

    def rule(context: Any, /, *operands: Any, **params: Any) -> list[Any]:
        out = fun(*operands, **params)
        if context.tokens_in and context.tokens_out is None:
            context.set_tokens_out(context.tokens_in)
        return list(out) if multiple_results else [out]

    return rule


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Any],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[ShapedArray],
    result_avals: Sequence[ShapedArray],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Any], Any, None]:
    """Call a Python function of NumPy arrays, in a lowering rule; return results, token, None.

    Given a token, calls keep their order.
    """
    call: Callable[..., Any] = pure_callback
    if has_side_effect:
        call = functools.partial(io_callback, ordered=token is not None)

    def flat(*xs: Any) -> list[Any]:
        return list(callback(*xs))

    return list(call(flat, [struct_of(a) for a in result_avals], *operands)), token, None


__all__ = [
    "LoweringRule",
    "LoweringRuleContext",
    "ModuleContext",
    "TokenSet",
    "emit_python_callback",
    "lower_fun",
    "lowerable_effects",
    "register_lowering",
]
