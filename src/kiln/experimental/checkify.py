"""Checks of values inside programs, reported as values.

`checkify(f)` is `f` that also returns an `Error`: which check inside it failed first, if any.
Checks are those of the user (`check`), and automatic ones: for nans, divisions by zero, and indices
out of bounds. They work in jitted functions, in loops and branches, and under `vmap` and `grad`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kiln import numpy as jnp
from kiln.base.errors import (
    CheckifyError,
    DivisionByZeroError,
    FailedCheckError,
    NaNError,
    OOBError,
    three_lines,
)
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.options.config import options, override
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import register_pytree_node_class, tree_flatten, tree_unflatten
from kiln.control.effects.check import check, check_p
from kiln.control.effects.functional_checks import Report, report_of, run_with_checks
from kiln.control.references.discharge import run_discharged
from kiln.control.regions.arguments import FlatFunction, is_array
from kiln.control.regions.held_refs import held
from kiln.core.staging import stage_region
from kiln.core.trace import Tracer, aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ops.elements.elementwise import eq

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]

P = ParamSpec("P")
R = TypeVar("R")

ErrorCategory = type[CheckifyError]
JaxRuntimeError = CheckifyError

user_checks: frozenset[ErrorCategory] = frozenset({FailedCheckError})
nan_checks: frozenset[ErrorCategory] = frozenset({NaNError})
index_checks: frozenset[ErrorCategory] = frozenset({OOBError})
div_checks: frozenset[ErrorCategory] = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


@register_pytree_node_class
class Error:
    """The first failed check of a program, if any; a pytree of arrays.

    Under `vmap` it holds one error per element.
    """

    def __init__(self, report: Report, state: Iterable[Any]) -> None:
        self._report = report
        self._state = tuple(state)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Report]:
        """Return the arrays, and their meaning."""
        return self._state, self._report

    @classmethod
    def tree_unflatten(cls, report: Report, state: Iterable[Any]) -> Error:
        """Build an error from arrays."""
        return cls(report, state)

    @api_boundary
    def get(self) -> str | None:
        """Return the message of the failed check, or None; for several errors, one line each."""
        error = self.get_exception()
        return None if error is None else str(error)

    @api_boundary
    def get_exception(self) -> CheckifyError | None:
        """Return the exception of the failed check, or None.

        Raises: ValueError while the error is traced.
        """
        if any(isinstance(x, Tracer) for x in self._state):
            raise ValueError(
                three_lines(
                    f"the text of a checkify.Error at {current_source()}",
                    "the error is traced: only a run of the program shows whether a check failed",
                    "return the error from the jitted function, or raise it with "
                    "checkify.check_error",
                )
            )
        code, *values = [np.asarray(x) for x in self._state] or [np.zeros((), np.int32)]
        failed = [tuple(map(int, place)) for place in np.argwhere(code)]
        if not failed:
            return None
        errors = [self._error_at(place, code, values) for place in failed]
        if not code.shape:
            return errors[0]
        lines = [
            f"at mapped index {', '.join(map(str, place))}: {error}"
            for place, error in zip(failed, errors, strict=True)
        ]
        return type(errors[0])("\n".join(lines))

    def _error_at(self, place: Any, code: Any, values: list[Any]) -> CheckifyError:
        message, types = self._report.checks[int(code[place]) - 1]
        slots = self._report.place(types)
        return message.error([x[place] for x in values[slots.start - 1 : slots.stop - 1]])

    @api_boundary
    def throw(self) -> None:
        """Raise the exception of the failed check, if any; under `checkify`, propagate it."""
        check_error(self)

    def __str__(self) -> str:
        if any(isinstance(x, Tracer) for x in self._state):
            return "Error(traced)"
        return f"Error({self.get()})"

    __repr__ = __str__


init_error = Error(Report(()), (np.zeros((), np.int32),))


def checkify(
    f: Callable[P, R], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[P, tuple[Error, R]]:
    """Return a function that returns an `Error` and the result of `f`.

    `errors` is the set of enabled categories: `user_checks`, `nan_checks`, `index_checks`,
    `div_checks`, their unions `float_checks`, `automatic_checks`, `all_checks`, or others formed
    with `|`. The error is that of the first check that failed at run time.

    Raises: TypeError if `f` is not callable, or `errors` is not a set of categories.
    Source: the documentation of `jax.experimental.checkify.checkify`.
    Example:
        >>> def f(x):
        ...     checkify.check(x > 0, "x is {}", x)
        ...     return x * 2
        >>> error, out = kiln.jit(checkify.checkify(f))(3.0)
        >>> print(error.get(), float(out))
        None 6.0
    """
    if not callable(f):
        raise TypeError(
            three_lines(
                f"checkify at {current_source()}",
                f"Expected a callable value, got {f!r:.60}",
                "write checkify(function, errors=...)",
            )
        )
    categories = _categories(errors)

    @functools.wraps(f)
    @api_boundary
    def checked(*args: P.args, **kwargs: P.kwargs) -> tuple[Error, R]:
        given, in_tree = tree_flatten(held((args, kwargs)))
        # Python numbers and non-array values stay concrete: Python branches may depend on them.
        leaves = [x for x in given if _is_traced(x)]
        flat = FlatFunction(_applied(f), in_tree, ())

        def of_arrays(*arrays: Any) -> list[Any]:
            each = iter(arrays)
            return flat(*[next(each) if _is_traced(x) else x for x in given])

        automatic = bool(categories - user_checks) or options().checks_operations
        with override(checks_operations=automatic):
            jaxpr, consts = stage_region(
                of_arrays,
                [aval_of(x) for x in leaves],
                name=name_of(f),
                definition=definition_of(f),
                purpose="checkify",
            )
        found: list[Error] = []

        def run(program: Jaxpr, xs: Sequence[Any]) -> list[Any]:
            report = report_of(program, categories)
            state, outs = run_with_checks(program, report, categories, report.passed(), xs)
            found.append(Error(report, state))
            return outs

        outs = run_discharged(jaxpr, [*consts, *leaves], run)
        return found[0], tree_unflatten(flat.structure, outs)

    return checked


def _is_traced(x: Any) -> bool:
    return is_array(x) and type(x) not in (bool, int, float, complex)


def _applied(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def applied(args: Any, kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return applied


def _categories(errors: Any) -> frozenset[ErrorCategory]:
    try:
        found = frozenset(errors)
        wrong = [x for x in found if not (isinstance(x, type) and issubclass(x, CheckifyError))]
    except TypeError:
        wrong = [errors]
    if wrong:
        raise TypeError(
            three_lines(
                f"checkify with errors={errors!r:.60} at {current_source()}",
                f"{wrong[0]!r:.60} is not a category of errors",
                "use checkify.user_checks, checkify.all_checks, or a union of such sets",
            )
        )
    return found


@api_boundary
def check_error(error: Error) -> None:
    """Raise the error if there is one, like `check` at this place.

    Raises: the exception of the check that failed, a ValueError; TypeError if it is not an `Error`.
    Source: the documentation of `jax.experimental.checkify.check_error`.
    """
    if not isinstance(error, Error):
        raise TypeError(
            three_lines(
                f"check_error of {error!r:.60} at {current_source()}",
                f"a {type(error).__name__} is not an Error",
                "pass the first result of a function returned by checkify",
            )
        )
    state, report = error.tree_flatten()
    if not any(isinstance(x, Tracer) for x in state):
        found = error.get_exception()
        if found is None:
            return
        if np.shape(state[0]):
            raise found
    elif 0 in state[0].shape:
        return
    elif state[0].ndim:
        state = _first(state)
    for number, (message, types) in enumerate(report.checks, 1):
        values = state[report.place(types)]
        check_p.bind(eq(state[0], np.int32(number)), *values, message=message, debug=False)


def _first(stacks: Sequence[Any]) -> tuple[Any, ...]:
    """Return the first state with an error from a stack of states, or any if none has one."""
    lead = stacks[0].ndim
    flat = [jnp.reshape(x, (-1, *x.shape[lead:])) for x in stacks]
    return tuple([x[jnp.argmax(flat[0] != 0)] for x in flat])


@api_boundary
def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Check like `check`, but only under `checkify`; elsewhere do nothing.

    Source: the documentation of `jax.experimental.checkify.debug_check`.
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


_suggest_names(globals())
