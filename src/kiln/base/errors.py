"""The errors kiln raises: one class per user mistake, with the base classes users catch.

Every message has three parts, built by `three_lines`: what was requested (names, shapes, the user's
file:line), what is wrong, and what to write instead.
"""

from __future__ import annotations

from typing import Any

from kiln import _runtime


def three_lines(asked: str, wrong: str, remedy: str) -> str:
    """Join the three parts of an error message."""
    return f"{asked}\n{wrong}\n{remedy}"


def one_line(error: object) -> str:
    """Return the text of an error on one line, to be quoted in another error."""
    return "; ".join(filter(None, str(error).splitlines()))


class JAXTypeError(TypeError):
    """A value of the wrong kind was passed to a transformation."""


class JAXIndexError(IndexError):
    """An index that a traced program cannot use."""


class JaxRuntimeError(RuntimeError):
    """A program failed during compilation or execution."""


class OutOfMemoryError(JaxRuntimeError, MemoryError):
    """A program or an array needs more memory than there is."""


_runtime.set_out_of_memory_error(OutOfMemoryError)


class PeerError(JaxRuntimeError):
    """Another process of the program has ended, does not answer, or runs a different program."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where its concrete value is needed."""


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a Python truth value."""


class TracerArrayConversionError(JAXTypeError):
    """A traced value was passed to a NumPy function."""


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as a Python index."""


class UnexpectedTracerError(JAXTypeError):
    """A tracer outlived the transformation that made it."""


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask would give a result of unknown shape."""


class MaskedArrayError(TypeError, ValueError):
    """A masked array was passed where an array is expected, which would drop the mask."""


class MissingRule(NotImplementedError):
    """A primitive lacks a rule that is needed."""


class MissingEngine(ImportError):
    """An engine was asked for whose library is not installed."""


class SlowProgramWarning(UserWarning):
    """A program is interpreted, because no installed engine compiles all of it."""


class UnsupportedPrimitive(NotImplementedError):
    """An engine has no lowering for a primitive, and the primitive has no `expand`."""


class JaxprTypeError(TypeError):
    """A program is not well typed."""


class CheckError(AssertionError, JaxprTypeError):
    """A program violates an invariant of the intermediate representation."""


class UnfilteredStackTrace(Exception):
    """An error's whole traceback: its cause under `jax_traceback_filtering="remove_frames"`."""


class CheckifyError(ValueError):
    """A check inside a program failed: base class of the classes below."""


class FailedCheckError(CheckifyError):
    """A user-defined `check` failed."""


class NaNError(CheckifyError):
    """An operation had a nan among its results."""


class DivisionByZeroError(CheckifyError):
    """A divisor was zero."""


class OOBError(CheckifyError):
    """An index was out of bounds."""


class JaxValueError(ValueError):
    """An error that a program recorded while it ran, by `error_check.set_error_if`."""


class TypePromotionError(TypeError, ValueError):
    """Operands whose dtypes have no common dtype."""


class ShardingTypeError(Exception):
    """The types of operands do not determine how a result is sharded."""


class CheckpointError(ValueError):
    """A checkpoint that does not fit what it is restored to, or cannot be written."""


class CorruptCheckpointError(CheckpointError):
    """A checkpoint whose bytes are not those that were written."""


class InconclusiveSizeError(Exception):
    """A question about named sizes has no single answer.

    Not a TypeError: Python and NumPy replace TypeErrors raised by conversions to ints with less
    clear ones.
    """


InconclusiveDimensionOperation = InconclusiveSizeError


class KeyReuseError(RuntimeError):
    """A random key was used twice: found with the option `debug_key_reuse`."""

    reused: Any = None
    """The key, as represented by `ir/analysis/key_uses.py`."""


class RecompilationError(RuntimeError):
    """A function was traced more often than its `max_traces` allows."""


class RecompilationWarning(UserWarning):
    """A function is traced repeatedly."""


class UnavailableOptionError(NotImplementedError):
    """A documented option that this version does not offer yet."""
