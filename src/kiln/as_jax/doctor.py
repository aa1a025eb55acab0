"""Find what a program needs that kiln lacks: run it, and continue past missing names.

`python -m kiln.as_jax doctor PROGRAM` prints what was missing, where it was used, why it is
missing, and what to write instead; scripts can read the exit status.
"""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType, TracebackType
from typing import Any

from kiln.as_jax.names import public_names
from kiln.as_jax.refusals import reason
from kiln.as_jax.replacements import nearest, replacement
from kiln.as_jax.report import (
    Places,
    Refusal,
    asked,
    missed,
    record_refusal,
    refused,
    start_examination,
)
from kiln.base.lazy import traceback
from kiln.base.options.names import Foreign, set_refusal_listener
from kiln.base.source import current_source, is_internal

NOTHING_LACKS, LACKS, FAILED = 0, 1, 3
"""The exit statuses. Python and its libraries use 2 for invalid command lines."""

_PLACES = 5
"""The maximum number of source lines listed for each missing name."""


def start() -> None:
    """Start the examination."""
    start_examination()
    set_refusal_listener(_refused_option)


def examine(program: str, run: Callable[[], None], *, strict: bool = False) -> int:
    """Run a program, print what it needs that kiln lacks, and return an exit status.

    With `strict`, a missing name counts even if it is only imported. Call `start` before.
    """
    failure: BaseException | None = None
    try:
        run()
    except SystemExit as error:
        failure = error if error.code else None
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
    except Exception as error:  # noqa: BLE001, whatever a program raises is reported
        failure = error
        record_failure(error)
        _print(error)
    lacks = bool(missed() or refused() or (strict and asked()))
    status = LACKS if lacks else FAILED if failure else NOTHING_LACKS
    sys.stdout.flush()
    lines = [f"kiln.as_jax doctor: {program}", *findings(), _end(failure), _meaning(status)]
    sys.stderr.write("\n".join(lines) + "\n")
    return status


def findings() -> Iterator[str]:
    """Yield the lines of the report about what is missing."""
    if not missed() and not refused():
        yield "kiln lacks nothing that was used"
    for name, places in sorted(missed().items()):
        yield f"missing: {name}, used {_times(places)}"
        yield from _details(reason(name), replacement(name), places, asked().get(name, {}))
    for refusal, places in sorted(refused().items()):
        yield f"refused: {refusal.what}, {_times(places)}"
        yield from _details(refusal.why, refusal.instead, places, {})
    unused = {name: places for name, places in asked().items() if name not in missed()}
    for name, places in sorted(unused.items()):
        yield f"only imported or read: {name} at {', '.join([*places][:_PLACES])}"


def _details(why: str, instead: str, places: Places, asked_at: Places) -> Iterator[str]:
    for what, where in (("at", places), ("imported or read at", asked_at)):
        if where:
            more = f" and {len(where) - _PLACES} more lines" if len(where) > _PLACES else ""
            yield f"  {what} {', '.join([*where][:_PLACES])}{more}"
    if why:
        yield f"  why: {why}"
    yield f"  {instead}"


def _times(places: Places) -> str:
    count = sum(places.values())
    return "once" if count == 1 else f"{count} times"


def _end(failure: BaseException | None) -> str:
    if failure is None:
        return "the program ran to its end"
    if isinstance(failure, SystemExit):
        code = failure.code
        return f"the program ended with status {int(code) if isinstance(code, int) else 1}"
    text = str(failure).partition("\n")[0]
    return f"the program stopped at {_place(failure)}: {type(failure).__name__}: {text}"


def _meaning(status: int) -> str:
    meanings = {
        NOTHING_LACKS: "nothing is missing",
        LACKS: "something is missing; results that depend on it are not those of JAX",
        FAILED: "nothing is missing, the failure is the program's own",
    }
    return f"status {status}: {meanings[status]}"


def _refused_option(name: str, value: Any, option: Foreign) -> None:
    source = current_source()
    # If only Python's startup code is on the stack, the environment set the option.
    by_environment = source is None or source.file.startswith("<frozen ")
    refusal = Refusal(f"option {name} = {value!r}", option.why, f"instead: {option.instead}")
    record_refusal(refusal, "the environment" if by_environment else str(source))


def record_failure(error: BaseException) -> None:
    """Record what kiln lacks if that caused an exception; otherwise do nothing."""
    lacking = _lacking(error)
    if lacking is not None:
        record_refusal(lacking, _place(error))


def _lacking(error: BaseException) -> Refusal | None:
    text = str(error).splitlines() or [""]
    if type(error).__name__ == "MissingNameError":
        return None
    if isinstance(error, NotImplementedError) and not _raised_by_program(error):
        what, why, instead = (*text, "", "")[:3]
        return Refusal(what, why, instead or "see docs/differences.md")
    if isinstance(error, TypeError):
        return _argument(str(error))
    if isinstance(error, AttributeError) and not isinstance(error.obj, ModuleType):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        if owner.__module__.partition(".")[0] == "kiln":
            instead = nearest(str(error.name), dir(owner)) or "see docs/differences.md"
            return Refusal(f"attribute {error.name} of {owner.__name__}", text[0], instead)
    return None


def _argument(text: str) -> Refusal | None:
    found = re.search(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'", text)
    if found is None:
        return None
    function, argument = found.groups()
    for module in sorted(public_names()):
        value = getattr(sys.modules.get(module), "__dict__", {}).get(function)
        if callable(value) and getattr(value, "__module__", "").startswith("kiln."):
            what = f"argument {argument} of {module}.{function}"
            return Refusal(
                what,
                "kiln's function lacks it; if JAX's does too, the program is wrong",
                "instead: leave it out",
            )
    return None


def _raised_by_program(error: BaseException) -> bool:
    """Tell whether a `raise` outside kiln raised an exception: kiln's frames may be hidden."""
    last = _last(error)
    if last is None or type(error).__module__.startswith("kiln."):
        return False
    code = last.tb_frame.f_code
    raises = dis.opname[code.co_code[last.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")
    return raises and not is_internal(code.co_filename)


def _last(error: BaseException) -> TracebackType | None:
    found = entry = error.__traceback__
    while entry is not None:
        found, entry = entry, entry.tb_next
    return found


def _place(error: BaseException) -> str:
    place, entry = "an unknown line", error.__traceback__
    while entry is not None:
        if _of_program(entry.tb_frame):
            place = f"{entry.tb_frame.f_code.co_filename}:{entry.tb_lineno}"
        entry = entry.tb_next
    return place


def _of_program(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not is_internal(file) and not file.startswith("<frozen ")


def _print(error: BaseException) -> None:
    """Print an exception as Python would, starting at the first frame of the program."""
    entry = error.__traceback__
    while entry is not None and not _of_program(entry.tb_frame):
        entry = entry.tb_next
    traceback.print_exception(type(error), error, entry)
