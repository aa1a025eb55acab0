"""What the way in and out of a call costs: the compiled function adds one to each operand.

kiln calls it by its address, as its own engines do; beside it stands JAX's call of the same
function. The statement is timed as it stands, without a function around it.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy

import kiln
from benchmarks.harness import Case, Library, Sampler, timed
from kiln import _runtime
from kiln.core.arrays.host_memory import HOST_MEMORY

MANY, LEAVES = 100, 21
SOURCE = """
struct call { const float *const *in; float *const *out; };
#define ADD_ONE(count)                                                        \\
  int add_one_##count(const struct call *call) {                              \\
    for (int i = 0; i < count; ++i) call->out[i][0] = call->in[i][0] + 1;     \\
    return 0;                                                                 \\
  }
ADD_ONE(1)
ADD_ONE(21)
ADD_ONE(100)
"""


@functools.cache
def library() -> ctypes.CDLL:
    """Compile the functions."""
    folder = Path(tempfile.mkdtemp(prefix="kiln-dispatch-"))
    source, built = folder / "add_one.c", folder / "add_one.so"
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", built], check=True)
    return ctypes.CDLL(str(built))


def bump(tree: Any) -> Any:
    """Add one to every leaf."""
    if isinstance(tree, dict):
        return {k: bump(v) for k, v in tree.items()}
    return [x + 1 for x in tree] if isinstance(tree, (tuple, list)) else tree + 1


def compiled(lib: Library, fun: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function jitted; kiln's calls the compiled function."""
    jitted: Any = lib.root.jit(fun)
    out = jitted(*args)
    if lib.root is not kiln:
        return jitted  # type: ignore[no-any-return]
    recording = jitted.entry_for(args, {}).recording
    count = len(recording.jaxpr.outvars)
    address = ctypes.cast(getattr(library(), f"add_one_{count}"), ctypes.c_void_p).value
    assert address is not None
    leaves = [("float32", 4)] * count
    native = _runtime.Native(address, leaves, leaves, library())
    out_avals = recording.jaxpr.out_avals
    program = _runtime.CompiledProgram(native, out_avals, None, HOST_MEMORY, True)
    jitted.forget_calls()
    places = list(enumerate(args))
    types = tuple(recording.jaxpr.in_avals)
    assert jitted.remember(len(args), (), [], places, types, (), program, recording.out_tree)
    for want, got in zip(kiln.tree.leaves(out), kiln.tree.leaves(jitted(*args)), strict=True):
        numpy.testing.assert_array_equal(want, got)
    return jitted  # type: ignore[no-any-return]


def _one(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return lambda x: x + 1, (lib.np.ones(()),)


def _scalar(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return lambda x: x + 1, (2.5,)


def _many(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return lambda *xs: bump(xs), tuple(lib.np.float32(i) for i in range(MANY))


def _dictionary(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    names = ("bias", "kernel", "scale")
    tree = {f"layer_{i}": {name: lib.np.float32(i) for name in names} for i in range(LEAVES // 3)}
    return bump, (tree,)


def _numpy(lib: Library) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return lambda *xs: bump(xs), tuple(numpy.full(1, i, numpy.float32) for i in range(MANY))


CALLS = {
    "1 array": _one,
    "Python scalar": _scalar,
    f"{MANY} arrays in and out": _many,
    f"dict of {LEAVES} leaves in and out": _dictionary,
    f"{MANY} NumPy arrays in": _numpy,
}


def _sampler(lib: Library, make: Callable[[Library], Any]) -> Sampler:
    fun, args = make(lib)
    jitted = compiled(lib, fun, args)
    names = {f"x{i}": x for i, x in enumerate(args)}
    return timed(f"f({', '.join(names)})", {"f": jitted, **names})


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, make in CALLS.items():
        yield Case(name, {lib.name: _sampler(lib, make) for lib in libraries}, rounds=30)
