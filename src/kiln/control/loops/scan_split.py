"""Splitting a scan in two: a loop over known values, and a loop over unknown ones.

Residuals are the values that the second needs from the first. A residual that changes from step to
step is stacked by the first loop and scanned by the second; one that is already a slice of the xs
or a result is not stacked again; one that depends only on constants is computed once, outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.control.call import jit_p
from kiln.control.regions.region import mark_pure, memoized, merge, select_by, split
from kiln.core.primitive import Primitive
from kiln.ir.jaxpr import Atom, Jaxpr, Var
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.sizes.decisions import is_surely
from kiln.ir.sizes.size import Size


def split_by_counts(items: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Split a list into pieces of the given lengths, and the rest."""
    pieces, start = [], 0
    for count in counts:
        pieces.append(list(items[start : start + count]))
        start += count
    return [*pieces, list(items[start:])]


class ScanSplit(NamedTuple):
    """A scan split in two. Positions of known operands count among the known ones."""

    unknown: tuple[bool, ...]
    """Which operands the staged loop takes: the unknown ones, and carries that become unknown."""
    unknown_out: tuple[bool, ...]
    known: Jaxpr
    known_counts: tuple[int, int]
    known_results: int
    """The number of results of the known loop that are results of the scan; residuals follow."""
    hoisted: Jaxpr
    """The computation of loop-invariant residuals."""
    hoisted_operands: tuple[int, ...]
    fixed: tuple[tuple[str, int], ...]
    """The sources of residuals that are constants of the staged loop: operand or hoisted."""
    rows: tuple[tuple[str, int], ...]
    """The sources of residuals that the staged loop scans: operand or result of the known loop."""
    staged: Jaxpr
    staged_counts: tuple[int, int]

    def run(
        self,
        scan: Primitive,
        bind: Callable[..., Any],
        operands: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[list[Any], list[Any]]:
        """Run the known loop; return the known results and the staged loop's operands."""
        known = select_by(self.unknown, operands, False)
        outs: list[Any] = []
        if self.known.outvars or self.known.effects:
            nc, nk = self.known_counts
            counts = {"num_consts": nc, "num_carry": nk}
            outs = bind(scan, *known, **{**params, "jaxpr": self.known, **counts})
        hoisted: list[Any] = []
        if self.hoisted.outvars:
            if self.hoisted.eqns:
                # Computed even if there may be no iteration: sizes of 0 get a separate program.
                is_surely(params["length"], 0)
            inputs = [known[i] for i in self.hoisted_operands]
            hoisted = bind(jit_p, *inputs, jaxpr=self.hoisted, name=self.hoisted.name)
        sources = {"operand": known, "hoisted": hoisted, "result": outs}
        fixed = [sources[where][i] for where, i in self.fixed]
        rows = [sources[where][i] for where, i in self.rows]
        nc, nk = params["num_consts"], params["num_carry"]
        pending = select_by(self.unknown, operands)
        consts, carry, xs = split_by_counts(
            pending, *(p.count(True) for p in split_by_counts(self.unknown, nc, nk)[:2])
        )
        return outs[: self.known_results], [*fixed, *consts, *carry, *rows, *xs]

    def staged_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of the staged loop."""
        nc, nk = self.staged_counts
        return {**params, "jaxpr": self.staged, "num_consts": nc, "num_carry": nk}

    def operands_of_staged(self, values: Sequence[Any]) -> list[Any]:
        """Spread values of the staged loop's operands over those of the scan, else None."""
        nc, nk = self.staged_counts
        head = split_by_counts(values, len(self.fixed), nc - len(self.fixed) + nk)
        pending = [*head[1], *head[2][len(self.rows) :]]
        return merge(self.unknown, pending, [None] * self.unknown.count(False))


def split_scan(params: dict[str, Any], unknown: Sequence[bool]) -> ScanSplit:
    """Split a scan by which of its operands are unknown."""
    jaxpr, nc, nk = params["jaxpr"], params["num_consts"], params["num_carry"]
    # Nothing is hoisted from a loop without iterations, because a check could report it.
    runs = type(params["length"]) is Size or params["length"] > 0
    key = ("scan split", nc, nk, tuple(unknown), runs)
    return memoized(jaxpr, key, lambda: _split_scan(jaxpr, nc, nk, unknown, runs))


def _split_scan(jaxpr: Jaxpr, nc: int, nk: int, given: Sequence[bool], runs: bool) -> ScanSplit:
    unknown = list(given)
    rest = [False] * (len(jaxpr.outvars) - nk)
    while True:
        # A carry is known only if it stays known around the loop: the others are forced.
        parts = split(jaxpr, unknown, [*unknown[nc : nc + nk], *rest])
        if list(parts.unknown_out[:nk]) == unknown[nc : nc + nk]:
            break
        unknown[nc : nc + nk] = parts.unknown_out[:nk]
    known_nc, known_nk = (p.count(False) for p in split_by_counts(unknown, nc, nk)[:2])
    known = parts.known
    results = len(known.outvars) - parts.residuals
    sources = _Sources(known, known_nc, known_nk, results, runs)
    found = [sources.find(atom) for atom in known.outvars[results:]]
    loop, _ = eliminate_dead_code(known.with_(outvars=[*known.outvars[:results], *sources.stacked]))
    hoisted, needed = eliminate_dead_code(
        known.with_(eqns=sources.invariant_eqns, outvars=sources.hoisted)
    )
    variables = parts.staged.invars
    residuals = list(zip(found, variables[: parts.residuals], strict=True))
    fixed = [((where, i), var) for (is_fixed, where, i), var in residuals if is_fixed]
    rows = [((where, i), var) for (is_fixed, where, i), var in residuals if not is_fixed]
    unknown_nc, unknown_nk = (p.count(True) for p in split_by_counts(unknown, nc, nk)[:2])
    consts, carry, xs = split_by_counts(variables[parts.residuals :], unknown_nc, unknown_nk)
    staged = parts.staged.with_(
        invars=[*[v for _, v in fixed], *consts, *carry, *[v for _, v in rows], *xs]
    )
    pending = [*[True] * (unknown_nc + unknown_nk), *[False] * len(rows), *[True] * len(xs)]
    mark_pure(staged, [*[False] * len(fixed), *pending])
    return ScanSplit(
        unknown=tuple(unknown),
        unknown_out=parts.unknown_out,
        known=loop,
        known_counts=(known_nc, known_nk),
        known_results=results,
        hoisted=drop_inputs(hoisted, needed),
        hoisted_operands=tuple(i for i, n in enumerate(needed) if n),
        fixed=tuple(source for source, _ in fixed),
        rows=tuple(source for source, _ in rows),
        staged=staged,
        staged_counts=(len(fixed) + unknown_nc, unknown_nk),
    )


class _Sources:
    """Finds the source of each residual of a known loop; equations may be hoisted only from one
    that `runs`."""

    def __init__(self, known: Jaxpr, nc: int, nk: int, results: int, runs: bool) -> None:
        consts, carry, xs = split_by_counts(known.invars, nc, nk)
        self.operands = {v: i for i, v in enumerate(known.invars)}
        self.xs = set(xs)
        self.ys = {v: nk + i for i, v in enumerate(known.outvars[nk:results])}
        self.results = results
        self.stacked: list[Atom] = []
        self.hoisted: list[Atom] = []
        self.invariant: set[Atom] = set(consts)
        # A carry that the body returns unchanged is a constant as well.
        self.invariant |= {v for v, out in zip(carry, known.outvars, strict=False) if v is out}
        self.invariant_eqns = []
        for eqn in known.eqns if runs else ():
            if not eqn.effects and all(v.is_literal or v in self.invariant for v in eqn.invars):
                self.invariant_eqns.append(eqn)
                self.invariant.update(eqn.outvars)

    def find(self, atom: Atom) -> tuple[bool, str, int]:
        """Return whether it is loop-invariant, and its source."""
        if atom.is_literal or atom in self.invariant:
            if isinstance(atom, Var) and atom in self.operands:
                return True, "operand", self.operands[atom]
            self.hoisted.append(atom)
            return True, "hoisted", len(self.hoisted) - 1
        if atom in self.xs:
            return False, "operand", self.operands[atom]  # type: ignore[index]
        if atom in self.ys:
            return False, "result", self.ys[atom]
        self.stacked.append(atom)
        return False, "result", self.results + len(self.stacked) - 1
