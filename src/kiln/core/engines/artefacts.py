"""Programs as portable artefacts: what an engine that writes them offers, and which one it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from kiln.base.records import Record
from kiln.core.engines.engine import DEFAULT_ENGINE, Compiler, Program, engine


class Artefact(Record):
    """A program as a portable StableHLO artefact.

    With `is_refined`, sizes or the platform are decided when it is compiled.
    """

    stored: bytes
    is_refined: bool


@runtime_checkable
class ArtefactCompiler(Compiler, Protocol):
    """A compiler that writes programs as portable artefacts, and shows them."""

    def artefact(
        self, program: Program, platforms: Sequence[str], allowed_calls: Collection[str]
    ) -> Artefact:
        """Return a program for some platforms.

        `allowed_calls` are routines it may call although they are not guaranteed to be stable.

        Raises: NotImplementedError, naming what cannot be stored.
        """
        ...

    def check_artefacts(self, stored: Sequence[bytes]) -> None:
        """Check that artefacts from elsewhere can be read; malformed ones cannot crash the process.

        Raises: ValueError for one that cannot.
        """
        ...

    def artefact_text(self, stored: bytes) -> str:
        """Return an artefact as StableHLO text.

        Raises: ValueError for bytes that are not an artefact.
        """
        ...


def artefact_compiler() -> ArtefactCompiler:
    """Return the compiler that writes portable artefacts."""
    found = engine(DEFAULT_ENGINE).compiler
    assert isinstance(found, ArtefactCompiler)
    return found
