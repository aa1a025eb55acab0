"""Programs as portable artifacts: what an engine that writes them offers, and which one it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from kiln.base.records import Record
from kiln.core.engines.engine import DEFAULT_ENGINE, Compiler, Program, engine
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

LARGE = 4096
"""Constants of this many bytes are inputs of a program, as arrays that a function closes over."""


class Artifact(Record):
    """A program as a portable StableHLO artifact.

    With `is_refined`, sizes or the platform are decided when it is compiled.
    """

    stored: bytes
    is_refined: bool


@runtime_checkable
class ArtifactCompiler(Compiler, Protocol):
    """A compiler that writes programs as portable artifacts, and shows them."""

    def artifact(
        self, program: Program, platforms: Sequence[str], allowed_calls: Collection[str]
    ) -> Artifact:
        """Return a program for some platforms.

        `allowed_calls` are routines it may call although they are not guaranteed to be stable.

        Raises: NotImplementedError, naming what cannot be stored.
        """
        ...

    def check_artifacts(self, stored: Sequence[bytes]) -> None:
        """Check that artifacts from elsewhere can be read; malformed ones cannot crash the process.

        Raises: ValueError for one that cannot.
        """
        ...

    def large_constants(self, stored: bytes) -> list[np.ndarray]:
        """Return the constants of an artifact that have at least `LARGE` bytes, each once.

        Raises: ValueError for bytes that are not an artifact.
        """
        ...

    def raised_artifact(
        self,
        name: str,
        stored: bytes,
        types: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
        number: int | None,
        is_refined: bool,
        constants: Sequence[np.ndarray],
    ) -> Jaxpr:
        """Return an artifact called `name` as a jaxpr, for operands and results of given types.

        `number` is that of the platform, if the artifact is for several; `is_refined` as in
        `Artifact`. Constants of the artifact that are equal to some of `constants` are further
        inputs of the jaxpr, in their order.

        Raises: UnsupportedPrimitive, naming an operation that kiln has no counterpart for;
            ValueError for an artifact that cannot be read, or is not one for these types.
        """
        ...

    def artifact_text(self, stored: bytes) -> str:
        """Return an artifact as StableHLO text.

        Raises: ValueError for bytes that are not an artifact.
        """
        ...


def artifact_compiler() -> ArtifactCompiler:
    """Return the compiler that writes portable artifacts."""
    found = engine(DEFAULT_ENGINE).compiler
    assert isinstance(found, ArtifactCompiler)
    return found
