"""The shared library, which the system's C compiler links: only the header's names are visible."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kiln.base.errors import three_lines
from kiln.base.lazy import LazyModule

shutil = LazyModule("shutil")
subprocess = LazyModule("subprocess")
_COMPILERS = ("cc", "gcc", "clang")


def c_compiler(asked: str) -> str:
    """Return the command of the system's C compiler: `$CC`, or the first of the usual names.

    Raises: RuntimeError, naming what was asked for, if there is none.
    """
    chosen = os.environ.get("CC")
    for name in [chosen] if chosen else _COMPILERS:
        found: str | None = shutil.which(name)
        if found is not None:
            return found
    raise RuntimeError(
        three_lines(
            asked,
            f"a shared library is linked by the system's C compiler, and there is no "
            f"{chosen or ' or '.join(_COMPILERS)}",
            "install one (Debian, Ubuntu: apt-get install gcc), or write shared=False for the "
            "static library and the header alone",
        )
    )


def link_shared(
    compiler: str, archive: str, public: Sequence[str], to: str, libraries: Sequence[str]
) -> None:
    """Link an archive into a shared library without what is not called.

    Raises: RuntimeError with what the linker says.
    """
    command = [
        compiler,
        "-shared",
        "-nostartfiles",
        "-o",
        to,
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
                f"linking {to} with {compiler}",
                done.stderr.strip() or f"the linker ended with status {done.returncode}",
                "set CC to another C compiler, or write shared=False",
            )
        )
