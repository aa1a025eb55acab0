"""The options of jax: `python -m tests.differential.options`.

Asks jax, and writes `data/options.json`: of each option its kind, its default, and the values that
it takes if there are few. `test_options.py` compares kiln with it.
"""

from __future__ import annotations

import enum
import importlib
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data") / "options.json"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: enumerations by the words that set them."""
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) else value.name.lower()
    return value


def _described(kind: Any, default: Any, settings: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"default": _plain(default)}
    if isinstance(kind, type):
        found["kind"] = kind.__name__
        return found
    members = settings.get("enum_values") or list(settings.get("enum_class") or type(default))
    return {**found, "kind": "choice", "values": [_plain(value) for value in members]}


def main() -> None:
    """Ask jax and write the options."""
    config = importlib.import_module("jax").config
    # Options of Pallas and Mosaic are made with them.
    importlib.import_module("jax.experimental.pallas.triton")
    found = {}
    for name, holder in sorted(config._value_holders.items()):
        kind, _, settings, *_ = (*config.meta[name], {}, {})
        settings = settings if isinstance(settings, dict) else {}
        found[name] = _described(kind, holder.value, settings)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    DATA.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    print(f"{len(found)} options")


if __name__ == "__main__":
    main()
