"""Environment variables that set the options of jax.

`JAX_ENABLE_X64=1` has the effect of `config.update("jax_enable_x64", True)`, and so on for all
options of JAX; kiln's own variables (`KILN_...`) take precedence. Values that `update` rejects are
rejected here, too: ignoring them would silently drop a safety check. The number of devices is read
where devices are created.
"""

from __future__ import annotations

import os

from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.options.config import config
from kiln.base.options.jax_options import FOREIGN, Foreign
from kiln.base.options.names import ALIASES, Alias


def apply_environment() -> None:
    """Set the options that environment variables of jax request.

    Raises: UnavailableOptionError for a value that kiln does not support, ValueError for text that
        is not a value of the option.
    """
    known: dict[str, Alias | Foreign] = {**ALIASES, **FOREIGN}
    for name, option in known.items():
        text = os.environ.get(name.upper())
        own = f"KILN_{option.field.upper()}" if isinstance(option, Alias) else ""
        if not text or own in os.environ:
            continue
        asked = f"the environment has {name.upper()}={text}"
        try:
            config.update(name, option.parse(text))
        except UnavailableOptionError as error:
            raise UnavailableOptionError(three_lines(asked, *str(error).splitlines()[1:])) from None
        except ValueError as error:
            wrong = str(error).splitlines()[0]
            remedy = f"use a value that jax.config.update({name!r}, ...) accepts"
            raise ValueError(three_lines(asked, wrong, remedy)) from None
