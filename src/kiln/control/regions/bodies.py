"""User functions of pytrees -> regions of control-flow primitives.

The steps common to loops and branches: flattening pytrees to arrays, recording the function with
the values it closes over as operands, promoting weakly typed carries, finding carries that never
change, and errors for mismatched results. A function of known content is recorded once, and so is
the same function object (`kept_bodies.py`); for other functions, equal programs recorded at the
same source line become one object. In all cases, programs derived from the first recording are
reused.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.caches.bounded import Bounded
from kiln.base.caches.hashed import Hashed
from kiln.base.errors import TypePromotionError, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.process.memory import MB
from kiln.base.source import current_source, definition_of, name_of
from kiln.base.tree import (
    PyTreeDef,
    equality_errors,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from kiln.content.by_content import Slots, constants_from, is_plain, slots_of
from kiln.content.fingerprint import content_of
from kiln.control.regions import kept_bodies
from kiln.control.regions.region import memoized
from kiln.control.regions.selected_writes import without_copies
from kiln.core.arrays.array import Array
from kiln.core.arrays.read_tracking import tracking_reads
from kiln.core.hitypes import operand_error
from kiln.core.ref import Ref, returned_ref
from kiln.core.staging import check_may_trace, stage_region
from kiln.core.trace import Tracer, aval_of, state
from kiln.execution.compilation import as_array
from kiln.ir.analysis.footprint import footprint
from kiln.ir.analysis.user_code import holds_user_code, is_shareable
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.own_effects import check_allowed, control_flow_allowed_effects
from kiln.ir.rewrite import canonical
from kiln.ir.sharded_types import is_split_alike
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.ir.shardings.sums import NOWHERE, Varying
from kiln.ir.sizes.assumptions import assume_not_zero, collecting
from kiln.ir.types import ShapedArray
from kiln.ops.collective import varied, vary_p
from kiln.ops.elements.conversion import convert_element_type

LOOPS = frozenset(["scan", "while_loop", "fori_loop"])
SCALARS = (bool, int, float, complex, np.generic)


def arrays_of(construct: str, what: str, tree: Any) -> tuple[list[Any], PyTreeDef]:
    """Flatten an argument to arrays and scalars.

    Raises: TypeError naming the first leaf that is neither.
    """
    leaves, treedef = tree_flatten(tree)
    values = [as_operand(x) for x in leaves]
    for i, value in enumerate(values):
        if value is None:
            path = keystr(tree_flatten_with_path(tree)[0][i][0])
            asked = f"{construct}: argument {what}"
            raise not_an_array(asked, f"{what}{path}", leaves[i], is_argument=True)
    return values, treedef


def as_operand(x: Any) -> Any:
    """Return a leaf as an operand, or None if it is neither an array nor a number."""
    if isinstance(x, Array) or type(x) in SCALARS or type(x) is Ref:
        return x
    if isinstance(x, np.ndarray):
        return as_array(x) if dtypes.is_supported(x.dtype) else None
    if isinstance(x, SCALARS):
        return x
    return x.__jax_array__() if hasattr(x, "__jax_array__") else None


def not_an_array(asked: str, path: str, leaf: Any, *, is_argument: bool = False) -> TypeError:
    """Build the error for a leaf that is not an array."""
    return operand_error(
        leaf,
        three_lines(
            f"{asked} at {current_source()}",
            f"{path} has type {type(leaf).__name__}, which is not a valid JAX type: {leaf!r:.60}",
            "pass arrays and numbers here; let the function close over anything else",
        ),
        may_change=is_argument,
    )


def as_result(x: Any) -> Any:
    """Return an operand as users see it: as an array, even if it was a Python number."""
    return x if isinstance(x, Tracer) else as_array(x)


def check_callable(construct: str, what: str, fun: Any) -> None:
    """Raise TypeError unless an argument is callable."""
    if not callable(fun):
        raise TypeError(
            three_lines(
                f"{construct}: argument {what} at {current_source()}",
                f"{what} should be a callable, got {type(fun).__name__}",
                "pass a function",
            )
        )


class Body(NamedTuple):
    """A recorded function: the jaxpr takes `consts`, then the flat arguments."""

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: PyTreeDef

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the flat results."""
        return self.jaxpr.out_avals

    @property
    def varying(self) -> Varying:
        """The mesh axes along which some result varies."""
        return NOWHERE.union(*[aval.varying for aval in self.out_avals])

    def varying_as(self, avals: Sequence[ShapedArray]) -> Body:
        """Make the first results vary along the mesh axes that these types vary along."""
        return self._replace(jaxpr=with_varying(self.jaxpr, [aval.varying for aval in avals]))


def stage_body(
    construct: str,
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    user: Callable[..., Any] | None = None,
) -> Body:
    """Record `fun(*arguments)`, where `in_tree` is the structure of the tuple of arguments.

    Messages refer to `user`, which takes the same arguments.
    """
    user = user or fun
    content = content_of((fun, user)) if is_plain(in_tree) else None
    if content is None:
        return _by_function(construct, fun, in_tree, avals, user)
    key = Hashed((content.key, construct, in_tree, tuple(avals), options().key(), state.axes))
    known = _by_content.get(key)
    if known is None:
        with tracking_reads(content.operands) as tracker, collecting() as assumed:
            body = _record(construct, fun, in_tree, avals, user)
        body = body._replace(jaxpr=interned(body.jaxpr))
        slots = slots_of(body.consts, content.operands)
        if (
            tracker.was_read
            or slots is None
            or holds_user_code(body.jaxpr)
            or not is_plain(body.out_tree)
        ):
            return body
        found = (body.jaxpr, slots, body.out_tree, frozenset(assumed))
        known = _by_content.put(key, found, DERIVED_FACTOR * footprint(body.jaxpr))
    jaxpr, slots, out_tree, names = known
    assume_not_zero(names)
    return Body(jaxpr, constants_from(slots, content.operands), out_tree)


def _by_function(
    construct: str,
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    user: Callable[..., Any],
) -> Body:
    """Return the body that is kept for a function, or record it."""
    kind = kept_bodies.kind_of(construct, user, in_tree, avals)
    known = None if kind is None else kept_bodies.find(user, kind)
    consts = None if known is None else known.arrays()
    if known is not None and consts is not None:
        assume_not_zero(known.assumed)
        return Body(known.jaxpr, consts, known.out_tree)
    with collecting() as assumed:
        body = _record(construct, fun, in_tree, avals, user)
    body = body._replace(jaxpr=interned(body.jaxpr))
    # Its code may have been replaced meanwhile.
    if kind is not None and kind == kept_bodies.kind_of(construct, user, in_tree, avals):
        kept_bodies.keep(user, kind, in_tree, *body, frozenset(assumed))
    return body


def _record(
    construct: str,
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    user: Callable[..., Any],
) -> Body:
    trees: list[PyTreeDef] = []

    def flat(*tracers: Any) -> list[Any]:
        out = fun(*tree_unflatten(in_tree, tracers))
        leaves, tree = tree_flatten(out)
        trees.append(tree)
        values = [as_operand(x) for x in leaves]
        for i, value in enumerate(values):
            if type(value) is Ref:
                path = keystr(tree_flatten_with_path(out)[0][i][0]) or "the result"
                raise returned_ref(f"{construct}: {definition_of(user)}, called", path, value)
            if value is None:
                path = keystr(tree_flatten_with_path(out)[0][i][0])
                asked = f"{construct}: the function {definition_of(user)}, called"
                raise not_an_array(asked, f"the result{path}", leaves[i])
        return values

    check_may_trace(definition_of(user), construct)
    jaxpr, consts = stage_region(
        flat,
        avals,
        name=name_of(user),
        definition=definition_of(user),
        purpose=construct,
        arg_names=_argument_names(user, in_tree),
    )
    if construct != "shard_map":
        check_allowed(construct, jaxpr.effects, control_flow_allowed_effects)
    if construct in LOOPS:
        jaxpr = without_copies(jaxpr)
    return Body(jaxpr, consts, trees[0])


def _argument_names(user: Callable[..., Any], in_tree: PyTreeDef) -> list[str]:
    parameters = _parameters(user)
    names = []
    arguments = tree_unflatten(in_tree, range(in_tree.num_leaves))
    for path, _ in tree_flatten_with_path(arguments)[0]:
        place = path[0].idx
        root = parameters[place] if place < len(parameters) else f"args[{place}]"
        names.append(root + keystr(path[1:]))
    return names


def _parameters(fun: Callable[..., Any]) -> Sequence[str]:
    if type(fun) is types.FunctionType:
        return fun.__code__.co_varnames[: fun.__code__.co_argcount]
    try:
        return list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return ()


# Carries.


def settle_carry(
    carry: Sequence[Any],
    record: Callable[[Sequence[ShapedArray]], tuple[Any, Sequence[ShapedArray]]],
) -> tuple[list[Any], Any]:
    """Promote the weak types and varying axes of a carry until they match what the body returns.

    `record(types of the carry)` returns the recorded body and the types of the carry it returns.
    Returns the carry, converted, and the body recorded for it.
    """
    avals = [aval_of(x) for x in carry]
    while True:
        body, outs = record(avals)
        wider = [_wider(a, b) for a, b in zip(avals, outs, strict=True)]
        if wider == avals:
            return [converted(x, a) for x, a in zip(carry, avals, strict=True)], body
        avals = wider


def _wider(aval: ShapedArray, out: ShapedArray) -> ShapedArray:
    if not out.varying <= aval.varying:
        aval = aval.with_(varying=aval.varying | out.varying)
    if not aval.weak_type or aval.dtype == out.dtype:
        return aval
    try:
        dtype, _ = dtypes.lattice_result_type(aval, out)
    except TypePromotionError:
        return aval
    return aval.with_(dtype=dtype, weak_type=False)


def converted(x: Any, aval: ShapedArray) -> Any:
    """Convert an operand to the dtype of a type, varying likewise; numbers remain numbers."""
    x = varied(x, aval.varying)
    if aval_of(x).dtype == aval.dtype:
        return x
    if dtypes.is_python_scalar(x):
        return dtypes.coerce_python_scalar(x, aval.dtype)
    return convert_element_type(x, aval.dtype, aval.weak_type)


def check_carry_structure(
    construct: str, user: Callable[..., Any], before: PyTreeDef, after: PyTreeDef
) -> None:
    """Raise TypeError unless the body preserves the structure of the carry."""
    if before == after:
        return
    found = [
        f"carry{keystr(path)} goes in as {a} and comes out as {b}, {why}"
        for path, a, b, why in equality_errors(before, after)
    ]
    raise TypeError(
        three_lines(
            f"{construct}: the body {definition_of(user)}, called at {current_source()}",
            f"{construct} body function carry input and carry output must have the same pytree "
            f"structure, but they differ: {'; '.join(found)}",
            f"return a carry with the structure of the initial one: {before}, not {after}",
        )
    )


def check_carry_types(
    construct: str,
    user: Callable[..., Any],
    tree: PyTreeDef,
    before: Sequence[ShapedArray],
    after: Sequence[ShapedArray],
) -> None:
    """Raise TypeError unless every part of the carry keeps its shape and dtype."""
    wrong = [
        i
        for i, (a, b) in enumerate(zip(before, after, strict=True))
        if not (a.same_type(b) and is_split_alike(a, b))
    ]
    if not wrong:
        return
    paths = tree_flatten_with_path(tree_unflatten(tree, range(tree.num_leaves)))[0]
    names = {i: f"carry{keystr(path)}" for i, (path, _) in enumerate(paths)}
    found = [f"{names[i]} goes in as {before[i]} and comes out as {after[i]}" for i in wrong]
    first = wrong[0]
    if before[first].same_type(after[first]):
        spec = PartitionSpec(*after[first].split)
        remedy = f"start with one that is sharded alike: kiln.reshard({names[first]}, {spec})"
    else:
        remedy = _conversion(names[first], before[first], after[first])
    raise TypeError(
        three_lines(
            f"{construct}: the body {definition_of(user)}, called at {current_source()}",
            f"{construct} body function carry input and carry output must have equal types, but "
            f"they differ: {'; '.join(found)}",
            remedy,
        )
    )


def _conversion(name: str, before: ShapedArray, after: ShapedArray) -> str:
    return (
        f"convert {name} back with .astype('{dtypes.long_name(before.dtype)}'), or start with a "
        f"value of dtype {dtypes.long_name(after.dtype)}"
        if before.shape == after.shape
        else f"return {name} with shape {tuple(before.shape)}, or start with a value of shape "
        f"{tuple(after.shape)}"
    )


def with_varying(jaxpr: Jaxpr, wanted: Sequence[Varying]) -> Jaxpr:
    """Make results vary along the given mesh axes, in order; further results are unchanged."""
    wanted = tuple(wanted)
    todo = [
        (i, v.aval.varying | more)
        for i, (v, more) in enumerate(zip(jaxpr.outvars, wanted, strict=False))
        if isinstance(v, Var) and not more <= v.aval.varying
    ]
    return memoized(jaxpr, ("varying", wanted), lambda: _varied(jaxpr, todo)) if todo else jaxpr


def _varied(jaxpr: Jaxpr, todo: Sequence[tuple[int, Varying]]) -> Jaxpr:
    outvars, eqns = list(jaxpr.outvars), list(jaxpr.eqns)
    for i, varying in todo:
        before = outvars[i]
        after = Var(before.aval.with_(varying=varying))
        params = {"axes": tuple(sorted(varying - before.aval.varying, key=str))}
        eqns.append(Eqn(vary_p, [before], [after], params, vary_p.effects(params), None))
        outvars[i] = after
    return jaxpr.with_(eqns=eqns, outvars=outvars)


def unchanged(jaxpr: Jaxpr, consts: int, carry: int) -> list[bool]:
    """Tell which carries a body returns unchanged: they are constants of the loop."""
    ins, outs = jaxpr.invars[consts : consts + carry], jaxpr.outvars[:carry]
    return [v is out for v, out in zip(ins, outs, strict=True)]


# Sharing.


def with_common_consts(bodies: Sequence[Body]) -> tuple[list[Jaxpr], list[Any]]:
    """Give several bodies the same leading operands: everything that any of them closes over."""
    values: dict[int, Any] = {id(x): x for body in bodies for x in body.consts}
    numbers = {key: i for i, key in enumerate(values)}
    uses = tuple(tuple(numbers[id(x)] for x in body.consts) for body in bodies)
    avals = tuple(aval_of(x) for x in values.values())
    jaxprs = [
        memoized(body.jaxpr, ("common consts", own, avals), _added(body.jaxpr, own, avals))
        for body, own in zip(bodies, uses, strict=True)
    ]
    return jaxprs, list(values.values())


def _added(jaxpr: Jaxpr, own: Sequence[int], avals: Sequence[ShapedArray]) -> Callable[[], Jaxpr]:
    """Return a function that adds leading operands of these types; `own` numbers existing ones."""

    def make() -> Jaxpr:
        n = len(own)
        there = dict(zip(own, jaxpr.invars[:n], strict=True))
        binders = [there.get(i) or Var(aval) for i, aval in enumerate(avals)]
        return jaxpr.with_(
            invars=[*binders, *jaxpr.invars[n:]],
            arg_names=[*[""] * len(binders), *jaxpr.arg_names[n:]],
        )

    return make


DERIVED_FACTOR = 4
"""The memory of a body including the programs derived from it, relative to the body alone."""

_Known = tuple[Jaxpr, Slots, PyTreeDef, frozenset[Hashable]]
_interned: Bounded[Hashable, Jaxpr] = Bounded(lambda: options().body_cache_mb * MB)
_by_content: Bounded[Hashable, _Known] = Bounded(lambda: options().body_cache_mb * MB)


def interned(jaxpr: Jaxpr) -> Jaxpr:
    """Return the first equal jaxpr recorded from the same lines.

    A loop that is called repeatedly records its body each time; programs derived from the body (its
    derivative, its batched form) are stored on the jaxpr, and found again this way.
    """
    if not is_shareable(jaxpr):
        return jaxpr
    # Ids of code objects are safe as keys: the stored jaxpr keeps the code alive.
    places = tuple(
        (id(eqn.source.code), eqn.source.offset) if eqn.source else None for eqn in jaxpr.eqns
    )
    key = Hashed((canonical(jaxpr), places, jaxpr.name, jaxpr.arg_names, options().key()))
    return _interned.get(key) or _interned.put(key, jaxpr, DERIVED_FACTOR * footprint(jaxpr))


def clear() -> None:
    """Drop all recorded bodies, and the programs derived from them."""
    _by_content.clear()
    _interned.clear()
    kept_bodies.clear()
