"""`Ref`: a reference, which holds an array that changes.

A reference belongs to the trace it was made under. While a program is recorded by that trace, the
reference is a variable of the program; under all others it has a `content`: the array it holds now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kiln.base.errors import UnexpectedTracerError, three_lines
from kiln.base.source import Source, current_source
from kiln.ir.ref_type import AbstractRef
from kiln.ir.sizes.size import Dim
from kiln.ir.types import Shape, ShapedArray

Get = Callable[[Any, Any], Any]
Set = Callable[[Any, Any, Any], None]
_get: Get
_set: Set
_add: Set
_view: Get


def set_ref_access(get: Get, set: Set, add: Set, view: Get) -> None:
    """Install the functions that read, write, add to, and view, a part of a reference."""
    global _get, _set, _add, _view
    _get, _set, _add, _view = get, set, add, view


class _Referring:
    """What references and views of their parts share: both are read and written by index."""

    __slots__ = ()

    aval: AbstractRef | ShapedArray

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of the array."""
        return self.aval.ndim

    @property
    def size(self) -> Dim:
        """The number of elements of the array."""
        return self.aval.size

    @property
    def at(self) -> ViewMaker:
        """What makes views: `ref.at[index]` is read and written like a reference to that part."""
        return ViewMaker(self)

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        """Add to a part of the array."""
        _add(self, idx, x)

    def get(self, idx: Any = ()) -> Any:
        """Return a part of the array; by default all of it."""
        return _get(self, idx)

    def set(self, value: Any, idx: Any = ()) -> None:
        """Replace a part of the array; by default all of it."""
        _set(self, idx, value)

    def swap(self, value: Any, idx: Any = ()) -> Any:
        """Replace a part of the array, by default all of it; return what it was."""
        before = _get(self, idx)
        _set(self, idx, value)
        return before

    def __getitem__(self, index: Any) -> Any:
        return _get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _set(self, index, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        raise self._refusal("truth value", "bool(ref[...])")

    def __iter__(self) -> NoReturn:
        raise self._refusal("iteration", "iter(ref[...])")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise self._refusal("conversion to an array", "numpy.asarray(ref[...])")

    def _refusal(self, what: str, instead: str) -> TypeError:
        return TypeError(
            three_lines(
                f"{what} of a reference {self.aval} at {current_source()}",
                "a reference is not an array: it holds one that changes",
                f"read it first: {instead}",
            )
        )

    def __copy__(self) -> NoReturn:
        raise self._refusal("a copy", "kiln.new_ref(ref[...])")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise self._refusal("pickling", "pickle ref[...]")


class Ref(_Referring):
    """A reference to an array: `ref[...]` reads it, `ref[...] = x` replaces it.

    Make one with `new_ref`. Compared by identity. `owner` is the trace it belongs to, `variable`
    what stands for it in the program that is being recorded by that trace, if any.

    Example:
        >>> ref = kiln.new_ref(jnp.zeros(3))
        >>> ref[1] += 2
        >>> ref
        Ref([0., 2., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "aval", "content", "is_own", "owner", "source", "variable")

    aval: AbstractRef

    def __init__(
        self, aval: AbstractRef, owner: Any, *, variable: Any = None, content: Any = None
    ) -> None:
        self.aval = aval
        self.owner = owner
        self.variable = variable
        self.content = content
        # Whether nothing else refers to the content, so that its memory may be reused.
        self.is_own = False
        self.source: Source | None = None

    @property
    def sharding(self) -> Any:
        """Where the array is."""
        return self.aval.sharding if self.variable is not None else self.content.sharding

    def __repr__(self) -> str:
        if self.variable is not None or not hasattr(self.content, "__array__"):
            return f"Traced<{self.aval!r}>with<{type(self.owner).__name__}>"
        return "Ref" + repr(self.content).removeprefix("Array")


class ViewMaker:
    """Makes views of parts of a reference, or of a view: `ref.at[index]`."""

    __slots__ = ("ref",)

    def __init__(self, ref: _Referring) -> None:
        self.ref = ref

    def __getitem__(self, index: Any) -> RefView:
        found: RefView = _view(self.ref, index)
        return found


class RefView(_Referring):
    """A part of a reference, read and written like one: `ref.at[index]`.

    `index` and `arrays` are the two parts of the index; `aval` is the type of what is there. A view
    is used where it was made: functions take references, or what they hold.
    """

    __slots__ = ("arrays", "aval", "index", "ref")

    def __init__(self, ref: Ref, index: Any, arrays: tuple[Any, ...], aval: Any) -> None:
        self.ref = ref
        self.index = index
        self.arrays = arrays
        self.aval = aval

    def __repr__(self) -> str:
        return f"RefView({self.aval.str_short()} of {self.ref.aval})"


def not_an_array(what: str, ref: Ref) -> TypeError:
    """Build the error for a reference where an array is expected."""
    return TypeError(
        three_lines(
            f"{what} at {current_source()}",
            f"{what} requires ndarray or scalar arguments, got a reference {ref.aval}: it is not "
            "an array, it holds one that changes",
            "read it first: ref[...]",
        )
    )


def leaked_ref(ref: Ref) -> UnexpectedTracerError:
    """Build the error for using a reference after what it belongs to has ended."""
    made = f", made at {ref.source}" if ref.source else ""
    return UnexpectedTracerError(
        three_lines(
            f"Encountered an unexpected tracer, a leak: a reference of type {ref.aval} kept after "
            f"its transformation ended ({ref.owner.describe()}{made}), used at {current_source()}",
            "the function stored a reference outside itself: a leak to global state, such as a "
            "variable, an attribute, or a list",
            "make the reference outside the function, and pass it as an argument",
        )
    )


def check_distinct(asked: str, values: Sequence[Any], names: Sequence[str]) -> None:
    """Check that no two of the operands of a function are one reference.

    Those without a name are closed over.

    Raises: ValueError naming the two.
    """
    seen: dict[int, str] = {}
    for i, x in enumerate(values):
        if type(x) is not Ref:
            continue
        name = names[i] if i < len(names) else ""
        other = seen.get(id(x))
        seen[id(x)] = name
        if other is not None:
            both = f"appeared at both {other} and {name}"
            if not other:
                both = f"was both closed over and passed as the argument {name}"
            raise ValueError(
                three_lines(
                    f"{asked} at {current_source()}",
                    "only one reference to a mutable array may be passed as an argument to a "
                    f"function, but for {asked} the mutable array reference of type {x.aval} "
                    f"{both}",
                    "pass it once, and use it under one name",
                )
            )


def returned_ref(asked: str, path: str, ref: Ref) -> ValueError:
    """Build the error for returning a reference; `asked` names the function."""
    origin = f"it was made at {ref.source}" if ref.source else "it was passed in or closed over"
    return ValueError(
        three_lines(
            f"{asked} at {current_source()}",
            f"the function traced for {asked.partition(':')[0].partition(' of ')[0]} returned a "
            f"mutable array reference of type {ref.aval} at {path}, but "
            f"mutable array references cannot be returned: {origin}",
            "return what it holds, ref[...]; or make the reference outside, and pass it",
        )
    )
