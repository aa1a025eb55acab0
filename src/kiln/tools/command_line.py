"""The parser of the command line: errors have three lines, and suggest what was meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from kiln.base.errors import three_lines
from kiln.base.lazy import difflib

_WRONG_USE = 2
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_OPTION = re.compile(r"(?<!\w)--?[a-z][\w-]*")


class WrongUse(Exception):
    """A command line that is not understood: what is wrong, and what to type."""


class Parser(argparse.ArgumentParser):
    """A parser that raises WrongUse, and shows examples as they are written."""

    def __init__(self, **settings: Any) -> None:
        raw = argparse.RawDescriptionHelpFormatter
        super().__init__(**{"formatter_class": raw, "allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """Raise WrongUse, with a suggestion."""
        choice = _CHOICE.search(message)
        if choice is None:
            raise WrongUse(message, f"`{self.prog} --help` shows how to write it")
        known = re.findall(r"[\w-]+", choice[2])
        raise WrongUse(f"there is no {choice[1]!r}", self._meant(choice[1], known))

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """Raise WrongUse for arguments that the parser does not have."""
        first = next((word for word in words if word.startswith("-")), words[0])
        kind = "option" if first.startswith("-") else "argument"
        name = first.partition("=")[0]
        # Not those of the help: its examples have options of programs.
        known = sorted(set(_OPTION.findall(self.format_usage())))
        raise WrongUse(f"there is no {kind} {name!r}", self._meant(name, known))

    def _meant(self, word: str, known: Iterable[str]) -> str:
        close = difflib.get_close_matches(word, list(known), 2)
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        return f"{meant}`{self.prog} --help` lists them"


def fail(words: Sequence[str], error: WrongUse) -> NoReturn:
    """Print an error about a command line; exit with status 2."""
    wrong, remedy = error.args
    sys.stderr.write(three_lines(" ".join(("kiln", *words)), wrong, remedy) + "\n")
    sys.exit(_WRONG_USE)
