"""From LLVM IR to code in memory: the only file that calls LLVM.

The only optimization pass promotes stack memory to registers, where the text asks for it: otherwise
the text is already optimized by the engine, and passes would take longer than everything else.
Object files are plain bytes that may be stored on disk.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from kiln.base.lazy import llvmlite_binding as llvm
from kiln.base.lazy import llvmlite_ffi as ffi
from kiln.base.process.forks import in_child, new_guard, new_rlock
from kiln.base.process.lifetimes import never_freed
from kiln.base.signals import HeldBack
from kiln.engines.native.llvm import linking
from kiln.engines.native.llvm.iteration import PROMOTED
from kiln.engines.native.llvm.linking import Code as Code
from kiln.engines.native.llvm.linking import host_target as host_target
from kiln.engines.native.llvm.linking import linked
from kiln.engines.native.llvm.target import FOR_LIBRARIES, SYSTEMS, Target

T = TypeVar("T")

_lock = new_rlock()
_inside = new_guard()
"""Held by threads inside LLVM, so that no thread is inside during a fork."""
_names = itertools.count()
LEAST_EFFORT = 0
"""A third of the compile time, and slower code; no loop analyses."""
USUAL_EFFORT = 1
_PROMOTED = f"%{PROMOTED}"


@in_child
def _free_the_lock_of_the_library() -> None:
    # A thread of the parent may have held it while waiting for `_inside`.
    if _ready.cache_info().currsize:
        ffi.lib._lock._lock._at_fork_reinit()


@functools.cache
def _ready() -> None:
    # The library is loaded when a program needs it: loading takes longer than most compilations.
    ffi.register_lock_callback(_inside.acquire, _inside.release)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _triple() -> str:
    return str(llvm.get_default_triple())


# The library disables its finalizers at exit, which is too late if a thread loads it during
# shutdown: they would then run in modules that are already cleared. So these are never freed.
@functools.cache
def _machine(target: Target, codegen: int) -> Any:
    _ready()
    triple = _triple()
    architecture = triple.partition("-")[0].replace("arm64", "aarch64")
    if target.triple != architecture or target.name in FOR_LIBRARIES:
        # To inspect code for another machine, or to link it there.
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        triple = f"{target.triple}-{SYSTEMS[target.system]}"
    return never_freed(
        llvm.Target.from_triple(triple).create_target_machine(
            cpu=target.cpu,
            features=target.features,
            opt=codegen,
            jit=not target.is_module,
            # The default for JIT code is the large code model, which builds each address from
            # immediates.
            codemodel="small",
            # A module has addresses of its own: position-independent ones would be imported.
            reloc="static" if target.is_module else "pic",
            abiname=target.abi,
        )
    )


@functools.cache
def _linker() -> Any:
    return never_freed(llvm.create_lljit_compiler(_machine(host_target(), USUAL_EFFORT)))


@functools.cache
def _promotion(target: Target, codegen: int) -> tuple[Any, Any]:
    tuning = llvm.create_pipeline_tuning_options(speed_level=codegen)
    passes = never_freed(llvm.create_new_function_pass_manager())
    passes.add_sroa_pass()
    return passes, never_freed(llvm.create_pass_builder(_machine(target, codegen), tuning))


def _compiled(text: str, target: Target, codegen: int) -> tuple[Any, Any]:
    """Return the target machine, and the module of a text for it."""
    machine = _machine(target, codegen)
    module = _module(text, machine)
    if _PROMOTED in text:
        passes, builder = _promotion(target, codegen)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
    return machine, module


def _module(text: str, machine: Any) -> Any:
    # A separate context, so that what a module defines does not outlive it.
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


def _emit_object(text: str, target: Target, codegen: int) -> Any:
    machine, module = _compiled(text, target, codegen)
    return machine.emit_object(module)


def _emit_assembly(text: str, target: Target, codegen: int) -> Any:
    machine, module = _compiled(text, target, codegen)
    return machine.emit_assembly(module)


def _emitted(emit: Callable[[str, Target, int], T], text: str, target: Target, codegen: int) -> T:
    # The module is released before the context exits: what its finalizer raises would be lost.
    with _lock, HeldBack():
        return emit(text, target, codegen)


def assemble(text: str, target: Target | None = None, codegen: int = USUAL_EFFORT) -> bytes:
    """Compile LLVM IR to an object file.

    `codegen` is the optimization level, from 0 to 3. Raises RuntimeError on text that LLVM cannot
    parse.
    """
    return bytes(_emitted(_emit_object, text, target or host_target(), codegen))


def disassemble(text: str, target: Target | None = None, codegen: int = USUAL_EFFORT) -> str:
    """Return the assembly to which LLVM IR compiles."""
    return str(_emitted(_emit_assembly, text, target or host_target(), codegen))


def load(image: bytes, entry: str) -> Code:
    """Load an object file, linked with the kernels of the runtime.

    Raises RuntimeError if the object lacks the symbol `entry`, or needs an undefined one.
    """
    return linked(image, entry) or _linked_by_llvm(image, entry)


def _linked_by_llvm(image: bytes, entry: str) -> Code:
    """Load an object file of a kind that the runtime does not link; some memory is never freed."""
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(image).export_symbol(entry)
        for name, address in linking.symbols().items():
            if name.encode() in image:
                builder.import_symbol(name, address)
        library = builder.link(_linker(), f"kiln{next(_names)}")
        return Code(library, library[entry])
