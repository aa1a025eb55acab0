"""`library`: from functions to a folder with a library for C."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.api.jit import jit
from kiln.base.errors import three_lines
from kiln.base.lazy import LazyModule, llvmlite, pathlib
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source
from kiln.core.engines.linking import (
    MACOS_TARGET,
    MODULE_TARGET,
    LinkedCode,
    LinkedFunction,
    Unlinkable,
    linking_compiler,
)
from kiln.export.exported import Exported
from kiln.export.libraries.build_files import (
    cmake_config,
    description,
    pkg_config,
    shared_ending,
)
from kiln.export.libraries.c_types import is_name
from kiln.export.libraries.cpp_header import cpp_header_text
from kiln.export.libraries.header import header_text
from kiln.export.libraries.javascript import javascript_text
from kiln.export.libraries.shared import c_compiler, link_shared
from kiln.export.libraries.signature import Signature, signature_of
from kiln.jit.function import JitFunction

importlib_metadata = LazyModule("importlib.metadata")
tempfile = LazyModule("tempfile")
shutil = LazyModule("shutil")

Function = Callable[..., Any]
_OWN_NAMES = (
    "allocate",
    "context",
    "create",
    "destroy",
    "error",
    "free",
    "library",
    "map_constants",
    "set_threads",
    "workspace_size",
)
"""What follows the name of a library in names that it defines itself."""


class Library(Record):
    """A library that was written: its folder, its files with their bytes, its functions.

    `constant_bytes` are those of the arrays that are embedded.
    """

    name: str
    path: str
    files: dict[str, int]
    functions: tuple[str, ...]
    target: str
    constant_bytes: int


@api_boundary
def library(
    function: Function | Exported | Mapping[str, tuple[Any, ...]],
    *args: Any,
    name: str | None = None,
    path: str | os.PathLike[str] = ".",
    target: str | None = None,
    blas: bool = False,
    threads: bool = False,
    mapped: bool = False,
    shared: bool = True,
) -> Library:
    """Write a function as a library that C, C++, Rust and others link, without Python.

    Functions that kiln or JAX exported are accepted too, if kiln has all of their operations.
    `args` are the function's arguments, or their types; sizes may be named (`symbolic_shape`), and
    each call then supplies them. Several functions are a dict from names to tuples: a function, and
    its arguments. Arrays that functions close over are embedded once. Donated arguments are
    replaced by results.

    The folder `path` gets libNAME.a, libNAME.so (if `shared`), NAME.h, and what pkg-config and
    CMake read. `target` is a microarchitecture level, by default the host's; `x86-64` is all of
    them, one of which is chosen at run time; `aarch64` is Linux on ARM, `aarch64-macos` macOS on
    ARM (libNAME.dylib), `wasm32` WebAssembly: a module, NAME.wasm, with NAME.mjs for browsers and
    Node, and libNAME.a for modules of others. With `blas` programs that link the library also link
    an OpenBLAS; with `threads` a context may have threads, which compute the same bits. If
    `mapped`, arrays that functions close over are in the file NAME.constants,
    which each context maps.

    Raises: NotImplementedError, naming what cannot leave the process, before anything is written;
        RuntimeError if there is no C compiler for the shared library.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> made = kiln.export.library(
        ...     jnp.tanh, jnp.ones(3), name="squash", path=folder, shared=False
        ... )
        >>> sorted(made.files)
        ['libsquash.a', 'squash.h', 'squash.hpp', 'squash.json', 'squash.pc', 'squashConfig.cmake']
    """
    if isinstance(function, Mapping):
        functions = {key: (row[0], tuple(row[1:])) for key, row in function.items()}
        own = name
    else:
        own = name or getattr(function, "fun_name", None) or getattr(function, "__name__", None)
        functions = {"": (function, args)}
    asked = f"library {own} of {', '.join(_named(f) for f, _ in functions.values())}"
    asked = f"{asked} at {current_source()}"
    _check_names(asked, own, [key for key in functions if key], target)
    assert own is not None
    shared = shared and target != MODULE_TARGET
    triple = linking_compiler().cross_triple(target)
    compiler = c_compiler(asked, triple) if shared else None
    linked, signatures = _traced(own, functions)
    try:
        code = linking_compiler().link(
            own, linked, target=target, blas=blas, threads=threads, mapped=mapped
        )
    except Unlinkable as error:
        raise NotImplementedError(
            three_lines(
                f"{asked}\nwith {_types(linked)}".replace("\n", " "), error.reason, error.remedy
            )
        ) from None
    files = _texts(own, signatures, code, has_shared=shared, threads=threads)
    options = [*_blas_options(code), *["-pthread"] * threads]
    sizes = _written(own, os.fspath(path), files, compiler, code, options)
    names = tuple([signature.symbol for signature in signatures])
    return Library(own, str(pathlib.Path(path)), sizes, names, code.target, code.constant_bytes)


def _written(
    own: str,
    path: str,
    files: Mapping[str, bytes],
    compiler: Sequence[str] | None,
    code: LinkedCode,
    options: Sequence[str],
) -> dict[str, int]:
    """Write files to a folder, and the shared library if there is a compiler; return their bytes.

    Nothing is in the folder before all of them are complete.
    """
    folder = pathlib.Path(path)
    with tempfile.TemporaryDirectory() as made:
        work = pathlib.Path(made)
        for file, content in files.items():
            (work / file).write_bytes(content)
        if compiler is not None:
            ending = shared_ending(code.target)
            archive, to = str(work / f"lib{own}.a"), str(work / f"lib{own}.{ending}")
            for_macos = code.target == MACOS_TARGET
            link_shared(compiler, archive, code.public, to, options, for_macos=for_macos)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = {}
        for file in sorted(work.iterdir()):
            sizes[file.name] = file.stat().st_size
            shutil.copyfile(file, folder / file.name)
    return sizes


def _named(function: Any) -> str:
    name = getattr(function, "fun_name", None) or getattr(function, "__name__", None)
    return str(name or f"{function!r:.50}")


def _types(functions: Sequence[LinkedFunction]) -> str:
    return "; ".join(
        f"{f.program.name}({', '.join(str(v.aval) for v in f.program.jaxpr.invars)})"
        for f in functions
    )


def _check_names(asked: str, own: str | None, parts: Sequence[str], target: str | None) -> None:
    wrong = [text for text in [own or "", *parts] if not is_name(text)]
    wrong += [text for text in parts if text in _OWN_NAMES]
    if wrong:
        raise ValueError(
            three_lines(
                asked,
                f"{wrong[0]!r} does not name functions of a library: names are letters, digits and "
                f"_, not words of C, and not {', '.join(_OWN_NAMES)}",
                "write name='model', and such names for several functions",
            )
        )
    known = linking_compiler().target_names()
    if target is not None and target not in known:
        raise ValueError(
            three_lines(
                f"{asked} for target {target!r}",
                "there is no such target",
                f"choose from: {', '.join(known)}",
            )
        )


def _traced(
    own: str, functions: Mapping[str, tuple[Any, tuple[Any, ...]]]
) -> tuple[list[LinkedFunction], list[Signature]]:
    linked, signatures = [], []
    for key, (function, args) in functions.items():
        symbol = f"{own}_{key}" if key else own
        if isinstance(function, Exported):
            args = args or function.in_tree.unflatten(function.in_avals)[0]
            function = function.call
        jitted: Any = function if isinstance(function, JitFunction) else jit(function)
        traced = jitted.trace(*args)
        divided = traced.divided_program()
        placement = divided.program.placement
        if placement is not None and (placement.mesh is not None or len(placement.devices) > 1):
            raise NotImplementedError(
                three_lines(
                    f"library {own} of {traced.fun_name} at {current_source()}",
                    f"its program runs on {len(placement.devices)} devices, a library on one CPU",
                    "leave shardings out",
                )
            )
        signature = signature_of(symbol, own, traced, divided)
        signatures.append(signature)
        linked.append(
            LinkedFunction(symbol, divided.program, divided.constants, signature.parameters())
        )
    return linked, signatures


def _blas_options(code: LinkedCode) -> list[str]:
    if not code.needs_blas or code.blas_library is None:
        return []
    folder, file = os.path.split(code.blas_library)
    return [f"-L{folder}", f"-l:{file}", f"-Wl,-rpath,{folder}"]


def _texts(
    own: str, signatures: list[Signature], code: LinkedCode, *, has_shared: bool, threads: bool
) -> dict[str, bytes]:
    version = str(importlib_metadata.version("kiln"))
    versions = {
        "kiln": version,
        "llvmlite": str(llvmlite.__version__),
        "python": platform.python_version(),
    }
    options = [*_blas_options(code), *["-pthread"] * threads]
    has_file = code.constants_file is not None
    own_calls = {"threads": threads, "has_file": has_file}
    if code.module is not None:
        return {
            f"{own}.wasm": code.module,
            f"lib{own}.a": code.archive,
            f"{own}.h": header_text(own, signatures, version, **own_calls).encode(),
            f"{own}.hpp": cpp_header_text(own, signatures, version, **own_calls).encode(),
            f"{own}.mjs": javascript_text(own, signatures, version).encode(),
            f"{own}.json": description(own, signatures, code, versions).encode(),
        }
    texts = {
        f"{own}.h": header_text(own, signatures, version, **own_calls),
        f"{own}.hpp": cpp_header_text(own, signatures, version, **own_calls),
        f"{own}.pc": pkg_config(own, code, version, options),
        f"{own}Config.cmake": cmake_config(own, code.target, options, has_shared=has_shared),
        f"{own}.json": description(own, signatures, code, versions),
    }
    files = {name: text.encode() for name, text in texts.items()}
    if code.constants_file is not None:
        files[f"{own}.constants"] = code.constants_file
    return {**files, f"lib{own}.a": code.archive}
