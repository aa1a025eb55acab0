"""Why a call was traced again: the nearest earlier signature, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kiln.base.source import current_source, definition_of
from kiln.core.dumping import log
from kiln.jit.spelling import shown


def explain(fun: Callable[..., Any], seen: Iterable[Any], key: Any, names: Sequence[str]) -> None:
    """Log why the signature `key` of a function is new."""
    log(
        "TRACING %s, called at %s:\n  %s",
        definition_of(fun),
        current_source(),
        "\n  ".join(differences(list(seen), key, names)),
    )


def differences(seen: Sequence[Any], key: Any, names: Sequence[str]) -> list[str]:
    """Return what tells a signature from the nearest of those seen before."""
    if not seen:
        return ["never seen function"]
    return min((_difference(old, key, names) for old in seen), key=len)


def _difference(old: Any, new: Any, names: Sequence[str]) -> list[str]:
    found = []
    if old[0] != new[0]:
        found.append(f"structure of the arguments: {shown(old[0])} before, {shown(new[0])} now")
    elif old[1] != new[1]:
        found += [
            f"argument {name}: {_type(a)} before, {_type(b)} now"
            for name, a, b in zip(names, old[1], new[1], strict=False)
            if a != b
        ]
    if old[2] != new[2]:
        found.append(f"static arguments: {_statics(old[2])} before, {_statics(new[2])} now")
    if old[3] != new[3]:
        found.append("options that change programs (x64, matmul precision, ...)")
    if old[4] != new[4]:
        found.append(f"mapped axes: {old[4]} before, {new[4]} now")
    return found


def _type(aval: Any) -> str:
    return str(aval) + (" (weak type)" if aval.weak_type else "")


def _statics(statics: Any) -> str:
    if not statics:
        return "none"
    return ", ".join(f"{place}={_plain(key)}" for place, key in statics[1])


def _plain(key: Any) -> str:
    value = getattr(key, "value", key[-1] if isinstance(key, tuple) else key)
    return repr(value)
