"""What a code object refers to outside itself: globals, closure variables, attributes of modules.

Read from the instructions once per code object. Code that could observe or change more than that
(a global or an enclosing variable assigned, a class body, an import, an attribute set, an attribute
that shows the interpreter's own state) is given an objection: functions with such code are never
taken for equal.
"""

from __future__ import annotations

import dis
import types
from typing import Any

from kiln.base.forks import new_lock
from kiln.base.source import is_internal

Chain = tuple[str, ...]
"""Attributes read one after the other, straight after a name: `np.random.normal`."""

_PADDING = frozenset(["CACHE", "EXTENDED_ARG", "NOP"])
_BY_NAME = frozenset(["LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"])
_BY_CELL = frozenset(
    ["LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "MAKE_CELL", "COPY_FREE_VARS"]
)
_NEVER = frozenset(["LOAD_BUILD_CLASS", "LOAD_LOCALS", "SETUP_ANNOTATIONS", "IMPORT_STAR"])

_SINGLETONS = (None, True, False, Ellipsis)

# Attributes whose value is no part of the content of what has them.
_HIDDEN = frozenset(
    [
        # The interpreter's own state.
        *("gi_frame", "cr_frame", "ag_frame", "tb_frame", "f_back", "f_globals", "f_locals"),
        # Where an array lives, and whether it is there yet.
        *("sharding", "device", "devices", "committed", "is_deleted", "is_ready", "delete"),
        *("addressable_shards", "global_shards", "is_fully_replicated", "is_fully_addressable"),
        *("addressable_data", "addressable_devices", "on_device_size_in_bytes"),
        *("unsafe_buffer_pointer", "_field_defaults"),
        # How often a jitted function was traced, and a request to forget it.
        *("_cache_size", "cache_info", "clear_cache"),
    ]
)


def _is_hidden(attribute: str) -> bool:
    return attribute in _HIDDEN or (attribute.startswith("__") and attribute.endswith("__"))


class CodeKey:
    """A code object compared by content: instructions, constants with their types, places.

    The place in the source is part of it: equations remember where they were recorded, and messages
    must show the line of the function that was called.
    """

    __slots__ = ("code", "hash")

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.hash = hash((code.co_filename, code))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CodeKey) or self.hash != other.hash:
            return False
        a, b = self.code, other.code
        return a is b or (a == b and _places(a) == _places(b))


def _places(code: types.CodeType) -> tuple[Any, ...]:
    inner = [_places(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return (code.co_filename, code.co_firstlineno, code.co_linetable, code.co_qualname, inner)


class References:
    """What a code object, with the functions defined inside it, refers to.

    `names` are the globals (or builtins), each with the chains of attributes read from it; `free`
    the chains read from each closure variable, in the order of the closure. An empty chain is a use
    of the value itself. `objection` says why functions of this code cannot be compared. kiln's own
    code (`own`) is trusted to keep no state.
    """

    __slots__ = ("free", "key", "names", "objection", "own")

    def __init__(self, code: types.CodeType) -> None:
        self.key = CodeKey(code)
        names: dict[str, set[Chain]] = {}
        free: dict[str, set[Chain]] = {name: set() for name in code.co_freevars}
        self.own = is_internal(code.co_filename)
        self.objection = None if self.own else _scan(code, names, free)
        self.names = tuple((name, tuple(sorted(chains))) for name, chains in names.items())
        self.free = tuple(tuple(sorted(free[name])) for name in code.co_freevars)


def _scan(
    code: types.CodeType, names: dict[str, set[Chain]], free: dict[str, set[Chain]]
) -> str | None:
    chain: list[str] | None = None
    chains: set[Chain] = set()
    previous: Any = None

    def close() -> None:
        nonlocal chain
        if chain is not None:
            chains.add(tuple(chain))
            chain = None

    for ins in dis.get_instructions(code):
        op, name = ins.opname, ins.argval
        if ins.is_jump_target:
            close()
        if op in _PADDING:
            continue
        if op in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            if _is_hidden(name):
                return f"reads the attribute {name}"
            if chain is not None:
                chain.append(name)
        else:
            close()
            if op == "LOAD_GLOBAL":
                chain, chains = [], names.setdefault(name, set())
            elif op == "LOAD_DEREF" and name in free:
                chain, chains = [], free[name]
            elif op in ("STORE_DEREF", "DELETE_DEREF") and name in free:
                return f"assigns the enclosing variable {name}"
            elif op in _NEVER or (ins.opcode in dis.hasname and op not in _BY_NAME):
                return f"has the instruction {op} {name if isinstance(name, str) else ''}".strip()
            elif ins.opcode in dis.hasfree and op not in _BY_CELL:
                return f"has the instruction {op}"
            elif op == "IS_OP" and not (
                previous.opname == "LOAD_CONST" and any(previous.argval is x for x in _SINGLETONS)
            ):
                return "compares identities"
        previous = ins
    close()
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            shared = {name: free[name] for name in inner.co_freevars if name in free}
            objection = _scan(inner, names, shared)
            if objection is not None:
                return objection
    return None


CAPACITY = 4096
_known: dict[int, References] = {}
_lock = new_lock()


def references(code: types.CodeType) -> References:
    """Return what a code object refers to."""
    found = _known.get(id(code))
    # What is known keeps its code alive, so an id found here is no other code's.
    if found is not None and found.key.code is code:
        return found
    made = References(code)
    with _lock:
        _known[id(code)] = made
        while len(_known) > CAPACITY:
            del _known[next(iter(_known))]
    return made


def clear() -> None:
    """Forget what was read."""
    with _lock:
        _known.clear()
