"""A module's methods as pure functions of variables and keys: what users call from outside."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.base.source import api_boundary
from kiln.linen.errors import InvalidInstanceModuleError
from kiln.linen.module import application
from kiln.linen.module.application import Capture
from kiln.linen.module.lazy import lazily
from kiln.linen.scopes.filters import NOT_INTERMEDIATES, CollectionFilter
from kiln.linen.summary import tabulate
from kiln.linen.summary.recording import paths_of

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def _check(module: Any, method: str) -> None:
    if not isinstance(module, PureFunctions):
        raise InvalidInstanceModuleError(method)


class PureFunctions:
    """The methods of a module that bind a copy, run it, and return its result and variables."""

    @api_boundary
    def apply(
        self,
        variables: Any,
        *args: Any,
        rngs: Any = None,
        method: Any = None,
        mutable: CollectionFilter = False,
        capture_intermediates: Capture = False,
        **kwargs: Any,
    ) -> Any:
        """Run a method with variables and keys.

        Returns its result, or, unless `mutable` is False, a pair of it and the mutable collections.
        """
        _check(self, "apply")
        fun = application.method_of(self, method)
        return application.run_applied(
            fun, self, variables, rngs, mutable, capture_intermediates, args, kwargs
        )

    @api_boundary
    def init_with_output(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: CollectionFilter = NOT_INTERMEDIATES,
        capture_intermediates: Capture = False,
        **kwargs: Any,
    ) -> Any:
        """Run a method, creating its variables; return its result and the variables."""
        _check(self, "init_with_output")
        fun = application.method_of(self, method)
        return application.run_initialized(
            fun, self, rngs, mutable, capture_intermediates, args, kwargs
        )

    @api_boundary
    def init(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: CollectionFilter = NOT_INTERMEDIATES,
        capture_intermediates: Capture = False,
        **kwargs: Any,
    ) -> Any:
        """Create the variables that a method needs; a single key is that of the parameters."""
        _check(self, "init")
        fun = application.method_of(self, method)
        return application.run_initialized(
            fun, self, rngs, mutable, capture_intermediates, args, kwargs
        )[1]

    @api_boundary
    def lazy_init(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: CollectionFilter = NOT_INTERMEDIATES,
        **kwargs: Any,
    ) -> Any:
        """Create the variables of a method whose arguments may be ShapeDtypeStructs.

        Raises: LazyInitError if a variable depends on the values of such an argument.
        """
        _check(self, "lazy_init")

        def init(*args: Any, **kwargs: Any) -> Any:
            return self.init(*args, method=method, mutable=mutable, **kwargs)

        return lazily(init, (rngs, *args), kwargs)

    def module_paths(
        self,
        rngs: Any,
        *args: Any,
        show_repeated: bool = False,
        mutable: CollectionFilter = NOT_INTERMEDIATES,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the modules that an init calls, by path: names joined by `/`."""
        return paths_of(lambda: self.init(rngs, *args, mutable=mutable, **kwargs), show_repeated)

    def tabulate(
        self,
        rngs: Any,
        *args: Any,
        depth: int | None = None,
        show_repeated: bool = False,
        mutable: CollectionFilter = NOT_INTERMEDIATES,
        console_kwargs: Mapping[str, Any] | None = None,
        table_kwargs: Mapping[str, Any] = _NO_OPTIONS,
        column_kwargs: Mapping[str, Any] = _NO_OPTIONS,
        compute_flops: bool = False,
        compute_vjp_flops: bool = False,
        **kwargs: Any,
    ) -> str:
        """Return a table of the modules that an init calls: types, variables, their sizes.

        `depth` limits the length of the paths; options are passed to rich's Console, Table and
        columns.
        """
        table = tabulate(
            self,
            rngs,
            depth=depth,
            show_repeated=show_repeated,
            mutable=mutable,
            console_kwargs=console_kwargs,
            table_kwargs=table_kwargs,
            column_kwargs=column_kwargs,
            compute_flops=compute_flops,
            compute_vjp_flops=compute_vjp_flops,
        )
        return table(*args, **kwargs)
