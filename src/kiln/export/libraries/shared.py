"""The shared library, which a C compiler links: only the header's names are visible."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kiln.base.errors import three_lines
from kiln.base.lazy import LazyModule

importlib_util = LazyModule("importlib.util")
shutil = LazyModule("shutil")
subprocess = LazyModule("subprocess")
_COMPILERS = ("cc", "gcc", "clang")


def c_compiler(asked: str, triple: str | None) -> list[str]:
    """Return the command of a C compiler: `$CC`, or the first of the usual names.

    For the architecture of a `triple` it is `$CC`, GCC's cross compiler, or zig.

    Raises: RuntimeError, naming what was asked for, if there is none.
    """
    chosen = os.environ.get("CC")
    names = _COMPILERS if triple is None else (f"{triple}-gcc",)
    for name in [chosen] if chosen else names:
        found: str | None = shutil.which(name)
        if found is not None:
            return [found]
    if triple is not None and not chosen and importlib_util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", triple]
    package = "Debian, Ubuntu: apt-get install gcc"
    if triple is not None:
        package = f"Debian, Ubuntu: apt-get install gcc-{triple}; or pip install ziglang"
    if is_of_macos(triple):
        package = "pip install ziglang"
    raise RuntimeError(
        three_lines(
            asked,
            f"a shared library is linked by a C compiler, and there is no "
            f"{chosen or ' or '.join(names)}",
            f"install one ({package}), or"
            " write shared=False for the static library and the header alone",
        )
    )


def is_of_macos(triple: str | None) -> bool:
    """Tell whether `triple`, a compiler's name of a target, means macOS."""
    return triple is not None and "macos" in triple


def link_shared(
    compiler: Sequence[str],
    archive: str,
    public: Sequence[str],
    to: str,
    libraries: Sequence[str],
    *,
    for_macos: bool,
) -> None:
    """Link an archive into a shared library without what is not called.

    Raises: RuntimeError with what the linker says.
    """
    command = [*compiler, "-o", to]
    if for_macos:
        command += [
            "-dynamiclib",
            f"-Wl,-install_name,@rpath/{os.path.basename(to)}",
            *[f"-Wl,-u,_{name}" for name in public],
            archive,
            "-Wl,-dead_strip",
            "-Wl,-s",
            *libraries,
        ]
    else:
        command += [
            "-shared",
            "-nostartfiles",
            *[f"-Wl,-u,{name}" for name in public],
            archive,
            "-Wl,--gc-sections",
            "-Wl,--no-undefined",
            "-Wl,-s",
            "-Wl,-z,noexecstack",
            f"-Wl,-soname,{os.path.basename(to)}",
            *libraries,
            "-Wl,--as-needed",
            "-lm",
        ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            three_lines(
                f"linking {to} with {' '.join(compiler)}",
                done.stderr.strip() or f"the linker ended with status {done.returncode}",
                "set CC to another C compiler, or write shared=False",
            )
        )
