"""`linen.jit`: methods of modules compiled just in time.

The program of a call depends on what modules are (`content.py`), on the types of variables and
arguments, and on what may be written; not on instances, names, paths or keys. So equal blocks share
one trace. What differs between them comes with the call: numbers folded into keys are late operands
(`jit/late.py`), names and counts of draws are returned beside the arrays and taken over each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kiln.api.jit import check_overlap, chosen_device
from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.process.forks import new_lock
from kiln.base.source import current_source, name_of
from kiln.base.tree import register_pytree_node
from kiln.content.class_content import Unreadable
from kiln.content.fingerprint import content_of
from kiln.content.identity import identity_of_function
from kiln.jit.late import LateFunction, LateOperands, late_operands
from kiln.jit.placement_options import PlacementOptions
from kiln.jit.signatures.argument_binding import ArgumentBinding
from kiln.jit.signatures.argument_types import argument_names
from kiln.jit.signatures.explain import Naming
from kiln.jit.signatures.parameters import Chosen, choose, parameter_name
from kiln.jit.signatures.signature import static_keys
from kiln.linen.module import Module
from kiln.linen.scopes.context import context
from kiln.linen.scopes.filters import Filter, filter_key
from kiln.linen.scopes.rng import DrawCounts, Path
from kiln.linen.transforms.content import ModuleReading, value_digest
from kiln.linen.transforms.lift import Group, Lift, Roots, Target, state_of
from kiln.linen.transforms.lifted import Apply, chosen_methods, lift_target
from kiln.random.keys import fold_in

T = TypeVar("T")
_ARRAYS_FROM = 2
"""The parameter of a program from which on the user's arguments follow."""


class Spec:
    """What the program of a call depends on besides the types of its arrays.

    It holds nothing of the module, and so can only say that configurations differ, not how.
    """

    __slots__ = ("_hash", "_key", "_name")

    def __init__(self, name: str, key: Hashable) -> None:
        self._name = name
        self._key = key
        self._hash = hash(key)

    def __repr__(self) -> str:
        return f"{self._name} with configuration {self._hash & 0xFFFF:04x}"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._key == other._key


class LateKeys:
    """Keys in a program: the roots are operands, and so are the numbers folded into them."""

    __slots__ = ("_asked", "roots")

    def __init__(self, roots: Roots, asked: LateOperands) -> None:
        self.roots = roots
        self._asked = asked

    def __contains__(self, name: object) -> bool:
        return name in self.roots

    def number(self, name: str, path: Path, count: int) -> Any:
        """Return an operand for the number of a draw."""
        return self._asked.ask((name, path, count))

    def draw(self, name: str, path: Path, count: int) -> Any:
        """Return the key of a draw."""
        return fold_in(self.roots[name], self.number(name, path, count))


class LiftedMethod(LateFunction):
    """The compiled forms of one method; messages name the user's arguments."""

    __slots__ = ()

    def __init__(self, target: Target, settings: Settings) -> None:
        def run(variables: Group, roots: Roots, *values: Any) -> Any:
            asked = late_operands()
            return asked.supply.trace(asked, variables, roots, values)  # type: ignore[attr-defined]

        run.__name__ = run.__qualname__ = target.name
        # Messages say where the method is.
        run.__wrapped__ = target.fun  # type: ignore[attr-defined]
        static = settings.static.argnums

        def naming(args: Sequence[Any]) -> Naming:
            return _naming(run, target, static, args)

        super().__init__(run, placement=settings.placement, naming=naming)


def _naming(
    run: Callable[..., Any], target: Target, static: Sequence[int], args: Sequence[Any]
) -> Naming:
    named: dict[str, Any] = {}
    values = list(args[_ARRAYS_FROM:])
    hidden = ["variables", "rngs"]
    names = [
        prefix + path
        for prefix, value in zip(hidden, args[:_ARRAYS_FROM], strict=True)
        for path in _paths(value)
    ]
    if values and isinstance(values[-1], Keywords):
        named = dict(values.pop())
    every = range(1, len(values) + 1 + len(static))
    places = [i for i in every if i not in static][: len(values)]
    names += argument_names(target.fun, values, named, places)
    return Naming(run, [*hidden, *places, "keywords"], names)


def _paths(tree: Any) -> list[str]:
    def plain(*args: Any) -> None: ...

    return [n.removeprefix("args[0]") for n in argument_names(plain, (tree,), {}, (0,))]


class Keywords(dict[str, Any]):
    """The keyword arguments of a call, told apart from a dictionary passed by position."""


register_pytree_node(
    Keywords,
    lambda named: ([named[k] for k in sorted(named)], tuple(sorted(named))),
    lambda names, values: Keywords(zip(names, values, strict=True)),
)


class Settings:
    """The options of `linen.jit` for one method."""

    __slots__ = ("binding", "key", "numbers", "placement", "rngs", "static", "variables")

    def __init__(
        self,
        target: Target,
        variables: Filter,
        rngs: Filter,
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        device: Any,
        backend: str | None,
    ) -> None:
        fun = target.fun
        numbers, names = _given(static_argnums), _given(static_argnames)
        static = choose(fun, numbers, names, "static")
        donated = choose(fun, _that_exist(fun, _given(donate_argnums)), (), "donate")
        check_overlap(fun, _without_module(static), _without_module(donated))
        self.static = _without_module(static)
        self.numbers = self.static.argnums if numbers is not None else ()
        self.variables, self.rngs = variables, rngs
        where = chosen_device(fun, device, backend, None, None)
        shift = _ARRAYS_FROM - 1
        moved = [
            i - sum(s < i for s in self.static.argnums) + shift for i in donated.argnums if i > 0
        ]
        self.placement = PlacementOptions(Chosen(tuple(moved)), where)
        self.binding = ArgumentBinding(_innermost(fun), static, donated)
        self.key = (
            filter_key(variables),
            filter_key(rngs),
            self.static,
            self.numbers,
            donated,
            device,
            backend,
        )


def _given(option: Any) -> Any:
    if option is None or (isinstance(option, (tuple, list, set, frozenset, str)) and not option):
        return None
    return option


def _that_exist(fun: Callable[..., Any], donated: Any) -> Any:
    """Return the donated numbers without those beyond the arguments, which donate nothing."""
    numbers = (donated,) if isinstance(donated, int) else donated
    if not numbers or not all(isinstance(n, int) for n in numbers):
        return donated
    return tuple([n for n in numbers if n < 0 or _has(fun, n)])


def _without_module(chosen: Chosen) -> Chosen:
    if 0 not in chosen.argnums:
        return chosen
    return Chosen(tuple([i for i in chosen.argnums if i]), chosen.argnames)


def _innermost(fun: Any) -> Any:
    while hasattr(fun, "__wrapped__"):
        fun = fun.__wrapped__
    return fun


class _Call:
    """One call of a jitted method: what its program is recorded from, and its own numbers."""

    __slots__ = ("content", "lift", "named", "settings", "statics", "target")

    def __init__(
        self, target: Target, settings: Settings, lift: Lift, statics: Any, content: Hashable
    ) -> None:
        self.target = target
        self.settings = settings
        self.lift = lift
        self.statics: Mapping[int | str, Any] = statics
        self.content = content

    def values(self, recipes: Sequence[Any]) -> list[Any]:
        """Return the numbers of the draws of this call."""
        lift = self.lift
        found = []
        for name, path, count in recipes:
            before = lift.tops[int(path[0])].counts.at(path[1:]).drawn.get(name, 0)
            found.append(lift.number(name, path, before + count))
        return found

    def trace(
        self, asked: LateOperands, variables: Group, roots: Roots, values: tuple[Any, ...]
    ) -> tuple[Any, Any]:
        """Run the method on traced variables, keys and arguments."""
        if self.content is not None and _content(self.target.fun) != self.content:
            raise _StaleError
        lift, statics = self.lift, self.statics
        counts = [DrawCounts() for _ in lift.tops]
        application = lift.application(variables, LateKeys(roots, asked), self.settings.variables)

        def call(target: Target, module: Module, values: tuple[Any, ...]) -> Any:
            kwargs = {k: v for k, v in statics.items() if isinstance(k, str)}
            if values and isinstance(values[-1], Keywords):
                kwargs.update(values[-1])
                values = values[:-1]
            numbers = [i for i in statics if isinstance(i, int)]
            dynamic = iter(values)
            count = len(values) + len(numbers)
            args = [statics[i] if i in statics else next(dynamic) for i in range(1, count + 1)]
            return target.run(module, args, kwargs)

        result = lift.run(self.target, application, values, call, counts)
        draws = tuple([(i, draw) for i, c in enumerate(counts) for draw in c.items()])
        return (result, lift.written(application)), (lift.left, draws)


class _StaleError(Exception):
    """A function is no longer what it was when its program was chosen."""


class _Jitted:
    """Runs a jitted method; `program` holds its compiled forms."""

    __slots__ = ("content", "program", "settings", "target")

    def __init__(self, target: Target, settings: Settings, *, by_content: bool) -> None:
        self.target = target
        self.settings = settings
        self.content: Hashable = None
        self.program: LiftedMethod | None = None if by_content else LiftedMethod(target, settings)

    def __call__(
        self, target: Target, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not options().jit:
            return target.run(module, args, kwargs)
        settings = self.settings
        values = args
        statics: dict[int | str, Any] = {}
        if kwargs:
            spelled, kwargs = settings.binding.by_position((module, *args), kwargs)
            values = spelled[1:]
        if settings.static:
            values, kwargs, statics = self._split(values, kwargs)
        lift = Lift(module, (*values, Keywords(kwargs)) if kwargs else values)
        spec = self._spec(lift, statics)
        program = self.program
        if program is None:
            self.content = _content(target.fun)
            program = self.program = _program(self.content, target, settings)
        operands = (spec, lift.variables(settings.variables), lift.roots(settings.rngs))
        call = _Call(target, settings, lift, statics, self.content)
        try:
            (result, written), (left, draws) = program.call(call, *operands, *lift.values)
        except _StaleError:
            self.content, self.program = None, None
            self.program = LiftedMethod(target, settings)
            return self(target, module, args, kwargs)
        for top, (path, name, count) in draws:
            lift.tops[top].counts.add(path, name, count)
        lift.commit(written, left=left)
        return result

    def _split(
        self, values: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[int | str, Any]]:
        static, fun = self.settings.static, self.target.fun
        statics: dict[int | str, Any] = {}
        for i in static.argnums:
            if i <= len(values):
                statics[i] = values[i - 1]
            elif i in self.settings.numbers and parameter_name(fun, i) not in kwargs:
                raise ValueError(
                    three_lines(
                        f"call of the jitted {name_of(fun)} with {len(values)} positional "
                        f"arguments beside the module, at {current_source()}",
                        f"static_argnums names argument {i} ({parameter_name(fun, i)!r}; the "
                        "module is argument 0), which is not passed: there are fewer positional "
                        "arguments than static_argnums say",
                        f"pass {parameter_name(fun, i)!r}",
                    )
                )
        for name in static.argnames:
            if name in kwargs:
                statics[name] = kwargs[name]
        dynamic = tuple([x for i, x in enumerate(values, 1) if i not in statics])
        return dynamic, {k: v for k, v in kwargs.items() if k not in statics}, statics

    def _spec(self, lift: Lift, statics: dict[int | str, Any]) -> Spec:
        reading = ModuleReading(lift.place)
        fun = self.target.fun
        kept = static_keys(fun, statics.items()) if statics else ()
        try:
            modules: Hashable = (
                reading.module(lift.module),
                tuple(map(reading.read, lift.slots())),
                reading.read(context.capture),
                tuple(map(reading.read, context.interceptors)),
            )
        except Unreadable:
            modules = object()
        flags = lift.shared.flags
        return Spec(
            type(lift.module).__name__,
            (
                modules,
                identity_of_function(fun),
                state_of(lift.module),
                filter_key(lift.mutable),
                tuple(flags.items()) if flags else (),
                kept,
            ),
        )


def _content(fun: Callable[..., Any]) -> Hashable:
    """Return a key of the content of a function and the arrays it closes over, or None."""
    content = content_of(fun)
    if content is None:
        return None
    return (content.key, tuple([value_digest(x) for x in content.operands]))


_KEPT = 512
_programs: OrderedDict[Hashable, LiftedMethod] = OrderedDict()
_lock = new_lock()


def _program(content: Hashable, target: Target, settings: Settings) -> LiftedMethod:
    """Return the program of a function, shared with other functions of the same content."""
    if content is None:
        return LiftedMethod(target, settings)
    key = (content, target.name, target.is_compact, settings.key)
    with _lock:
        found = _programs.get(key)
        if found is None:
            found = _programs[key] = LiftedMethod(target, settings)
            if len(_programs) > _KEPT:
                _programs.popitem(last=False)
        _programs.move_to_end(key)
    return found


def jit(
    target: T,
    variables: Filter = True,
    rngs: Filter = True,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    device: Any = None,
    backend: str | None = None,
    methods: Any = None,
) -> T:
    """Compile methods of a module class, or a function of a module, just in time.

    `target` is a class, whose `methods` (by default `__call__`) are compiled in the subclass that
    is returned, or a function whose first argument is a module. Inside, only the collections
    selected by `variables` and the random streams selected by `rngs` are available. Static and
    donated arguments are counted with the module as argument 0; of several methods, each heeds
    those that it has. A call must pass all arguments that `static_argnums` names. The module draws
    the same random numbers as uncompiled.

    Modules of equal class and fields share programs, whatever their names and paths.

    Raises: TransformTargetError for other targets; AttributeError for unknown methods; ValueError
        for argument numbers and names that the function does not have.
    Source: the documentation of `flax.linen.jit`.
    Example:
        >>> Dense = linen.jit(linen.Dense)
        >>> Dense(2).init_with_output(random.key(0), jnp.ones(3))[0].shape
        (2,)
        >>> class Net(linen.Module):
        ...     @linen.jit
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.Dense(2)(x)
        >>> sorted(Net().init(random.key(0), jnp.ones(3))["params"])
        ['Dense_0']
    """
    given = {
        "variables": variables,
        "rngs": rngs,
        "static_argnums": _several(static_argnums),
        "static_argnames": _several(static_argnames),
        "donate_argnums": _several(donate_argnums),
        "device": device,
        "backend": backend,
    }
    cls: Any = target
    is_class = isinstance(cls, type) and issubclass(cls, Module)
    wanted = chosen_methods(methods) if is_class else {}
    funs = [Target(getattr(target, name)).fun for name in wanted]

    def make(method: Target, changed: dict[str, Any]) -> Apply:
        settings = Settings(method, **{**_arguments_of(method.fun, given, funs), **changed})
        return _Jitted(method, settings, by_content=not is_class)

    if not is_class:
        function: T = lift_target(target, make, "Jit")
        return function
    key = _class_key(cls, wanted, given)
    made: dict[Any, T] = vars(cls).get("_jitted") or {}
    found = made.get(key) if key is not None else None
    if found is None:
        found = lift_target(target, make, "Jit", methods)
        if key is not None:
            cls._jitted = {**made, key: found}
    return found


def _arguments_of(
    fun: Callable[..., Any], given: dict[str, Any], methods: Sequence[Callable[..., Any]]
) -> dict[str, Any]:
    """Return the options without arguments that this method does not have, but another one has."""

    def kept(argument: int | str) -> bool:
        return _has(fun, argument) or not any(_has(other, argument) for other in methods)

    found = dict(given)
    for option in ("static_argnums", "static_argnames", "donate_argnums"):
        value = given[option]
        if len(methods) > 1 and value is not None:
            several = (value,) if isinstance(value, (int, str)) else value
            found[option] = tuple(filter(kept, several))
    return found


def _has(fun: Callable[..., Any], argument: int | str) -> bool:
    numbers, names = (None, (argument,)) if isinstance(argument, str) else ((argument,), None)
    try:
        choose(fun, numbers, names, "static")
    except ValueError:
        return False
    return True


def _several(option: Any) -> Any:
    if isinstance(option, (str, int)) or option is None:
        return option
    return tuple(option) if isinstance(option, Iterable) else option


def _class_key(target: type, methods: dict[str, dict[str, Any]], given: dict[str, Any]) -> Any:
    """Return what tells the jitted forms of a class apart; None if it cannot be compared."""
    filters = (filter_key(given["variables"]), filter_key(given["rngs"]))
    rest = [(k, v) for k, v in given.items() if k not in ("variables", "rngs")]
    chosen = [(n, getattr(target, n, None), tuple(o.items())) for n, o in methods.items()]
    key = (filters, tuple(rest), tuple(chosen))
    try:
        hash(key)
    except TypeError:
        return None
    return key
