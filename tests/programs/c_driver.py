"""A C program that calls the functions of libraries: arguments from a file, results to another.

All memory, of arrays and what libraries allocate, ends at a page that must not be touched. The
program takes arrays, not structures, and runs its calls one after the other, in one process.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COMPILER = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")


class Machine(NamedTuple):
    """Where a program runs: the commands that compile and link it, and the emulator's."""

    compile: Sequence[str]
    emulate: Sequence[str] = ()


HERE = Machine([COMPILER or "cc"], shlex.split(os.environ.get("KILN_TEST_EMULATOR", "")))
"""Where the tests themselves run, which may be an emulator."""

_MAIN = """\
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
{includes}
enum {{ PAGE = 4096 }};
static FILE *from, *to;
static long allocations;

/* Memory ends where a page begins that nobody may touch; before it is a page with its size. */
static void *guarded(size_t alignment, size_t bytes) {{
  const size_t used = (bytes + PAGE - 1) / PAGE * PAGE, all = PAGE + used + PAGE;
  char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + PAGE + used, PAGE, PROT_NONE) != 0) return NULL;
  *(size_t *)memory = all;
  const uintptr_t first = (uintptr_t)(memory + PAGE + used - bytes) / alignment * alignment;
  return memory + (first - (uintptr_t)memory);
}}

static void unguarded(void *memory) {{
  if (memory == NULL) return;
  char *page = (char *)memory - (uintptr_t)memory % PAGE - PAGE;
  munmap(page, *(size_t *)page);
}}

/* The linker puts these in the place of those of the system. */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t bytes) {{
  ++allocations;
  return guarded(16, bytes + (bytes == 0));
}}

void *__wrap_calloc(size_t count, size_t bytes) {{ return __wrap_malloc(count * bytes); }}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {{
  ++allocations;
  return guarded(alignment, bytes + (bytes == 0));
}}

void __wrap_free(void *memory) {{ unguarded(memory); }}

/* Aligned to its elements alone. */
static void *room(size_t bytes) {{
  unsigned char *memory = guarded(1, bytes + (bytes == 0));
  if (memory == NULL) exit(2);
  for (size_t i = 0; i < bytes; ++i) memory[i] = 0xa5;
  return memory;
}}

static void *given(size_t bytes) {{
  void *memory = room(bytes);
  if (fread(memory, 1, bytes, from) != bytes) exit(3);
  return memory;
}}

static void result(void *memory, size_t bytes) {{
  if (fwrite(memory, 1, bytes, to) != bytes) exit(4);
}}

static void check_allocations(const char *name, long before) {{
  if (allocations == before) return;
  fprintf(stderr, "%s: a call allocated memory %ld times\\n", name, allocations - before);
  exit(6);
}}

static void check(const char *name, int status) {{
  if (status == 0) return;
  fprintf(stderr, "%s: status %d\\n", name, status);
  exit(5);
}}
{functions}
int main(int count, char **names) {{
  if (count != 3) return 1;
  from = fopen(names[1], "rb");
  to = fopen(names[2], "wb");
  if (from == NULL || to == NULL) return 1;
{calls}
  return fclose(to);
}}
"""


class Call(NamedTuple):
    """A call of a library's function: values of its sizes, and of its arguments in order."""

    folder: Path
    symbol: str
    sizes: dict[str, int]
    values: Sequence[np.ndarray]


def wrapping(*names: str) -> list[str]:
    """Return the options that let a program put its own functions in the place of the system's."""
    return [f"-Wl,--wrap={name}" for name in names]


def have_same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether arrays have the same bits, except for the signs of nan."""
    if x.tobytes() == y.tobytes():
        return True
    if x.shape != y.shape or y.dtype.kind not in "fc":
        return False
    kind = f"f{y.real.dtype.itemsize}"
    parts, others = np.ravel(x).view(kind), np.ravel(y).view(kind)
    is_nan = np.isnan(parts) & np.isnan(others)
    return parts[~is_nan].tobytes() == others[~is_nan].tobytes()


def run_calls(
    calls: Sequence[Call],
    folder: Path,
    *,
    threads: int | None = None,
    machine: Machine = HERE,
    counts_allocations: bool = True,
) -> list[list[np.ndarray]]:
    """Compile a program that makes some calls, run it without Python, and return all results.

    Contexts are given threads, if the libraries have them. Functions that replace no arguments are
    called twice. No call may allocate memory, unless it is not counted: sanitizers have their own
    functions for it.
    """
    libraries = list(dict.fromkeys(call.folder for call in calls))
    described = {path: described_in(path) for path in libraries}
    functions, lines = [], []
    for number, call in enumerate(calls):
        functions.append(_function(number, call, described[call.folder], threads))
        lines.append(f"  call{number}();")
    names = [described[path]["name"] for path in libraries]
    text = _MAIN.format(
        includes="".join(f'#include "{name}.h"\n' for name in names),
        functions="\n".join(functions),
        calls="\n".join(lines),
    )
    (folder / "driver.c").write_text(text)
    (folder / "in.bin").write_bytes(b"".join(v.tobytes() for c in calls for v in c.values))
    command = [*machine.compile, "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-g"]
    command += ["-o", str(folder / "driver"), str(folder / "driver.c")]
    command += [f"-I{path}" for path in libraries]
    for path, name in zip(libraries, names, strict=True):
        command += [str(path / f"lib{name}.a"), *_blas(path, name)]
    if counts_allocations:
        command += wrapping("malloc", "calloc", "aligned_alloc", "free")
    subprocess.run([*command, "-Wl,--gc-sections", "-lm"], check=True)
    files = [str(folder / "in.bin"), str(folder / "out.bin")]
    command = [*machine.emulate, str(folder / "driver"), *files]
    subprocess.run(command, check=True, timeout=300, env={})
    return results_in(folder / "out.bin", calls)


def results_in(file: Path, calls: Sequence[Call]) -> list[list[np.ndarray]]:
    """Return the results of some calls, which a program has written one after the other."""
    data = file.read_bytes()
    found, at = [], 0
    for call in calls:
        results = []
        for array in arrays_of(call, described_in(call.folder)):
            if array["direction"] == "in":
                continue
            value = np.frombuffer(data, array["numpy"], count_of(array, call), at)
            results.append(value.reshape([size_of(n, call) for n in array["shape"]]))
            at += value.nbytes
        found.append(results)
    assert at == len(data)
    return found


def described_in(path: Path) -> dict[str, Any]:
    """Return the description of the library in a folder."""
    (file,) = path.glob("*.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _blas(path: Path, name: str) -> list[str]:
    """Return the options of the BLAS that a library needs, from what it says to pkg-config."""
    (line,) = [x for x in (path / f"{name}.pc").read_text().splitlines() if x.startswith("Libs:")]
    return [x for x in line.split()[3:] if x not in ("-lm", "-Wl,--gc-sections")]


def arrays_of(call: Call, described: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of a call as its library describes them, with their NumPy types."""
    (function,) = [f for f in described["functions"] if f["symbol"] == call.symbol]
    arrays = function["arguments"]
    return [{**a, "numpy": _numpy_type(a["dtype"])} for a in arrays]


def _numpy_type(dtype: str) -> Any:
    return np.uint16 if dtype == "bfloat16" else np.dtype(dtype)


def size_of(size: int | str, call: Call) -> int:
    """Return a dimension in a call."""
    return size if isinstance(size, int) else int(eval(size.replace("^", "**"), dict(call.sizes)))


def count_of(array: dict[str, Any], call: Call) -> int:
    """Return how many elements an argument has in a call."""
    return int(np.prod([size_of(n, call) for n in array["shape"]], dtype=np.int64))


def _function(number: int, call: Call, described: dict[str, Any], threads: int | None) -> str:
    prefix = described["name"]
    (function,) = [f for f in described["functions"] if f["symbol"] == call.symbol]
    sizes = [str(call.sizes[name]) for name in function["sizes"]]
    lines = [
        f"static void call{number}(void) {{",
        f"  {prefix}_context *context = "
        f"{prefix}_create({call.symbol}_workspace_size({', '.join(sizes)}));",
    ]
    if threads is not None:
        lines.append(f'  check("threads", {prefix}_set_threads(context, {threads}));')
    names, after = [], []
    for i, array in enumerate(arrays_of(call, described)):
        size = count_of(array, call) * np.dtype(array["numpy"]).itemsize
        make = "room" if array["direction"] == "out" else "given"
        lines.append(f"  void *array{i} = {make}({size});")
        names.append(f"array{i}")
        if array["direction"] != "in":
            after.append(f"  result(array{i}, {size});")
    given = ", ".join(["context", *sizes, *names])
    lines.append("  const long before = allocations;")
    is_repeated = all(a["direction"] != "inout" for a in arrays_of(call, described))
    lines += [f'  check("{call.symbol}", {call.symbol}({given}));'] * (1 + is_repeated)
    lines.append(f'  check_allocations("{call.symbol}", before);')
    lines += [*after, *[f"  unguarded({name});" for name in names]]
    lines += [f"  {prefix}_destroy(context);", "}"]
    return "\n".join(lines)
