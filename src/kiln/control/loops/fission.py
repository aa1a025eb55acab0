"""Loop fission: matrix products that leave a scan.

In one iteration a product with few rows reads a whole matrix. Over all iterations it is one product
with many rows, or with a long contraction:

- of scanned values by a constant matrix: before the loop, which scans the result;
- by a constant matrix, if the loop only stacks what follows from it: after the loop;
- added to a carry that nothing else reads, such as the cotangent of a weight: after the loop, by a
  contraction over iterations too.

A product leaves if the values that are stacked for it are fewer than the elements of the matrix
that each iteration would read, or update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.control.call import inlined, jit_p
from kiln.control.loops.scan import scan_p
from kiln.control.loops.scan_split import split_by_counts
from kiln.control.regions.region import memoized, merge, select_by
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import state
from kiln.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ops.elements.families import add, add_p
from kiln.ops.indexing.static_slicing import slice_p
from kiln.ops.linear.contraction import dot_general_p
from kiln.ops.shape import kept_axes, reshape_p, transpose_p
from kiln.transforms.batching import MappedAxis, batch_jaxpr

MOST_ROWS = 64
"""With more rows an iteration's product is about as fast as one product of all iterations."""
LEAST_MATRIX = 1 << 12
"""The elements of a matrix that is worth it: a smaller one stays in the L1 cache."""
MOST_STACKED = 1 << 26
"""The bytes of all iterations that may be stacked for one product."""


def without_products(params: dict[str, Any]) -> Jaxpr | None:
    """Return a program equivalent to a scan, of fixed length, whose products have left the loop.

    None if there are none.
    """
    jaxpr = params["jaxpr"]
    if not _has_product(jaxpr):
        return None
    names = ("num_consts", "num_carry", "length", "reverse", "unroll")
    key = ("scan fission", *(params[name] for name in names))
    (found,) = memoized(jaxpr, key, lambda: (_without_products(params),))
    return found


def _has_product(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive is dot_general_p
        or (eqn.primitive is jit_p and _has_product(eqn.params["jaxpr"]))
        for eqn in jaxpr.eqns
    )


_REARRANGING = {transpose_p, reshape_p, slice_p}


class _Sum(NamedTuple):
    """A carry that products are added to, each through equations that rearrange it."""

    carry: int
    terms: tuple[tuple[Eqn, ...], ...]


class _Body:
    """The body of a scan, and what each of its values depends on."""

    def __init__(self, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int) -> None:
        self.jaxpr, self.length = jaxpr, length
        self.consts, self.carry, self.xs = split_by_counts(jaxpr.invars, num_consts, num_carry)
        self.carried = jaxpr.outvars[:num_carry]
        self.ys = jaxpr.outvars[num_carry:]
        self.users: dict[Var, list[Eqn]] = {}
        self.made_by: dict[Var, Eqn] = {}
        self.fixed = set(self.consts)
        self.fixed_eqns: list[Eqn] = []
        self.scanned = set(self.xs)
        for eqn in jaxpr.eqns:
            given = _variables(eqn.invars)
            for v in given:
                self.users.setdefault(v, []).append(eqn)
            self.made_by.update(dict.fromkeys(eqn.outvars, eqn))
            if _may_move(eqn):
                if self.fixed.issuperset(given):
                    self.fixed.update(eqn.outvars)
                    self.fixed_eqns.append(eqn)
                elif all(v in self.fixed or v in self.scanned for v in given):
                    self.scanned.update(eqn.outvars)
        self.returned = set(_variables(jaxpr.outvars))
        self.recurrent = self._sources(_variables(self.carried))
        """What a carry depends on."""

    def _sources(self, wanted: Sequence[Var]) -> set[Var]:
        found = set(wanted)
        for eqn in reversed(self.jaxpr.eqns):
            if not found.isdisjoint(eqn.outvars) or eqn.effects:
                found.update(_variables(eqn.invars))
        return found

    def matrix_of(self, eqn: Eqn) -> int:
        """Return the elements of the constant matrix that an equation multiplies few rows by.

        0 for other equations.
        """
        if eqn.primitive is not dot_general_p:
            return 0
        contracted, batch = eqn.params["dimension_numbers"]
        sides = [v.is_literal or v in self.fixed for v in eqn.invars]
        if batch[0] or sides.count(True) != 1:
            return 0
        matrix, rows = (eqn.invars[sides.index(s)].aval for s in (True, False))
        size, axes = matrix.size, kept_axes(rows.ndim, contracted[sides.index(False)])
        if type(size) is not int or type(rows.size) is not int or size < LEAST_MATRIX:
            return 0
        return size if math.prod(rows.shape[a] for a in axes) <= MOST_ROWS else 0

    def fits(self, stacked: Sequence[Var], matrix: int) -> bool:
        """Tell whether values may be stacked instead of an access to a matrix in each iteration."""
        total = room = 0
        for v in stacked:
            size = v.aval.size
            if type(size) is not int:
                return False
            total += size
            room += size * v.aval.dtype.itemsize
        return total <= matrix and room * self.length <= MOST_STACKED

    def before(self) -> tuple[list[Eqn], list[Var]]:
        """Return equations that can run before the loop, and what the loop scans of them."""
        moved: dict[Eqn, None] = {}
        found: list[Var] = []
        for eqn in self.jaxpr.eqns:
            matrix = self.matrix_of(eqn)
            if not matrix or eqn.outvars[0] not in self.scanned & self.recurrent:
                continue
            cone = self._cone(eqn, moved)
            if self.fits([v for each in cone for v in each.outvars], matrix):
                moved.update(dict.fromkeys(cone))
                found += eqn.outvars
        return [e for e in self.jaxpr.eqns if e in moved], found

    def _cone(self, eqn: Eqn, known: dict[Eqn, None]) -> list[Eqn]:
        """Return an equation and those that it depends on, without constant and `known` ones."""
        found: dict[Eqn, None] = {}
        stack = [eqn]
        while stack:
            each = stack.pop()
            if each not in found and each not in known:
                found[each] = None
                stack.extend(
                    self.made_by[v]
                    for v in _variables(each.invars)
                    if v not in self.fixed and v in self.made_by
                )
        return list(found)

    def after(self) -> tuple[list[Eqn], list[Var]]:
        """Return equations that can run after the loop, and what the loop stacks for them."""
        moved: dict[Eqn, None] = {}
        for eqn in self.jaxpr.eqns:
            matrix = self.matrix_of(eqn)
            if not matrix or eqn in moved or eqn.outvars[0] in self.recurrent:
                continue
            reached = self._reached(eqn, moved)
            if reached and self.fits(self._stacked(reached), matrix):
                moved = reached
        return [e for e in self.jaxpr.eqns if e in moved], self._inputs(moved)

    def _reached(self, eqn: Eqn, known: dict[Eqn, None]) -> dict[Eqn, None]:
        """Return `known` with an equation and all that use it; nothing if one cannot move."""
        found = dict(known)
        stack = [eqn]
        while stack:
            each = stack.pop()
            if each in found:
                continue
            if not _may_move(each):
                return {}
            found[each] = None
            stack.extend(user for v in each.outvars for user in self.users.get(v, ()))
        return found

    def _inputs(self, moved: dict[Eqn, None]) -> list[Var]:
        """Return the values of an iteration that equations read."""
        made = {v for eqn in moved for v in eqn.outvars}
        read = [v for eqn in moved for v in _variables(eqn.invars)]
        return list(dict.fromkeys(v for v in read if v not in made and v not in self.fixed))

    def _stacked(self, moved: dict[Eqn, None]) -> list[Var]:
        """Return those of the inputs that are not stacked already."""
        kept = {*self.xs, *_variables(self.ys)}
        return [v for v in self._inputs(moved) if v not in kept]

    def sums(self) -> list[_Sum]:
        """Return the carries that products are added to."""
        found = []
        for i, (carry, out) in enumerate(zip(self.carry, self.carried, strict=True)):
            added = self._only_use(carry)
            if added is None or added.primitive is not add_p or added.outvars[0] is not out:
                continue
            if self.users.get(out) or self.jaxpr.outvars.count(out) != 1:
                continue
            rest = [v for v in added.invars if v is not carry]
            terms = self._terms(rest[0]) if len(rest) == 1 else None
            if terms and self._are_worth_it(terms):
                found.append(_Sum(i, tuple(terms)))
        return found

    def _only_use(self, v: Var) -> Eqn | None:
        users = self.users.get(v, ())
        return users[0] if len(users) == 1 and v not in self.returned else None

    def _terms(self, v: Atom) -> list[tuple[Eqn, ...]] | None:
        """Return the products whose sum a value is, each with what rearranges it afterwards."""
        if not isinstance(v, Var) or v not in self.made_by or v in self.returned:
            return None
        eqn, users = self.made_by[v], self.users[v]
        if eqn.primitive is dot_general_p and not eqn.params["dimension_numbers"][1][0]:
            # Several sums may take parts of one product.
            is_alone = len(users) == 1 or all(user.primitive is slice_p for user in users)
            return [(eqn,)] if is_alone else None
        if len(users) > 1:
            return None
        if eqn.primitive in _REARRANGING:
            terms = self._terms(eqn.invars[0])
            return None if terms is None else [(*term, eqn) for term in terms]
        if eqn.primitive is add_p:
            parts = [self._terms(x) for x in eqn.invars]
            return None if None in parts else [term for part in parts for term in part or ()]
        return None

    def _are_worth_it(self, terms: Sequence[tuple[Eqn, ...]]) -> bool:
        atoms = [v for product, *_ in terms for v in product.invars]
        operands = dict.fromkeys(_variables(atoms))
        if len(operands) != len(set(atoms)) or not self.fixed.isdisjoint(operands):
            return False
        size = terms[0][-1].outvars[0].aval.size
        stacked = [v for v in operands if v not in self.xs and v not in self.ys]
        return type(size) is int and size >= LEAST_MATRIX and self.fits(stacked, size)


def _without_products(params: dict[str, Any]) -> Jaxpr | None:
    length, nc, nk = (params[name] for name in ("length", "num_consts", "num_carry"))
    body = _Body(inlined(params["jaxpr"], "fission"), nc, nk, length)
    sums = body.sums()
    before, scanned = body.before()
    after, read = body.after()
    if not (sums or before or after):
        return None
    dropped = {s.carry for s in sums}
    kept = [i not in dropped for i in range(nk)]
    late = {v for eqn in after for v in eqn.outvars}
    is_late = [v in late for v in body.ys]
    wanted = [*read, *[v for s in sums for product, *_ in s.terms for v in product.invars]]
    early = select_by(is_late, body.ys, False)
    known = {*body.xs, *scanned, *_variables(early)}
    stacked = [v for v in dict.fromkeys(wanted) if v not in known]
    loop, _ = eliminate_dead_code(
        body.jaxpr.with_(
            invars=[*body.consts, *select_by(kept, body.carry), *body.xs, *scanned],
            eqns=[eqn for eqn in body.jaxpr.eqns if not set(scanned).intersection(eqn.outvars)],
            outvars=[
                *select_by(kept, body.carried),
                *early,
                *stacked,
            ],
            arg_names=(),
        )
    )
    invars = [*body.consts, *body.xs]
    first, _ = eliminate_dead_code(
        body.jaxpr.with_(
            invars=invars, eqns=[*body.fixed_eqns, *before], outvars=scanned, arg_names=()
        )
    )
    last, _ = eliminate_dead_code(
        body.jaxpr.with_(
            invars=[*body.consts, *read],
            eqns=[*body.fixed_eqns, *after],
            outvars=select_by(is_late, body.ys),
            arg_names=(),
        )
    )
    axis = MappedAxis(length)

    def batched(jaxpr: Jaxpr, consts: Sequence[Any], stacks: Sequence[Any]) -> list[Any]:
        at = [*[None] * len(consts), *[0] * len(stacks)]
        over, _ = batch_jaxpr(jaxpr, axis, at, True)
        return eval_jaxpr(over, (), *consts, *stacks)

    def program(*operands: Any) -> list[Any]:
        consts, carry, xs = split_by_counts(operands, nc, nk)
        firsts = batched(first, consts, xs)
        outs = scan_p.bind(
            *consts,
            *select_by(kept, carry),
            *xs,
            *firsts,
            jaxpr=loop,
            **{**rest, "num_carry": kept.count(True)},
        )
        carried, ys, stacks = split_by_counts(outs, kept.count(True), is_late.count(False))
        names = [*body.xs, *scanned, *early, *stacked]
        stack_of = dict(zip(names, [*xs, *firsts, *ys, *stacks], strict=True))
        lasts = batched(last, consts, [stack_of[v] for v in read])
        totals = [add(carry[s.carry], _total(s, stack_of)) for s in sums]
        return [*merge(kept, carried, totals), *merge(is_late, lasts, ys)]

    rest = {name: value for name, value in params.items() if name != "jaxpr"}
    types = list(params["jaxpr"].in_avals)
    types[nc + nk :] = [axis.stack_of(aval, 0) for aval in types[nc + nk :]]
    return stage_pure(program, types, name=params["jaxpr"].name, purpose="fission")


def _total(sum_: _Sum, stack_of: dict[Any, Any]) -> Any:
    """Return the sum of products over all iterations."""
    total: Any = None
    for product, *rearranging in sum_.terms:
        state.source = product.source
        (left, right), batch = product.params["dimension_numbers"]
        axes = tuple((0, *(a + 1 for a in side)) for side in (left, right))
        term = dot_general_p.bind(
            *[stack_of[v] for v in product.invars],
            **{**product.params, "dimension_numbers": (axes, batch)},
        )
        for eqn in rearranging:
            term = eqn.primitive.bind(term, **eqn.params)
        total = term if total is None else add(total, term)
    return total


def _may_move(eqn: Eqn) -> bool:
    return not eqn.effects and not eqn.primitive.region


def _variables(atoms: Sequence[Atom]) -> list[Var]:
    return [v for v in atoms if isinstance(v, Var)]
