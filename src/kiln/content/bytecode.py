"""The references of a code object: globals, closure variables, attributes of modules.

They are read from the instructions once per code object. The supported instructions are listed; for
any other one (an assignment to a global or enclosing variable, a class body, an import, an
attribute assignment, any that a later Python adds) there is an objection, as there is for reads of
attributes that expose or change something outside the content. Functions with an objection are
never considered equal.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence
from typing import Any

from kiln.base.process.forks import new_lock
from kiln.base.source import is_internal

Chain = tuple[str, ...]
"""Attributes read in sequence from a name: `np.random.normal`."""

_PADDING = frozenset(["CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN"])
_ATTRIBUTE = frozenset(["LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"])

# Instructions that work on the stack, local variables, constants and cells of their own function.
# Instructions that are not listed are unknown: new ones of later Pythons are objections.
_KNOWN = frozenset(
    [
        *("RESUME", "RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "POP_TOP", "PUSH_NULL"),
        *("COPY", "SWAP", "END_FOR", "END_SEND", "INTERPRETER_EXIT", "PRECALL", "KW_NAMES"),
        *("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR"),
        *("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"),
        *("STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "DELETE_FAST"),
        *("STORE_FAST_MAYBE_NULL", "POP_ITER"),
        *("LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "MAKE_CELL"),
        *("COPY_FREE_VARS", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"),
        *("BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "STORE_SLICE"),
        *("DELETE_SUBSCR", "UNARY_POSITIVE", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT"),
        *("TO_BOOL", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "GET_LEN"),
        *("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP"),
        *("BUILD_STRING", "BUILD_SLICE", "LIST_APPEND", "LIST_EXTEND", "LIST_TO_TUPLE"),
        *("SET_ADD", "SET_UPDATE", "MAP_ADD", "DICT_UPDATE", "DICT_MERGE"),
        *("UNPACK_SEQUENCE", "UNPACK_EX", "FORMAT_SIMPLE", "CONVERT_VALUE"),
        *("GET_ITER", "FOR_ITER", "GET_YIELD_FROM_ITER", "YIELD_VALUE", "SEND"),
        *("CALL", "CALL_KW", "CALL_FUNCTION_EX", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"),
        *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP"),
        *("JUMP_NO_INTERRUPT", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE"),
        *("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE"),
        *("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE"),
        *("POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE"),
        *("POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE"),
        *("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"),
        *("LOAD_ASSERTION_ERROR", "RAISE_VARARGS", "RERAISE", "PUSH_EXC_INFO", "POP_EXCEPT"),
        *("CHECK_EXC_MATCH", "CLEANUP_THROW", "BEFORE_WITH", "WITH_EXCEPT_START"),
        *("MATCH_SEQUENCE", "MATCH_MAPPING", "MATCH_KEYS"),
    ]
)
_INTRINSICS = frozenset(["INTRINSIC_STOPITERATION_ERROR", "INTRINSIC_UNARY_POSITIVE"])
_INTRINSICS |= {"INTRINSIC_LIST_TO_TUPLE"}
_FORMATTED = 0x04
"""The flag of FORMAT_VALUE for a format specification, which may consult the locale."""

_CONSTANTS = frozenset(
    [type(None), bool, int, float, complex, str, bytes, type(...), tuple, frozenset, slice]
)
_CONSTANTS |= {types.CodeType}

_SINGLETONS = (None, True, False, Ellipsis)

# Attributes whose value is not part of the content of their object.
_HIDDEN = frozenset(
    [
        # The interpreter's own state.
        *("gi_frame", "cr_frame", "ag_frame", "tb_frame", "f_back", "f_globals", "f_locals"),
        # The placement of an array, and whether it is ready.
        *("sharding", "device", "devices", "committed", "is_deleted", "is_ready", "delete"),
        *("addressable_shards", "global_shards", "is_fully_replicated", "is_fully_addressable"),
        *("addressable_data", "addressable_devices", "on_device_size_in_bytes"),
        "unsafe_buffer_pointer",
        # How often a jitted function was traced, and clearing its cache.
        *("_cache_size", "cache_info", "clear_cache", "_entries", "_lookup", "_max_traces"),
        # Attributes through which something can be changed without an assignment.
        *("keywords", "defjvp", "defjvps", "defvjp", "_field_defaults", "_member_map_"),
        *("_member_names_", "_value2member_map_", "_add_alias_", "_add_value_alias_"),
        # Attributes of attributes named in a string, formats that consult the locale.
        *("format", "format_map", "register"),
    ]
)


def _is_hidden(attribute: str) -> bool:
    return attribute in _HIDDEN or (attribute.startswith("__") and attribute.endswith("__"))


class CodeKey:
    """A code object compared by content: instructions, constants with their types, locations.

    The source location is part of it: equations record where they come from, and messages must show
    the line of the function that was called.
    """

    __slots__ = ("code", "hash")

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        try:
            self.hash = hash((code.co_filename, code))
        except TypeError:
            # A list among the constants, which is also an objection.
            self.hash = id(code)

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
    """Return what distinguishes equal code: its location, flags, the order of constant sets."""
    inner = [_places(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    own = (code.co_filename, code.co_firstlineno, code.co_linetable, code.co_qualname)
    return (*own, code.co_flags, code.co_exceptiontable, _orders(code.co_consts), inner)


def _orders(constants: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for x in constants:
        if type(x) is frozenset:
            found.append(tuple(x))
        elif type(x) is tuple:
            found.append(_orders(x))
    return found


class References:
    """The references of a code object and of the functions defined inside it.

    `names` are the globals (or builtins), each with the chains of attributes read from it; `free`
    the chains read from each closure variable, in the order of the closure. An empty chain is a use
    of the value itself. `objection` says why functions with this code cannot be compared. kiln's
    own code (`own`) is not scanned.
    """

    __slots__ = ("free", "key", "names", "objection", "own")

    def __init__(self, code: types.CodeType) -> None:
        self.key = CodeKey(code)
        names: dict[str, set[Chain]] = {}
        free: dict[str, set[Chain]] = {name: set() for name in code.co_freevars}
        self.own = is_internal(code.co_filename)
        self.objection = None if self.own else next(iter(_scan(code, names, free)), None)
        self.names = tuple((name, tuple(sorted(chains))) for name, chains in names.items())
        self.free = tuple(tuple(sorted(free[name])) for name in code.co_freevars)


def _scan(
    code: types.CodeType, names: dict[str, set[Chain]], free: dict[str, set[Chain]]
) -> list[str]:
    """Record all references of the code; return all objections to it."""
    found: list[str] = []
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
        if op in _ATTRIBUTE:
            if _is_hidden(name):
                found.append(f"reads the attribute {name}")
            if chain is not None:
                chain.append(name)
        else:
            close()
            if op == "LOAD_GLOBAL":
                chain, chains = [], names.setdefault(name, set())
            elif op == "LOAD_DEREF" and name in free:
                chain, chains = [], free[name]
            elif op in ("STORE_DEREF", "DELETE_DEREF") and name in free:
                found.append(f"assigns the enclosing variable {name}")
            elif op == "IS_OP":
                if not (
                    previous.opname == "LOAD_CONST"
                    and any(previous.argval is x for x in _SINGLETONS)
                ):
                    found.append("compares identities")
            elif not _is_known(ins):
                shown = name if isinstance(name, str) else ""
                found.append(f"has the instruction {op} {shown}".strip())
        previous = ins
    close()
    if not all(_is_constant(x) for x in code.co_consts):
        found.append("has constants of unusual types")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            shared = {name: free[name] for name in inner.co_freevars if name in free}
            found += _scan(inner, names, shared)
    return found


def _is_known(ins: dis.Instruction) -> bool:
    if ins.opname == "FORMAT_VALUE":
        return not (ins.arg or 0) & _FORMATTED
    if ins.opname == "CALL_INTRINSIC_1":
        return ins.argrepr in _INTRINSICS
    if ins.opname == "LOAD_COMMON_CONSTANT":
        return True
    return ins.opname in _KNOWN


def _is_constant(x: Any) -> bool:
    if type(x) in (tuple, frozenset):
        return all(map(_is_constant, x))
    return type(x) in _CONSTANTS


CAPACITY = 4096
_known: dict[int, References] = {}
_lock = new_lock()


def references(code: types.CodeType) -> References:
    """Return the references of a code object."""
    found = _known.get(id(code))
    # Entries keep their code alive, so an id found here cannot belong to other code.
    if found is not None and found.key.code is code:
        return found
    made = References(code)
    with _lock:
        _known[id(code)] = made
        while len(_known) > CAPACITY:
            del _known[next(iter(_known))]
    return made


def clear() -> None:
    """Clear the cache."""
    with _lock:
        _known.clear()
