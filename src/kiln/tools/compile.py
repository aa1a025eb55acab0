"""A function of a module as a library for C: `python -m kiln compile`."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.export import SymbolicScope, library, symbolic_shape
from kiln.jit.signatures.struct import ShapeDtypeStruct

HELP = "a function as a library for C, without Python"
EXAMPLES = """\
examples:
  kiln compile model:predict --arg f32[n,3] -o out
  kiln compile model:predict --args model:EXAMPLES -o out --static
"""

_DTYPES = {
    **{f"{letter}{bits}": f"{name}{bits}" for letter, name in (("i", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
    "bool": "bool",
}  # fmt: skip
_ARGUMENT = re.compile(r"(\w+)\[([^\]]*)\]")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the function, its arguments and the options of the library."""
    parser.add_argument("function", help="its module and name, such as model:predict")
    parser.add_argument("--arg", action="append", default=[], help="a type, such as f32[n,3]")
    parser.add_argument("--args", dest="examples", help="MODULE:NAME of a tuple of arguments")
    parser.add_argument("-o", "--output", required=True, help="the folder to write")
    parser.add_argument("--name", help="begins the names of files and symbols")
    parser.add_argument(
        "--target",
        help="a microarchitecture level, by default this machine's; wasm32 is WebAssembly",
    )
    parser.add_argument("--blas", action="store_true", help="programs link an OpenBLAS too")
    parser.add_argument("--threads", action="store_true", help="contexts may have threads")
    parser.add_argument("--mapped", action="store_true", help="constants are in a file")
    parser.add_argument("--static", action="store_true", help="no shared library")


def command(given: argparse.Namespace) -> int | None:
    """Write the library; return the exit status if it is not that of success."""
    try:
        lines = run(
            given.function,
            given.arg,
            examples=given.examples,
            name=given.name,
            path=given.output,
            target=given.target,
            blas=given.blas,
            threads=given.threads,
            mapped=given.mapped,
            shared=not given.static,
        )
    except (ValueError, NotImplementedError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return None


def run(
    function: str,
    types: Sequence[str],
    *,
    examples: str | None = None,
    name: str | None = None,
    path: str,
    target: str | None = None,
    blas: bool = False,
    threads: bool = False,
    mapped: bool = False,
    shared: bool = True,
) -> list[str]:
    """Write the library; return the lines to print.

    `function` is MODULE:NAME; `types` of arguments are texts such as `f32[n,3]`. `examples` names a
    tuple of arguments instead, for trees.

    Raises: ValueError for text that is not understood; the errors of `kiln.export.library`.
    """
    found = _object(function)
    scope = SymbolicScope()
    args = [_argument(text, scope) for text in types]
    if examples is not None:
        args = [*_object(examples)]
    made = library(
        found,
        *args,
        name=name or function.rpartition(":")[2].rpartition(".")[2],
        path=path,
        target=target,
        blas=blas,
        threads=threads,
        mapped=mapped,
        shared=shared,
    )
    lines = [f"{os.path.join(made.path, file)}: {size} bytes" for file, size in made.files.items()]
    return [*lines, f"for {made.target}, with {made.constant_bytes} bytes of constants"]


def _object(text: str) -> Any:
    module, colon, names = text.partition(":")
    if not colon or not names:
        raise ValueError(
            three_lines(
                f"kiln compile {text}",
                "a function is named by its module and its name",
                "write module:function, such as model:predict",
            )
        )
    # Modules are found in the folder from which the command is run, as `python -m` finds them.
    if "" not in sys.path:
        sys.path.insert(0, "")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def _argument(text: str, scope: SymbolicScope) -> ShapeDtypeStruct:
    matched = _ARGUMENT.fullmatch(text.replace(" ", ""))
    dtype = None if matched is None else _DTYPES.get(matched[1])
    if matched is None or dtype is None:
        raise ValueError(
            three_lines(
                f"kiln compile --arg {text}",
                "that is not the type of an array",
                f"write a dtype ({', '.join(_DTYPES)}) and sizes, such as f32[n,3] or i32[]",
            )
        )
    return ShapeDtypeStruct(symbolic_shape(matched[2], scope=scope), dtype)
