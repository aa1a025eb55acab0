"""Options: one frozen dataclass, read from the environment, changed globally or per thread.

`options()` is what the rest of kiln reads. A field marked `in_key` affects generated programs, so
it is part of every cache key. The environment variable of a field is `KILN_` + its name in
capitals; the `jax_...` spellings of `config.update` map onto fields through `ALIASES`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.lazy import difflib
from kiln.base.options.jax_options import FOREIGN
from kiln.base.options.names import ALIASES, TRANSFER_GUARDS, check_foreign, checked
from kiln.base.records import Record, metadata_of, replaced
from kiln.base.source import current_source


def _metadata(default: Any, *, in_key: bool = False, kind: type | None = None) -> dict[str, Any]:
    return {"in_key": in_key, "kind": kind or type(default)}


def _option(default: Any, *, in_key: bool = False, kind: type | None = None) -> Any:
    return dataclasses.field(default=default, metadata=_metadata(default, in_key=in_key, kind=kind))


ERRORS_NOTED: list[Options] = []
"""Options that make functions of `kiln.numpy` record errors: empty until one is set.

While it is empty these functions do not read the options, which would slow them down.
"""


class Options(Record):
    """All options and their defaults."""

    enable_x64: bool = _option(False, in_key=True)
    default_matmul_precision: str | None = _option(None, in_key=True)
    numpy_dtype_promotion: str = _option("standard", in_key=True)
    numpy_rank_promotion: str = _option("allow", in_key=True)
    threefry_partitionable: bool = _option(False, in_key=True)
    default_prng_impl: str = _option("threefry2x32", in_key=True)
    enable_custom_prng: bool = _option(False, in_key=True)
    engine: str | None = _option(None, in_key=True)
    batch_invariant: bool = _option(False, in_key=True)
    debug_nans: bool = _option(False, in_key=True)
    debug_infs: bool = _option(False, in_key=True)
    debug_key_reuse: bool = _option(False)
    check_tracer_leaks: bool = _option(False, in_key=True)
    profile: bool = _option(False, in_key=True)
    code_generator: str = _option("auto", in_key=True)
    perf: bool = _option(False)
    gdb: bool = _option(False, in_key=True)
    jit: bool = _option(True)
    content: bool = _option(True)
    python_call: bool = _option(False)
    check: bool = _option(False)
    dump: str = _option("")
    dump_only: str = _option("")
    dump_dir: str = _option("")
    explain: bool = _option(False)
    log_compiles: bool = _option(False)
    progress: bool = _option(True)
    full_traceback: bool = _option(False)
    traceback_filtering: str = _option("auto")
    num_cpu_devices: int | None = _option(None, kind=int)
    num_threads: int | None = _option(None, kind=int)
    trace_warning: int = _option(10)
    executable_cache_mb: int | None = _option(None, kind=int)
    eager_cache_mb: int = _option(32)
    body_cache_mb: int = _option(32)
    cache_dir: str = _option("auto")
    disk_cache: bool = _option(True)
    disk_cache_mb: int = _option(1024)
    collective_timeout: int = _option(0)
    """Seconds after which a program of several processes has failed; without limit if 0."""
    straggler_seconds: float = _option(0.0)
    """A process that is this late for a program of several processes is reported; none if 0."""
    share_compiled: bool = _option(True)
    share_compiled_timeout: int = _option(1200)
    """Seconds for which a process waits for a program that another one compiles."""
    trace_cache_mb: int = _option(32)
    default_device: Any = dataclasses.field(default=None, metadata=_metadata(None))
    mesh: Any = dataclasses.field(default=None, metadata=_metadata(None, in_key=True))
    default_mesh: Any = dataclasses.field(default=None, metadata=_metadata(None, in_key=True))
    """The mesh of several devices for programs none of whose arguments were placed."""
    legacy_prng_key: str = _option("allow")
    no_tracing: bool = _option(False)
    no_execution: bool = _option(False)
    thread_guard: int | None = _option(None, kind=int)
    """The only thread that may run programs of several processes, by its `threading.get_ident`."""
    random_seed_offset: int = _option(0, in_key=True)
    high_dynamic_range_gumbel: bool = _option(False, in_key=True)
    allow_f16_reductions: bool = _option(True, in_key=True)
    check_static_indices: bool = _option(False, in_key=True)
    explicit_x64_dtypes: str = _option("warn", in_key=True)
    transfer_guard: str | None = _option(None, kind=str)
    transfer_guard_host_to_device: str | None = _option(None, kind=str)
    transfer_guard_device_to_device: str | None = _option(None, kind=str)
    transfer_guard_device_to_host: str | None = _option(None, kind=str)
    logical_axis_rules: Any = dataclasses.field(default=(), metadata=_metadata((), in_key=True))
    user_contexts: Any = dataclasses.field(default=(), metadata=_metadata((), in_key=True))
    error_checking_behavior_nan: str = _option("ignore", in_key=True)
    error_checking_behavior_divide: str = _option("ignore", in_key=True)
    error_checking_behavior_oob: str = _option("ignore", in_key=True)
    error_state: Any = dataclasses.field(default=None, metadata=_metadata(None, in_key=True))
    """The separate record for errors that programs note, if not the common one."""
    checks_operations: bool = _option(False, in_key=True)
    """Whether the results of operations are checked, by `checkify` or by the compiled code."""
    guards_transfers: bool = dataclasses.field(init=False, repr=False, default=False)
    """Whether transfers to devices, or between them, are logged or refused."""
    guards_execution: bool = dataclasses.field(init=False, repr=False, default=False)
    """Whether programs may not run, at all or on other threads."""
    plain_places: bool = dataclasses.field(init=False, repr=False, default=True)
    """Whether new arrays are on the first device, and neither transfers nor execution guarded."""
    plain: bool = dataclasses.field(init=False, repr=False, default=True)
    """Whether jitted functions are compiled, with default placement."""
    checks_values: bool = dataclasses.field(init=False, repr=False, default=False)
    """Whether results are checked for nans or infinities, or keys for reuse."""
    notes_errors: bool = dataclasses.field(init=False, repr=False, default=False)
    """Whether functions of `kiln.numpy` record some category of errors."""
    checks_calls: bool = dataclasses.field(init=False, repr=False, default=False)
    """Whether calls of compiled programs check arguments, results, or permission to run."""
    remembers_calls: bool = dataclasses.field(init=False, repr=False, default=True)
    """Whether the runtime handles calls of jitted functions like those it remembers."""
    plain_eager: bool = dataclasses.field(init=False, repr=False, default=True)
    """Whether operators run eagerly in memory, with no check of the results."""

    def key(self) -> tuple[Any, ...]:
        """Return the values of the options that affect programs."""
        return self._key  # type: ignore[attr-defined, no-any-return]

    def __post_init__(self) -> None:
        key = tuple(getattr(self, name) for name in _IN_KEY) if _IN_KEY else ()
        object.__setattr__(self, "_key", key)
        # Transfers to the host are not guarded: on the CPU there are none.
        levels = (self.transfer_guard_host_to_device, self.transfer_guard_device_to_device)
        guards = any(level not in (None, "allow") for level in levels)
        object.__setattr__(self, "guards_transfers", guards)
        guarded = self.no_execution or self.thread_guard is not None
        object.__setattr__(self, "guards_execution", guarded)
        plain = self.default_device is None and not guards and not guarded
        object.__setattr__(self, "plain", self.jit and plain)
        plain = plain and self.default_mesh is None
        object.__setattr__(self, "plain_places", plain)
        checks = self.debug_nans or self.debug_infs or self.debug_key_reuse
        object.__setattr__(self, "checks_values", checks)
        behavior = (
            self.error_checking_behavior_nan,
            self.error_checking_behavior_divide,
            self.error_checking_behavior_oob,
        )
        object.__setattr__(self, "notes_errors", behavior != ("ignore",) * 3)
        if self.notes_errors and not ERRORS_NOTED:
            ERRORS_NOTED.append(self)
        object.__setattr__(self, "checks_calls", self.checks_values or guards or guarded)
        remembers = self.plain and not self.checks_values and not self.python_call
        object.__setattr__(self, "remembers_calls", remembers)
        plain = not self.checks_values and self.engine is None and self.plain_places
        plain = plain and not self.batch_invariant and not self.check_static_indices
        plain = plain and not self.notes_errors
        object.__setattr__(self, "plain_eager", plain)
        object.__setattr__(self, "_hash", None)

    def __hash__(self) -> int:
        # It runs whenever a function's content is computed.
        if self._hash is None:  # type: ignore[attr-defined]
            values = tuple([getattr(self, name) for name in _TYPES])
            object.__setattr__(self, "_hash", hash(values))
        return self._hash  # type: ignore[attr-defined, no-any-return]


_IN_KEY: tuple[str, ...] = ()
_FIELDS = metadata_of(Options)
_IN_KEY = tuple([name for name, field in _FIELDS.items() if field["in_key"]])
_TYPES: dict[str, type] = {name: field["kind"] for name, field in _FIELDS.items()}


def _parse(name: str, text: str) -> Any:
    kind = _TYPES[name]
    if kind is bool:
        return text.strip().lower() in ("1", "true", "yes", "on")
    if kind in (int, float):
        return kind(text)
    return text or None if kind is type(None) else text


def changes_of(name: str, value: Any) -> dict[str, Any]:
    """Return the fields that change with an option: `transfer_guard` sets all directions."""
    return dict.fromkeys(TRANSFER_GUARDS if name == "transfer_guard" else (name,), value)


def _from_environment() -> Options:
    found = {}
    for name in _TYPES:
        text = os.environ.get("KILN_" + name.upper())
        if text is not None:
            found[name] = _parse(name, text)
    given = {name: checked(name, value) for name, value in found.items()}
    if "transfer_guard" in given:
        given.update(changes_of("transfer_guard", given["transfer_guard"]))
    return Options(**given)


def _known() -> list[str]:
    return sorted([*_TYPES, *ALIASES, *FOREIGN])


def _unknown(what: str, name: str) -> AttributeError:
    known = _known()
    close = difflib.get_close_matches(name, known, 3)
    use = f"did you mean {' or '.join(close)}? " if close else ""
    return AttributeError(
        three_lines(
            f"{what} at {current_source()}",
            f"there is no option named {name!r}",
            f"{use}use one of: {', '.join(known)}",
        )
    )


def _resolve(name: str, value: Any) -> tuple[str, Any]:
    if name in ALIASES:
        alias = ALIASES[name]
        return alias.field, checked(alias.field, alias.from_jax(value))
    if name in _TYPES:
        return name, checked(name, value)
    raise _unknown(f"config.update({name!r}, {value!r})", name)


MERGED = 64
"""The number of combinations of changed options whose objects are cached."""

_merged: dict[Any, tuple[Options, Options]] = {}


def _changed(base: Options, changes: dict[str, Any]) -> Options:
    """Return options with changes, the same object for the same changes.

    Results are cached by the current object, so that `with` in a loop does not create one each
    time.
    """
    key = (id(base), *((name, type(value), value) for name, value in changes.items()))
    try:
        found = _merged.get(key)
    except TypeError:
        return replaced(base, changes)
    # The id may be reused: its former options may no longer exist.
    if found is not None and found[0] is base:
        return found[1]
    made = replaced(base, changes)
    if len(_merged) >= MERGED:
        _merged.clear()
    _merged[key] = base, made
    return made


_settled: dict[str, str] = {}


def base_options() -> Options:
    """Return the options of threads that override none."""
    return _base


def _set_base(base: Options) -> None:
    global _base
    _base = base
    _runtime.set_base_options(base)
    _runtime.limit_threads(base.num_threads or 0)


_base: Options
_set_base(_from_environment())
_runtime.set_merge(_changed)


def settle(name: str, why: str) -> None:
    """Freeze an option, because something was built with it."""
    _settled[name] = why


def is_settled(name: str) -> bool:
    """Tell whether an option can no longer be changed."""
    return name in _settled


options: Callable[[], Options] = _runtime.options
"""Return the current options of this thread."""


class override(_runtime.Override, contextlib.ContextDecorator):
    """Change options on this thread until the context ends.

    Entering and leaving are atomic with respect to signal handlers: if one raises, either the
    options are unchanged, or the `with` statement restores them.
    """


def options_of_key(key: tuple[Any, ...]) -> dict[str, Any]:
    """Return the options for which `options().key() == key`."""
    return dict(zip(_IN_KEY, key, strict=True))


_foreign: dict[str, Any] = {}
"""The values of options that have no effect here."""


class Config:
    """The public `kiln.config`: read options as attributes, change them with `update`."""

    def update(self, name: str, value: Any) -> None:
        """Set an option for every thread.

        Raises: AttributeError for an unknown name, ValueError for an invalid value,
            UnavailableOptionError for a JAX option that kiln does not have.
        """
        if name in FOREIGN:
            if check_foreign(name, value):
                _foreign[name] = value
            return
        field, value = _resolve(name, value)
        if field in _settled and value != getattr(_base, field):
            raise RuntimeError(
                f"config.update({name!r}, {value!r}) at {current_source()}\n{_settled[field]}: "
                f"{name} config should be updated before backends are initialized\n"
                f"update it at the start of the program, or set KILN_{field.upper()}"
            )
        _set_base(_changed(_base, changes_of(field, value)))

    def parse_flags_with_absl(self) -> None:
        """Give absl's flags their defaults, if the program uses them and nothing has parsed them.

        They do not affect options, which come from the environment, or `update`.
        """
        absl = sys.modules.get("absl.flags")
        if absl is not None and not absl.FLAGS.is_parsed():
            absl.FLAGS([""], known_only=True)

    def config_with_absl(self) -> None:
        """Accept the call: kiln has no flags."""

    def read(self, name: str) -> Any:
        """Return the current value on this thread."""
        return getattr(self, name)

    @property
    def values(self) -> dict[str, Any]:
        """All options on this thread, those of kiln by their names, those of jax by jax's."""
        return {name: getattr(self, name) for name in _known()}

    @property
    def x64_enabled(self) -> bool:
        """Whether there are 64-bit types on this thread."""
        return options().enable_x64

    def __getattr__(self, name: str) -> Any:
        if name in ALIASES:
            alias = ALIASES[name]
            return alias.to_jax(getattr(options(), alias.field))
        if name in _TYPES:
            return getattr(options(), name)
        if name in FOREIGN:
            return _foreign.get(name, FOREIGN[name].values[0])
        raise _unknown(f"config.{name}", name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            three_lines(
                f"config.{name} = {value!r:.80} at {current_source()}",
                "options are not set by assignment",
                f"write config.update({name!r}, {value!r:.80})",
            )
        )


config = Config()
