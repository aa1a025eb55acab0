"""The annotations of a class's own body, which Python 3.14 evaluates when they are read."""

from __future__ import annotations

import inspect
import sys
from typing import Any

if sys.version_info >= (3, 14):
    import annotationlib

    def own_annotations(cls: type) -> dict[str, Any]:
        """Return the names that a class's body annotates, with what it annotates them with.

        A name that is not defined yet is a `ForwardRef`.
        """
        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)

else:

    def own_annotations(cls: type) -> dict[str, Any]:
        """Return the names that a class's body annotates, with what it annotates them with."""
        return inspect.get_annotations(cls)
