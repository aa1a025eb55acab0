"""The table of JAX's options: what each does here."""

from __future__ import annotations

from collections.abc import Iterator

from kiln.base.options.jax_options import FOREIGN, Foreign
from kiln.base.options.names import ALIASES, CHOICES

HEADING = """# JAX's options

Written by `make docs`. All options of JAX 0.10.2, as `jax.config.update(NAME, value)`,
`jax.config.NAME`, and under `kiln.as_jax` the environment variable with the name in capitals
(`JAX_ENABLE_X64=1`); JAX's contexts set them for a thread. Those with an effect are options of
kiln by another name. Of the others, some say nothing about kiln and take any value. The rest may
be set to what kiln does anyway; anything else raises `UnavailableOptionError`, or causes a
warning if the option affects only speed or what is said.
"""


def table() -> Iterator[str]:
    """Yield the lines of the table, in the order of the options' names."""
    yield "| option | here | |"
    yield "|---|---|---|"
    for name in sorted([*ALIASES, *FOREIGN]):
        here, why = _of_kiln(name) if name in ALIASES else _of_jax(FOREIGN[name])
        yield f"| `{name}` | {here} | {why} |"


def _of_kiln(name: str) -> tuple[str, str]:
    field = ALIASES[name].field
    values = CHOICES.get(field, ())
    listed = ", ".join(f"`{value!r}`" for value in values)
    return f"`{field}`", f"one of {listed}" if values else ""


def _of_jax(option: Foreign) -> tuple[str, str]:
    if not option.meaning:
        return "any value", option.why
    kept = " or ".join(f"`{value!r}`" for value in option.values)
    refused = "a warning" if option.harmless else "an error"
    return f"{kept}; else {refused}", f"{option.why}: {option.instead}"
