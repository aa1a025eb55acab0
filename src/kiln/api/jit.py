"""`jit`: read the user's options, return the jitted callable."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, overload

from kiln.api.arrays import devices
from kiln.api.jitted import Jitted
from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.lazy import named_axes
from kiln.base.options.config import override
from kiln.base.source import api_boundary, current_source, name_of
from kiln.core.engines.engine import CHECKS
from kiln.jit.compiler_options import Settings, merged, settings_of, threads_of
from kiln.jit.function import JitFunction
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions, shardings_of
from kiln.jit.signatures.parameters import NONE_CHOSEN, Chosen, choose
from kiln.ops.sharding import checked_device

P = ParamSpec("P")
R = TypeVar("R")
Numbers = int | Sequence[int] | None
Names = str | Sequence[str] | None


class UnspecifiedValue:
    """The default of options for which None has a meaning."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()


@overload
def jit(
    fun: Callable[P, R],
    /,
    *,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    static_argnums: Numbers = ...,
    static_argnames: Names = ...,
    donate_argnums: Numbers = ...,
    donate_argnames: Names = ...,
    keep_unused: bool = ...,
    device: Any = ...,
    backend: str | None = ...,
    inline: bool = ...,
    abstracted_axes: Any = ...,
    compiler_options: dict[str, Any] | None = ...,
    max_traces: int | None = ...,
    threads: int | None = ...,
    check: str | None = ...,
) -> Jitted[P, R]: ...


@overload
def jit(
    *,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    static_argnums: Numbers = ...,
    static_argnames: Names = ...,
    donate_argnums: Numbers = ...,
    donate_argnames: Names = ...,
    keep_unused: bool = ...,
    device: Any = ...,
    backend: str | None = ...,
    inline: bool = ...,
    abstracted_axes: Any = ...,
    compiler_options: dict[str, Any] | None = ...,
    max_traces: int | None = ...,
    threads: int | None = ...,
    check: str | None = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


@known_keywords
def jit(
    fun: Any = UNSPECIFIED,
    /,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    abstracted_axes: Any = None,
    compiler_options: dict[str, Any] | None = None,
    max_traces: int | None = None,
    threads: int | None = None,
    check: str | None = None,
) -> Any:
    """Compile a function just in time: return a callable with the same signature.

    Args:
        fun: the function. Its arguments and results are arrays, numbers, and trees of these; it is
            pure, since it runs in Python only while it is traced. Without it, return a decorator.
        static_argnums: positions of arguments that keep their Python values while tracing, such as
            flags and sizes. They are hashable; each value is compiled for itself.
        static_argnames: the same by name. Of one of the two, the other is inferred.
        donate_argnums: positions of arguments whose memory results may take. They are deleted.
        donate_argnames: the same by name.
        in_shardings, out_shardings: how arguments and results are sharded over devices: a sharding,
            or a tree of them for a part of the arguments; None leaves it to the program.
        keep_unused: keep arguments in the compiled program that it does not use.
        device, backend: where to run, if no argument says so; at most one of them.
        inline: splice the operations into a surrounding function instead of recording a call.
        abstracted_axes: names of axes whose sizes are not part of the signature, so that one trace
            serves all of them: for each argument (or once for all) a dict from axis to name, or a
            tuple of names. Axes with the same name have the same size.
        compiler_options: a dict of options of the compiler, of the outermost jitted function only.
        max_traces: raise an error instead of tracing more often than this.
        threads: the number of threads of programs for the first CPU device, instead of that of
            `set_num_threads`; with 1 they run on the calling thread. Results do not depend on it.
        check: "nan", "index" or "nan,index": compiled code raises FloatingPointError at the first
            nan, IndexError at the first index of a gather, scatter or dynamic slice that is out of
            bounds, naming the line, and the iteration of the loop around it.

    The function is traced and compiled once per signature of its arguments: structure, shapes,
    dtypes, weak types, and the values of static arguments. Later calls with the same signature run
    the compiled program. `kiln.explain_recompiles` says why a function was traced again.

    Raises: TypeError if `fun` is not callable, is a generator function, or cannot be weakly
        referenced; ValueError for argument numbers or names that `fun` does not have, and for
        `threads` below 1, another `check`, or either of a program not compiled for the host.
    Source: the documentation of `jax.jit`.
    Example:
        >>> @kiln.jit
        ... def norm(x):
        ...     return jnp.sqrt(jnp.sum(x * x))
        >>> norm(jnp.array([3.0, 4.0]))
        Array(5., dtype=float32)
        >>> power = kiln.jit(lambda x, n: x**n if n > 0 else x, static_argnames="n")
        >>> power(2.0, n=3)
        Array(8., dtype=float32, weak_type=True)
    """
    if fun is UNSPECIFIED:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
            abstracted_axes=abstracted_axes,
            compiler_options=compiler_options,
            max_traces=max_traces,
            threads=threads,
            check=check,
        )
    if check is not None:
        compiler_options = {**(compiler_options or {}), CHECKS: _checked_kinds(fun, check)}
    return wrap(
        fun,
        static_argnums,
        static_argnames,
        keep_unused=keep_unused,
        inline=inline,
        max_traces=max_traces,
        abstracted_axes=abstracted_axes,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        device=device,
        backend=backend,
        in_shardings=None if in_shardings is UNSPECIFIED else in_shardings,
        out_shardings=None if out_shardings is UNSPECIFIED else out_shardings,
        compiler_options=compiler_options,
        threads=threads,
    )


def _checked_kinds(fun: Any, check: Any) -> str:
    kinds = [kind.strip() for kind in check.split(",")] if isinstance(check, str) else [None]
    if not {"nan", "index"}.issuperset(kinds):
        raise ValueError(
            three_lines(
                f"jit({getattr(fun, '__name__', fun)!s}, check={check!r}) at {current_source()}",
                f"there is no such check: {check!r}",
                'use check="nan", check="index", or both: check="nan,index"',
            )
        )
    return ",".join(sorted(map(str, kinds)))


@api_boundary
def wrap(
    fun: Any,
    static_argnums: Any = None,
    static_argnames: Any = None,
    *,
    keep_unused: bool = False,
    inline: bool = False,
    static_result: bool = False,
    max_traces: int | None = None,
    abstracted_axes: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    device: Any = None,
    backend: str | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    compiler_options: dict[str, Any] | None = None,
    threads: int | None = None,
) -> JitFunction:
    """Return the jitted form of a function; `static_result` is for kiln's own callers.

    The other options are those of `kiln.jit`.
    Raises: TypeError for what is not callable, and for generator functions.
    """
    if not callable(fun):
        raise TypeError(
            three_lines(
                f"jit({fun!r}) at {current_source()}",
                f"Expected a callable value, got {fun!r}",
                "pass a function to jit",
            )
        )
    if is_generator_function(fun):
        raise TypeError(
            three_lines(
                f"jit({name_of(fun)}) at {current_source()}",
                "Expected a function, got a generator function: generators are not supported",
                "return a list or an array instead of yielding",
            )
        )
    if max_traces is not None and (isinstance(max_traces, bool) or not _is_positive(max_traces)):
        raise ValueError(
            three_lines(
                f"jit({name_of(fun)}, max_traces={max_traces!r}) at {current_source()}",
                "max_traces must be a positive int or None",
                "say how often the function may be traced, such as max_traces=1",
            )
        )
    static = choose(fun, static_argnums, static_argnames, "static")
    donated = choose(fun, donate_argnums, donate_argnames, "donate")
    if static is not NONE_CHOSEN and donated is not NONE_CHOSEN:
        check_overlap(fun, static, donated)
    placement = placement_options_of(fun, donated, device, backend, in_shardings, out_shardings)
    return JitFunction(
        fun,
        static,
        keep_unused=keep_unused,
        inline=inline,
        static_result=static_result,
        max_traces=max_traces,
        axes=None
        if abstracted_axes is None
        else named_axes.NamedAxes(fun, abstracted_axes, static),
        placement=placement,
        settings=()
        if compiler_options is None and threads is None
        else _settings_of(fun, compiler_options, threads),
    )


def _settings_of(
    fun: Any, compiler_options: dict[str, Any] | None, threads: int | None
) -> Settings:
    asked = f"jit({name_of(fun)}) at {current_source()}"
    return merged(settings_of(compiler_options, asked), threads_of(threads, asked))


def is_generator_function(fun: Any) -> bool:
    """Tell whether calls of a function return generators."""
    if type(fun) is types.FunctionType:
        return bool(fun.__code__.co_flags & inspect.CO_GENERATOR)
    return inspect.isgeneratorfunction(fun)


def placement_options_of(
    fun: Any, donated: Chosen, device: Any, backend: str | None, ins: Any, outs: Any
) -> PlacementOptions:
    """Check the options about memory and devices; `NO_PLACEMENT` if none is given.

    The options are those of `jit`: `donated` arguments, `device`, `backend`, and the shardings of
    inputs (`ins`) and outputs (`outs`).
    """
    has_place = not (device is None and backend is None and ins is None and outs is None)
    if donated is NONE_CHOSEN and not has_place:
        return NO_PLACEMENT
    ins, outs = shardings_of(ins, "in_shardings", fun), shardings_of(outs, "out_shardings", fun)
    return PlacementOptions(donated, chosen_device(fun, device, backend, ins, outs), ins, outs)


def _is_positive(number: Any) -> bool:
    return isinstance(number, int) and number > 0


def check_overlap(fun: Any, static: Chosen, donated: Chosen) -> None:
    """Raise ValueError if an argument is both static and donated."""
    numbers = sorted({*static.argnums} & {*donated.argnums})
    names = sorted({*static.argnames} & {*donated.argnames})
    if numbers or names:
        what = "argnames" if names else "argnums"
        raise ValueError(
            three_lines(
                f"jit of {name_of(fun)} with static and donated arguments at {current_source()}",
                f"static_{what} and donate_{what} cannot intersect, but both hold "
                f"{names or numbers}",
                "donate arrays only: a static argument has no memory to give",
            )
        )


def chosen_device(
    fun: Any, device: Any, backend: str | None, in_shardings: Any, out_shardings: Any
) -> Any:
    """Return the device that options name, or None.

    Raises: ValueError if they contradict each other.
    """
    if device is None and backend is None:
        return None
    asked = (
        f"jit of {name_of(fun)} with device={device!r}, backend={backend!r} at {current_source()}"
    )
    if device is not None and backend is not None:
        raise ValueError(
            three_lines(
                asked,
                "can't specify both a device and a backend for jit",
                "give the device alone: it knows its backend",
            )
        )
    if in_shardings is not None or out_shardings is not None:
        raise ValueError(
            three_lines(
                asked,
                "with a device or backend, in_shardings and out_shardings must not be given",
                "give the shardings alone: they know their devices",
            )
        )
    return devices(backend)[0] if device is None else checked_device(device, asked)


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Run jitted functions as plain Python until the context exits.

    Example:
        >>> with kiln.disable_jit():
        ...     y = kiln.jit(lambda x: x + 1)(2)
        >>> y
        3
        >>> with kiln.disable_jit():
        ...     kiln.jit(lambda x: x if x > 0 else -x)(-3)
        3
    """
    return override(jit=not disable)
