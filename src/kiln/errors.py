"""The errors that users catch."""

from kiln.base.errors import (
    ConcretizationTypeError,
    InconclusiveSizeError,
    JAXIndexError,
    JaxRuntimeError,
    JAXTypeError,
    MissingRule,
    NonConcreteBooleanIndexError,
    OutOfMemoryError,
    RecompilationError,
    RecompilationWarning,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnavailableOptionError,
    UnexpectedTracerError,
    UnsupportedPrimitive,
)

__all__ = [
    "ConcretizationTypeError",
    "InconclusiveSizeError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "MissingRule",
    "NonConcreteBooleanIndexError",
    "OutOfMemoryError",
    "RecompilationError",
    "RecompilationWarning",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnavailableOptionError",
    "UnexpectedTracerError",
    "UnsupportedPrimitive",
]
