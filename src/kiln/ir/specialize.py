"""Specializing a program recorded for all sizes to given ones.

Named sizes are replaced everywhere: in types, in parameters, in the programs and plain records that
parameters hold. Programs without the names are returned as the same objects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.base.process.forks import new_lock
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.sizes.values import substitute
from kiln.ir.types import ShapedArray


def specialize(jaxpr: Jaxpr, env: Mapping[str, Dim]) -> Jaxpr:
    """Return a program with the named axes in `env` replaced by ints, or by other sizes.

    Raises: InconclusiveSizeError if a size cannot be computed for these values.
    """
    return _Substitution(env).jaxpr(jaxpr)


def out_types(jaxpr: Jaxpr, env: Mapping[str, int]) -> list[ShapedArray]:
    """Return the types of the results of a program with named axes replaced by ints.

    Raises: ValueError for arrays that are too large.
    """
    return types_for([v.aval for v in jaxpr.outvars], env)


def types_for(avals: Sequence[ShapedArray], env: Mapping[str, int]) -> list[ShapedArray]:
    """Return types with named axes replaced by ints.

    Raises: ValueError for arrays that are too large.
    """
    return list(map(_Substitution(env).aval, avals))


def specialize_later(jaxpr: Jaxpr, env: Mapping[str, int]) -> Jaxpr:
    """Return a program with named axes replaced by ints, lazily unless only types are read."""
    return _Later(jaxpr, env)


_lock = new_lock()
_PARTS = ("constvars", "eqns", "invars", "outvars")


class _Later(Jaxpr):
    """A program that is specialized when its variables or equations are first read."""

    __slots__ = ("_env", "_general", "_is_made", "_types")

    def __init__(self, general: Jaxpr, env: Mapping[str, int]) -> None:
        self._general = general
        self._env = env
        self._is_made = False
        self.effects = general.effects
        self.name = general.name
        self.arg_names = general.arg_names
        self.memo: dict[Any, Any] = {}
        # Types that are too large raise immediately.
        substitution = _Substitution(env)
        self._types = tuple(
            [substitution.aval(v.aval) for v in variables]
            for variables in (general.invars, general.outvars)
        )

    def __getattr__(self, name: str) -> Any:
        if name not in _PARTS:
            raise AttributeError(name)
        with _lock:
            if not self._is_made:
                made = specialize(self._general, self._env)
                for part in _PARTS:
                    setattr(self, part, getattr(made, part))
                self._is_made = True
        return object.__getattribute__(self, name)

    @property
    def in_avals(self) -> list[ShapedArray]:
        return self._types[0]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self._types[1]


class _Substitution:
    def __init__(self, env: Mapping[str, Dim]) -> None:
        self.env = env
        self.avals: dict[ShapedArray, ShapedArray] = {}
        self.jaxprs: dict[int, Jaxpr] = {}

    def aval(self, aval: ShapedArray) -> ShapedArray:
        if not any(type(dim) is Size for dim in aval.shape):
            return aval
        found = self.avals.get(aval)
        if found is None:
            shape = [substitute(dim, self.env) for dim in aval.shape]
            found = self.avals[aval] = aval if aval.shape == (*shape,) else aval.with_(shape=shape)
        return found

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        found = self.jaxprs.get(id(jaxpr))
        if found is None:
            found = self.jaxprs[id(jaxpr)] = self._jaxpr(jaxpr)
        return found

    def _jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        new: dict[Var, Var] = {}

        def bind(variables: Sequence[Var]) -> list[Var]:
            for var in variables:
                aval = self.aval(var.aval)
                if aval != var.aval:
                    new[var] = Var(aval)
            return [new.get(var, var) for var in variables]

        def atoms(used: Sequence[Atom]) -> list[Any]:
            return [x if x.is_literal else new.get(x, x) for x in used]  # type: ignore[arg-type]

        constvars, invars = bind(jaxpr.constvars), bind(jaxpr.invars)
        eqns = [self._eqn(eqn, atoms(eqn.invars), bind(eqn.outvars)) for eqn in jaxpr.eqns]
        if not new and all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
            return jaxpr
        return jaxpr.with_(
            constvars=constvars, invars=invars, eqns=eqns, outvars=atoms(jaxpr.outvars)
        )

    def _eqn(self, eqn: Eqn, invars: list[Any], outvars: list[Var]) -> Eqn:
        params = {name: self.value(value) for name, value in eqn.params.items()}
        same = all(
            a is b
            for a, b in zip(
                [*invars, *outvars, *params.values()],
                [*eqn.invars, *eqn.outvars, *eqn.params.values()],
                strict=True,
            )
        )
        return eqn if same else eqn.with_(invars=invars, outvars=outvars, params=params)

    def value(self, value: Any) -> Any:
        """Return a parameter with its sizes replaced; the same object if it holds none."""
        kind = type(value)
        if kind is Size:
            found = substitute(value, self.env)
            return value if found == value else found
        if isinstance(value, (tuple, list)):
            items = [self.value(x) for x in value]
            if all(a is b for a, b in zip(items, value, strict=True)):
                return value
            return kind(*items) if hasattr(kind, "_fields") else kind(items)
        if kind is ShapedArray:
            return self.aval(value)
        if isinstance(value, Jaxpr):
            return self.jaxpr(value)
        if kind is ClosedJaxpr:
            inner = self.jaxpr(value.jaxpr)
            return value if inner is value.jaxpr else ClosedJaxpr(inner, value.consts)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._record(value)
        return value

    def _record(self, record: Any) -> Any:
        old = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.init}
        new = {name: self.value(x) for name, x in old.items()}
        if all(new[name] is old[name] for name in old):
            return record
        return dataclasses.replace(record, **new)
