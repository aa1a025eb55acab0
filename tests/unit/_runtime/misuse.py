"""Calls of everything public in `kiln._runtime` with arguments that nobody should give.

`python -m tests.unit._runtime.misuse SEED COUNT FILE` makes COUNT calls, the same ones for a seed,
and writes into FILE which one it is making. Exceptions are what is wished for; a signal ends the
process, and SystemError, which Python raises for a mistake in C, ends it with a message. Left out
is what no check can tell from the truth: the address of a compiled function, and what a capsule
says of memory.
"""

from __future__ import annotations

import collections
import copy
import ctypes
import dataclasses
import enum
import gc
import importlib
import importlib.machinery
import importlib.util
import pickle
import random
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SETTERS: dict[str, tuple[Any, ...]] = {}
"""What kiln told the extension by each function that sets something."""


def load() -> Any:
    """Load the extension before kiln does, and note what it is told."""
    spec = importlib.util.find_spec("kiln")
    assert spec is not None and spec.submodule_search_locations is not None
    places = [Path(p) for p in spec.submodule_search_locations]
    # That of this version of Python comes first among the suffixes.
    files = [p / f"_runtime{end}" for end in importlib.machinery.EXTENSION_SUFFIXES for p in places]
    path = next(file for file in files if file.exists())
    name = "kiln._runtime"
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    made = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert made is not None
    module = importlib.util.module_from_spec(made)
    sys.modules[name] = module
    for function in [f for f in dir(module) if f.startswith(("set_", "limit_"))]:
        setattr(module, function, _noted(function, getattr(module, function)))
    return module


def _noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def note(*args: Any) -> Any:
        found = function(*args)
        SETTERS[name] = args
        return found

    note.real = function  # type: ignore[attr-defined]
    return note


def uncalled(runtime: Any, rng: random.Random) -> None:
    """Call everything before kiln has told the extension anything."""
    for name, found in sorted(vars(runtime).items()):
        function = getattr(found, "real", found)
        for args in ((), (None,), (3,), ([1, (2, {"a": None})],), ([], []), ("add", "ff")):
            if name != "Native" and not name.startswith("set_") and callable(function):
                _quietly(lambda f=function, a=args: f(*a))
    array = runtime.ArrayData(3, None)
    for use in (repr, memoryview, lambda x: x + 1, lambda x: x == x, lambda x: x._data(), abs):
        _quietly(lambda u=use: u(array))


def _quietly(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SystemError:
        raise
    except Exception:  # noqa: BLE001
        return None


@dataclasses.dataclass
class Box:
    """A registered dataclass."""

    width: Any
    unit: Any = "m"


class Lying:
    """Has every attribute and answers every question, none of them to be trusted."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, fuzz: Fuzz) -> None:
        self.__dict__["fuzz"] = fuzz

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.fuzz.surprise()

    def __eq__(self, other: object) -> Any:
        return self.fuzz.surprise()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for x in args:
            if isinstance(x, list) and self.fuzz.rng.random() < 0.3:
                x.clear()
        return self.fuzz.surprise()


class LyingType(Lying):
    """Says that it is the type of an array, and is of no size that fits it."""

    def __hash__(self) -> int:
        return 3

    def __eq__(self, other: object) -> Any:
        return self.fuzz.rng.random() < 0.5

    @property
    def shape(self) -> Any:
        return self.fuzz.rng.choice([(), (1000,), (2**40, 2**40), (-1,), (3, "a"), None, (2, 2)])

    @property
    def dtype(self) -> Any:
        return self.fuzz.rng.choice([np.dtype(d) for d in ("f4", "f8", "O", "i8", "S3")] + [3])

    def physical(self) -> Any:
        return self


class Fuzz:
    """Draws calls."""

    def __init__(self, runtime: Any, seed: int) -> None:
        self.runtime = runtime
        self.rng = random.Random(seed)
        self.depth = 0
        self.made: collections.deque[Any] = collections.deque(maxlen=60)
        arrays = importlib.import_module("kiln.core.arrays.array")
        ShapedArray = importlib.import_module("kiln.ir.types").ShapedArray
        importlib.import_module("kiln.base.tree.nodes").register_dataclass(Box, ["width"], ["unit"])
        self.treedef = importlib.import_module("kiln.base.tree.treedef").PyTreeDef
        self.array_classes = [runtime.ArrayData, arrays.ConcreteArray, arrays.PlacedArray]

        class Mine(runtime.ArrayData):  # type: ignore[name-defined, misc]
            pass

        class Called(runtime.Callable):  # type: ignore[name-defined, misc]
            def _call(self, args: Any, kwargs: Any) -> Any:
                return args

        self.array_classes.append(Mine)
        self.called = runtime.call_directly(Called)
        self.host_memory = importlib.import_module("kiln.core.arrays.host_memory").HOST_MEMORY
        self.avals = [
            ShapedArray(s, np.dtype(d))
            for s in ((), (3,), (2, 2), (0,), (1000,))
            for d in ("f4", "f8", "i4", "i8", "?", "c8")
        ]
        # Enumerations are made of Python's classes.
        self.classes = [
            c
            for c in vars(runtime).values()
            if isinstance(c, type) and not issubclass(c, enum.Enum)
        ]
        self.functions = sorted(
            n for n, f in vars(runtime).items() if callable(f) and not isinstance(f, type)
        )
        address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
        self.address = address
        self.lying = [Lying(self), LyingType(self)]
        self.calls: list[Callable[[], Any]] = [
            self.any_function,
            self.any_function,
            self.any_class,
            self.any_method,
            self.any_field,
            self.any_operator,
            self.array,
            self.array_used,
            self.dlpack,
            self.plan,
            self.plan,
            self.program,
            self.program,
            self.placed,
            self.remember,
            self.remember,
            self.launcher,
            self.native,
            self.eager,
            self.tree,
            self.tree,
            self.kind,
            self.told_otherwise,
        ]

    # What calls are made of.

    def number(self) -> int:
        return self.rng.choice([0, 1, 2, 3, 4, 8, 12, 16, -1, -8, 2**31, 2**62, 2**64, -(2**63)])

    def small(self) -> int:
        return self.rng.choice([0, 1, 1, 2, 3, 4, 8])

    def ndarray(self) -> np.ndarray:
        dtype = self.rng.choice(["f4", "f8", "i4", "i8", "?", "c16", "O", "S3", "f2", "f4,i8"])
        x = np.zeros(self.rng.choice([(), (3,), (2, 2), (0,), (1000,), (3, 1)]), dtype)
        return self.rng.choice([x, x[..., ::-1] if x.ndim else x, x.T, x.view()])

    def dtype(self) -> Any:
        names = ["f4", "f8", "i4", "i8", "?", "c8", "O", "S3", "V0", "f2", "(2,)f4", "f4,O"]
        return np.dtype(self.rng.choice(names))

    def memory(self) -> Any:
        return self.runtime.allocate(self.rng.choice([0, 4, 12, 16, 24, 4000, 8000]))

    def aval(self) -> Any:
        return self.rng.choice([*self.avals, *self.avals, self.lying[1], None, 3])

    def simple(self) -> Any:
        """Return a value that is made of nothing else."""
        return self.rng.choice(
            [
                lambda: None,
                self.number,
                self.small,
                lambda: self.rng.choice([0.5, float("nan"), -1.0, 1e300, 2j, True]),
                lambda: self.rng.choice(["", "f", "ff", "add", "copy", "\udc80", "a" * 300]),
                lambda: b"abc",
                self.ndarray,
                self.dtype,
                self.memory,
                self.aval,
                lambda: self.rng.choice(self.lying),
                lambda: self.rng.choice([len, int, dict, ValueError, np.add, np.float32(2)]),
                lambda: self.rng.choice(self.classes),
                lambda: self.rng.choice([np.matmul, np.sin, np.divmod, collections.OrderedDict()]),
                self.array,
                self.older,
                self.older,
                self.older,
                self.fresh,
            ]
        )()

    def older(self) -> Any:
        return self.rng.choice(self.made) if self.made else None

    def fresh(self) -> Any:
        """Return an object whose `__init__` never ran."""
        cls = self.rng.choice([*self.classes, *self.array_classes, self.called, self.treedef])
        return _quietly(lambda: cls.__new__(cls))

    def value(self, depth: int = 0) -> Any:
        if depth > 2 or self.rng.random() < 0.6:
            return self.simple()
        items = [self.value(depth + 1) for _ in range(self.rng.randrange(4))]
        kind = self.rng.randrange(5)
        if kind == 0:
            return items
        if kind == 1:
            return {str(i): x for i, x in enumerate(items)}
        if kind == 2:
            return Box(items)
        return tuple(items)

    def values(self, most: int = 6) -> list[Any]:
        return [self.value() for _ in range(self.rng.randrange(most + 1))]

    def surprise(self) -> Any:
        """Return or raise something, or do what a function called in between should not."""
        self.depth += 1
        try:
            what = self.rng.randrange(12) if self.depth < 4 else 0
            if what == 1:
                raise ValueError("a surprise")
            if what == 2:
                self.runtime.forget_plans()
            if what == 3:
                gc.collect(0)
            if what == 4:
                return self.rng.choice(self.calls)()
            if what == 5:
                for x in list(self.made):
                    if isinstance(x, list):
                        x.clear()
            if what == 6:
                self.made.clear()
            return self.older() if what % 2 else self.simple()
        finally:
            self.depth -= 1

    def function(self) -> Any:
        return self.rng.choice([*self.lying, lambda *a: a, lambda *a: (a, None), self.simple()])

    # The calls.

    def any_function(self) -> Any:
        name = self.rng.choice(self.functions)
        if name.startswith("set_"):
            return None
        function = getattr(self.runtime, name)
        if name == "allocate":
            return function(self.rng.choice([0, 5, 2**20, -1, 2**62, "a", None]))
        return function(*self.values(4))

    def any_class(self) -> Any:
        cls = self.rng.choice([*self.classes, *self.array_classes])
        if cls is self.runtime.Native:
            return None
        args = self.values(7)
        if self.rng.random() < 0.3:
            return cls.__new__(cls, *args)
        return cls(*args)

    def any_method(self) -> Any:
        x = self.older()
        names = [n for n in dir(type(x)) if n not in ("__class__", "__reduce_ex__", "resize")]
        if not type(x).__module__.startswith("kiln"):
            return None
        name = self.rng.choice(names)
        method, values = getattr(x, name), self.values(3)
        if name == "entries_of" and any(isinstance(n, int) and n > 10**6 for n in values):
            return None  # it makes as many as it is told
        return method(*values) if callable(method) else method

    def any_field(self) -> Any:
        x = self.older()
        if not type(x).__module__.startswith("kiln") or isinstance(x, type):
            return None
        name = self.rng.choice([n for n in dir(type(x)) if not n.startswith("__")] or ["key"])
        if self.rng.random() < 0.4:
            return delattr(x, name)
        return setattr(x, name, self.value())

    def any_operator(self) -> Any:
        x, y = self.rng.choice([self.older(), self.array()]), self.value()
        use = self.rng.choice(
            [
                lambda: x + y,
                lambda: y - x,
                lambda: x * x,
                lambda: x / y,
                lambda: -x,
                lambda: abs(x),
                lambda: x < y,
                lambda: x == x,
                lambda: memoryview(x),
                lambda: bytes(x) if not isinstance(x, int) else b"",
                lambda: hash(x),
                lambda: repr(x),
                lambda: str(x),
                lambda: copy.copy(x),
                lambda: copy.deepcopy(x),
                lambda: pickle.loads(pickle.dumps(x)),
                lambda: np.asarray(x),
                lambda: bool(x),
                lambda: list(x),
                lambda: x(),
                lambda: x(*self.values()),
                lambda: x([y]),
                lambda: weakref.ref(x),
            ]
        )
        return use()

    def array(self) -> Any:
        cls = self.rng.choice(self.array_classes)
        host = self.rng.choice([self.memory, self.ndarray, lambda: None, self.older])()
        buffer = self.rng.choice([None, None, self.ndarray(), self.older()])
        memory = self.rng.choice([None, self.host_memory, self.older(), self.lying[0]])
        return _quietly(lambda: cls(self.aval(), host, buffer, memory, self.older(), True))

    def array_used(self) -> Any:
        x = self.array()
        if x is None:
            return None
        use = self.rng.choice(
            [
                lambda: x._data(),
                lambda: x._settle(*self.values(4)),
                lambda: x._settle(
                    x._buffer, self.ndarray(), self.host_memory, self.rng.random() < 0.5
                ),
                lambda: x._note(*self.values(2)),
                lambda: x._let_go() or x + 1,
                lambda: x.__init__(self.aval(), None),
                lambda: (x + 1, x + x, x == 1, -x),
                lambda: memoryview(x).tobytes(),
                lambda: x._host,
                lambda: len(self.runtime.live_arrays()),
            ]
        )
        return use()

    def dlpack(self) -> Any:
        x = self.ndarray()
        if self.rng.random() < 0.5:
            numbers = [self.rng.choice([0, 2, 5, 255]), self.rng.choice([8, 32, 64, 255])]
            return self.runtime.to_dlpack(x, *numbers, self.rng.random() < 0.5, False)
        version = self.rng.choice([None, (1, 0)])
        capsule = _quietly(lambda: x.__dlpack__(max_version=version)) or self.older()

        def again(*_: Any) -> Any:
            _quietly(lambda: self.runtime.from_dlpack(capsule, lambda *_: x.dtype))
            return self.rng.choice([x.dtype, self.dtype()])

        ask = self.rng.choice([lambda *_: self.dtype(), again, self.function(), lambda *_: x.dtype])
        found, _ = self.runtime.from_dlpack(capsule, ask)
        return found.copy()

    def loop(self, char: str) -> tuple[Any, int]:
        """Return a loop, and how many operands it takes."""
        runtime = self.runtime
        loops: list[tuple[Callable[[], Any], int]] = [
            (lambda: runtime.loop_named("copy", char * 2), 2),
            (lambda: runtime.loop_named("sign", char * 2), 2),
            (lambda: runtime.loop_named("max", char * 3), 3),
            (lambda: runtime.loop_named("clamp", char * 4), 4),
            (lambda: runtime.loop_named("select", "?" + char * 3), 4),
            (lambda: runtime.loop_named("convert", char + self.rng.choice("?bhilBfdDg")), 2),
            (lambda: runtime.loop_named("argmax", char + self.rng.choice("il")), 2),
            (lambda: runtime.loop_named("nothing", char * 2), 2),
            (lambda: runtime.loop_of_ufunc(np.add, char * 3), 3),
            (lambda: runtime.loop_of_ufunc(np.negative, char * 2), 2),
            (lambda: runtime.loop_of_ufunc(np.less, char * 2 + "?"), 3),
            (lambda: runtime.loop_of_ufunc(np.add, "OOO"), 3),
            (lambda: runtime.loop_of_ufunc(np.divide, "ddd"), 3),
        ]
        make, count = self.rng.choice(loops)
        return make(), count

    def plan(self) -> Any:
        """Make a plan that is right or nearly so, and run it."""
        rng = self.rng
        aval = rng.choice(self.avals)
        nbytes = aval.dtype.itemsize * int(np.prod(aval.shape))
        wrong = rng.choice([0.0, 0.0, 0.02, 0.1])

        def off(x: Any) -> Any:
            if rng.random() >= wrong:
                return x
            near = x + rng.choice([-8, -1, 1, 4, 2**40]) if isinstance(x, int) else None
            return rng.choice([near, self.number(), self.value()])

        inputs = [(off(aval.dtype), off(nbytes))] * rng.randrange(3)
        constant = np.zeros(aval.shape, aval.dtype)
        buffers: list[Any] = [(0, off(i)) for i in range(len(inputs))]
        buffers += [(1, off(constant)), (2, off(nbytes)), (3, off(nbytes)), (4, 0), (4, 0)]
        first = len(inputs)
        steps: list[Any] = []
        if rng.random() < 0.3:
            steps.append(self.function_step(first + 3, aval, constant, off))
        readable = [*range(first + 3), *([first + 3] if steps else [])]
        for _ in range(rng.randrange(1, 4)):
            steps.append(off(self.loop_step(readable, first, aval, off)))
        results = []
        for _ in range(rng.randrange(1, 3)):
            kind = (
                (0, first + 2) if not inputs or rng.random() < 0.5 else rng.choice([(1, 0), (2, 0)])
            )
            results.append((off(kind[0]), off(kind[1]), rng.choice([aval, aval, self.aval()])))
        plan = self.runtime.Plan(inputs, buffers, steps, results, off(rng.randrange(3)))
        fitting = self.array_classes[1](aval, np.zeros(aval.shape, aval.dtype))
        arrays = [rng.choice([fitting, fitting, self.array()]) for _ in inputs]
        found = _quietly(lambda: plan(*arrays))
        _quietly(lambda: repr(found))
        return plan

    def function_step(self, to: int, aval: Any, value: np.ndarray, off: Any) -> Any:
        function = self.rng.choice([lambda *_: value, lambda *_: value, self.function()])
        view = (off(0), off(aval.dtype), off(aval.shape), off(value.strides))
        given = [(off(0), *view) for _ in range(self.rng.randrange(3))]
        return (off(function), off(given), off([(off(to), *view)]))

    def loop_step(self, readable: list[int], first: int, aval: Any, off: Any) -> Any:
        rng, item = self.rng, aval.dtype.itemsize
        n = int(np.prod(aval.shape))
        if rng.random() < 0.15 and aval.shape == (2, 2):
            loop = self.runtime.loop_of_ufunc(np.matmul, aval.dtype.char * 3)
            operands = [(off(rng.choice(readable)), off(0), ()) for _ in range(2)]
            steps = (0, 0, 0, *[2 * item, item] * 3)
            return (
                off(loop),
                off((1, 2, off(2), 2)),
                [*operands, (off(first + 1), 0, ())],
                off(steps),
            )
        loop, count = self.loop(aval.dtype.char)
        sizes: tuple[Any, ...] = (off(n),)
        strides: tuple[Any, ...] = (off(item),)
        if n == 4 and rng.random() < 0.5:
            sizes, strides = (2, 2), (off(2 * item), off(item))
        if rng.random() < 0.05:
            # Without strides, so many elements would only take long.
            sizes, strides = (*sizes[1:], 2**60), (*strides[1:], 8)
        if any(isinstance(m, int) and m > 10**6 for m in sizes):
            strides = tuple(s or 8 if isinstance(s, int) else s for s in strides)
        places = [rng.choice(readable) for _ in range(count - 1)] + [first + rng.choice([1, 2])]
        return (loop, off(sizes), [(off(at), off(0), off(strides)) for at in places])

    def run(self) -> Any:
        """Return what a program may run, or not."""
        return self.rng.choice(
            [
                lambda buffers: list(buffers),
                lambda buffers: list(buffers),
                lambda buffers: [np.zeros(3, "f4")],
                lambda buffers: [self.ndarray()],
                self.function(),
                _quietly(self.launcher),
                _quietly(self.native),
                None,
            ]
        )

    def program(self) -> Any:
        rng = self.rng
        avals = [self.aval() for _ in range(rng.choice([1, 1, 0, 2]))]
        kept = rng.choice([None, None, [0], [self.number()], ["a"]])
        memory = rng.choice([self.host_memory, self.host_memory, self.older(), self.lying[0]])
        made = self.runtime.CompiledProgram(self.run(), avals, kept, memory, rng.random() < 0.7)
        what = rng.randrange(10)
        if what == 0:
            del made._call
        if what == 1:
            made.out_avals = self.value()
        if what == 2:
            avals.clear()
        if what == 3:
            _quietly(lambda: made.__init__(self.run(), avals, kept, memory, True))
        self.run_one(made)
        return made

    def run_one(self, program: Any) -> None:
        fitting = self.array_classes[1](self.avals[6], np.zeros(3, "f4"))
        choices = [fitting, fitting, np.zeros(3, "f4"), 2.0, self.array(), self.value()]
        args = [self.rng.choice(choices) for _ in range(self.rng.choice([1, 1, 0, 2]))]
        found = _quietly(lambda: program(args))
        for x in found or ():
            _quietly(lambda x=x: (repr(x), x + 1, x + x))  # type: ignore[misc]

    def placed(self) -> Any:
        rng = self.rng
        programs = [x for x in self.made if isinstance(x, self.runtime.CompiledProgram)]
        programs.append(self.runtime.CompiledProgram.__new__(self.runtime.CompiledProgram))
        for _ in range(3):
            fitting = self.runtime.CompiledProgram(
                lambda b: list(b), [self.avals[6]], None, self.host_memory, True
            )
            programs.append(fitting)
        cuts = rng.choice([None, (None,), (self.older(),), (None, None)])
        outs = rng.choice([cuts, cuts, cuts, None, (None,)])
        numbers = rng.choice([(), (0,), (0,), (0, 1), (self.number(),)])
        donation = rng.choice([None, self.lying[0]])
        program = rng.choice(programs)
        made = self.runtime.PlacedProgram(program, cuts, outs, True, numbers, numbers, donation)
        self.run_one(made)
        return made

    def remember(self) -> Any:
        rng = self.rng
        called = self.called()
        programs = [
            x
            for x in self.made
            if isinstance(x, (self.runtime.CompiledProgram, self.runtime.PlacedProgram))
        ]
        programs.append(self.runtime.CompiledProgram.__new__(self.runtime.CompiledProgram))
        tree = rng.choice([self.value, lambda: [self.array(), {"a": self.array()}], self.array])()
        leaves, structure = self.runtime.tree_flatten(tree)
        names = rng.choice([(), (), (), ("a",), (3,)])
        statics = rng.choice([[], [], [], [(0, self.value(), None, True)], [self.value()]])
        dynamics = rng.choice([[(0, tree)]] * 4 + [[(self.number(), tree)], [self.value()]])
        out = rng.choice([structure, self.runtime.tree_flatten([1, 2, (3, None)])[1]])
        count = rng.choice([1, 1, 1, 1, 0, self.number()])
        avals = tuple(self.aval() for _ in leaves)
        axes = tuple(rng.choice([(), ((0, 0),), ((0, 1), (1, 0)), ((-1, 0),)]) for _ in leaves)
        made = rng.choice([self.function(), lambda sizes: rng.choice(programs), lambda sizes: None])
        named = rng.choice([None, None, (2, axes, made), (1, axes, made), self.value()])
        known = called.remember(
            count, names, statics, dynamics, avals, self.values(2), rng.choice(programs), out, named
        )
        if known:
            for _ in range(2):
                _quietly(lambda: called(tree))
                _quietly(lambda: called(tree, a=1))
                _quietly(lambda: called(self.value()))
        return called

    def launcher(self) -> Any:
        rng = self.rng
        types = [
            rng.choice([None, (self.dtype(), self.number()), (np.dtype("f4"), 4), self.value()])
            for _ in range(rng.randrange(3))
        ]
        made = self.runtime.Launcher(
            self.function(),
            [],
            self.value(),
            rng.choice([types, (), self.value()]),
            self.function(),
        )
        if rng.random() < 0.3:
            _quietly(lambda: delattr(made, "_execute"))
        if rng.random() < 0.3:
            made([])
        return made

    def native(self) -> Any:
        types = [
            [
                self.rng.choice([(np.dtype("f4"), 4), (self.dtype(), self.number()), self.value()])
                for _ in range(self.rng.randrange(3))
            ]
            for _ in range(2)
        ]
        options = {
            "workspace": self.number(),
            "sizes": [self.number()],
            "shared": [(0, 0)],
            "reused": [(0, self.number())],
            "explain": self.function(),
            "callbacks": [(self.function(), [(self.dtype(), (self.number(),))], self.value())],
            "threads": self.number(),
            self.rng.choice(["is_long", "nothing"]): self.value(),
        }
        chosen = {name: x for name, x in options.items() if self.rng.random() < 0.1}
        if self.rng.random() < 0.1:
            chosen["sizes"] = self.value()
        made = self.runtime.Native(self.address, *types, self.value(), **chosen)
        if self.rng.random() < 0.3:
            made([self.value() for _ in range(self.rng.randrange(3))])
        return made

    def eager(self) -> Any:
        def plus(*args: Any, **_: Any) -> Any:
            return self.array_classes[1](self.avals[1], np.zeros(3, "f4"))

        function = self.runtime.EagerFunction(
            self.rng.choice([plus, plus, self.function()]),
            self.rng.choice([None, None, "add", "less", "negative", "argmax", self.value()]),
            self.rng.random() < 0.2,
        )
        args = [self.rng.choice([self.array(), self.value()]) for _ in range(self.rng.randrange(3))]
        for _ in range(3):
            _quietly(lambda: function(*args))
            _quietly(lambda: function(args, a=args))
        return function

    def tree(self) -> Any:
        rng, runtime = self.rng, self.runtime
        tree = self.value()
        for _ in range(rng.choice([0, 0, 0, 3, 300, 6000])):
            tree = rng.choice([[tree], (tree, None), {"a": tree}, [tree]])
        ask = rng.choice([None, None, self.function()])
        if rng.random() < 0.5:
            return runtime.tree_flatten_with_path(
                tree if rng.random() < 0.9 else {1: 1, "a": 2}, ask
            )
        leaves, structure = runtime.tree_flatten(tree, ask)
        use = rng.choice(
            [
                lambda: structure.unflatten(leaves),
                lambda: structure.unflatten(self.values()),
                lambda: structure.flatten_up_to(self.value()),
                lambda: structure.flatten_up_to(tree),
                lambda: hash(structure),
                lambda: structure == runtime.tree_flatten(self.value())[1],
                lambda: structure == copy.deepcopy(structure),
                lambda: runtime.TreeDef((dict, self.value(), (structure.key,))),
                lambda: runtime.TreeDef(self.value()),
                lambda: repr(structure),
                lambda: (structure.num_nodes, structure.children()),
            ]
        )
        use()
        return structure

    def kind(self) -> Any:
        names = self.rng.choice([("a",), (), ("width",), (3,), self.value()])
        kind = self.runtime.NodeKind(
            self.function(),
            self.function(),
            self.function(),
            self.rng.choice([None, self.function()]),
            form=self.rng.choice([*range(7), self.number()]),
            children=names,
            metadata=self.rng.choice([names, ("unit",)]),
        )
        for use in (kind.take_apart, kind.with_entries, lambda x: kind.entries_of(x, self.small())):
            _quietly(lambda u=use: u(self.value()))
        return kind

    def told_otherwise(self) -> Any:
        """Tell the extension something else for a few calls."""
        name = self.rng.choice(sorted(SETTERS))
        real = getattr(self.runtime, name).real
        kinds: dict[Any, Any] = {list: self.value(), dict: self.value(), Box: self.value()}
        args = (
            self.values(4) if self.rng.random() < 0.5 else [self.function() for _ in SETTERS[name]]
        )
        if name == "set_tree_tables" and self.rng.random() < 0.7:
            args = [kinds, {int}, self.function(), self.function()]
        if name == "set_array_classes":
            args = self.rng.choices([*self.array_classes, int, self.value()], k=2)
        try:
            _quietly(lambda: real(*args))
            for _ in range(5):
                call = self.rng.choice([c for c in self.calls if c != self.told_otherwise])
                _quietly(call)
        finally:
            real(*SETTERS[name])


def main(seed: int, count: int, note: Path) -> None:
    """Make the calls."""
    runtime = load()
    uncalled(runtime, random.Random(seed))
    importlib.import_module("kiln.numpy").ones(3) + 1
    fuzz = Fuzz(runtime, seed)
    sys.unraisablehook = lambda _: None
    state, root = runtime.state, runtime.state.root
    with note.open("w") as file:
        for i in range(count):
            call = fuzz.rng.choice(fuzz.calls)
            file.seek(0)
            file.write(f"call {i}: {call.__name__}          ")
            file.flush()
            made = _quietly(call)
            if made is not None:
                fuzz.made.append(made)
            if i % 100 == 0:
                state.root = state.trace = root
                state.overrides, state.axes, state.tracked = None, (), frozenset()
                gc.collect()
    print("survived")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
