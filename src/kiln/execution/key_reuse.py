"""Random keys that are used twice, found as programs run: the option `debug_key_reuse`.

Each array of keys that is seen gets its `Key`s (`ir/analysis/key_uses.py`), and keeps them as long as it
lives. What a program or an operation does with them is recorded after it ran. Keys in uint32
arrays, as created by `PRNGKey`, are not tracked: they are numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from kiln.base.source import api_boundary, current_source
from kiln.base.weak import reference
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.trace import aval_of, state
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.operation import Operation

_known: dict[int, tuple[Any, Keys]] = {}
"""The keys of arrays, by the arrays' ids, with weak references to them."""


class _Noted(threading.local):
    count = 0
    """How many operations and programs have used keys on this thread."""


noted = _Noted()


def _keys_of(x: Any) -> Keys:
    found = _known.get(id(x))
    if found is not None and found[0]() is x:
        return found[1]
    keys = key_uses.fresh(aval_of(x))
    _remember(x, keys)
    return keys


def _remember(x: Any, keys: Keys) -> None:
    if keys is None or not isinstance(x, ConcreteArray):
        return
    number = id(x)
    if keys.size and keys.shape == x.shape:
        _known[number] = reference(x, lambda _: _known.pop(number, None)), keys


def _remember_all(outs: Sequence[Any], found: Sequence[Keys]) -> None:
    noted.count += 1
    for x, keys in zip(outs, found, strict=True):
        _remember(x, keys)


@api_boundary
def note_program(name: str, jaxpr: Jaxpr, args: Sequence[Any], outs: Sequence[Any]) -> None:
    """Record the keys that a program has used.

    Raises: KeyReuseError if it used a key twice, or one that was used before.
    """
    if any(key_uses.is_key(v.aval) for v in jaxpr.invars) or any(map(_makes_keys, jaxpr.eqns)):
        key_uses.called_at(current_source())
        operands = [_keys_of(x) for x in args]
        _remember_all(outs, key_uses.run_call("jit", jaxpr, operands, name))


def _makes_keys(eqn: Eqn) -> bool:
    return any(key_uses.is_key(v.aval) for v in eqn.outvars) or eqn.primitive.region


@api_boundary
def note_operation(
    primitive: Operation, args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]
) -> None:
    """Record the keys that an eager operation has used.

    Raises: KeyReuseError if it used a key twice, or one that was used before.
    """
    avals = [aval_of(x) for x in (*args, *outs)]
    if not primitive.region and not any(map(key_uses.is_key, avals)):
        return
    ins, results = [Var(aval) for aval in avals[: len(args)]], [Var(aval_of(x)) for x in outs]
    key_uses.called_at(state.source or current_source())
    eqn = Eqn(primitive, ins, results, params, primitive.effects(params))
    values = [None if key_uses.is_key(aval_of(x)) else _value(x) for x in args]
    _remember_all(outs, primitive.use_keys(eqn, [_keys_of(x) for x in args], values))


def _value(x: Any) -> Any:
    return host_value(x) if isinstance(x, ConcreteArray) else x
