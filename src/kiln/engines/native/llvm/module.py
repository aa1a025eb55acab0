"""What the functions of a module share: constants, tables, and functions of vectors."""

from __future__ import annotations

from collections.abc import Hashable

from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.engines.native.elementary import expand
from kiln.engines.native.llvm.instructions import type_text
from kiln.engines.native.llvm.measuring import DECLARATIONS, Measurements
from kiln.engines.native.llvm.runtime_functions import UNLIKELY, declaration, of_vectors, symbol
from kiln.engines.native.llvm.sequences import Step, tables
from kiln.engines.native.llvm.target import Target
from kiln.engines.native.llvm.values import Frame
from kiln.engines.native.llvm.watch import Watch
from kiln.engines.native.llvm.writer import Sizes, Writer
from kiln.engines.native.loop_ir.extents import Grain
from kiln.engines.native.loop_ir.scalars import Value, postorder
from kiln.engines.native.loop_ir.statements import Blocked, Buffer, Function, Kernel, Nest, Role
from kiln.engines.native.passes.expansion import called
from kiln.ir.sizes.size import Dim

MANY_STEPS = 8
"""With more nests and kernels than this, a program is a table, and equal nests are emitted once."""


class Part(NamedTuple):
    """A function that runs a range of indices up to `count`, in chunks of a grain.

    `order` lists the buffers of its context, as numbers among those that its statement accesses.
    """

    name: str
    size: Dim
    grain: int | Grain
    order: list[int]


class Module:
    """A module under construction, for a function whose temporaries are at `offsets`.

    With `sizes` it has named axes: sizes that calls supply are added, each with its number.
    """

    def __init__(
        self,
        function: Function,
        offsets: dict[Buffer, Dim],
        target: Target,
        sizes: Sizes | None = None,
        measurements: Measurements | None = None,
    ) -> None:
        self.function = function
        self.measurements = measurements
        self.watch = Watch(len(function.sites)) if function.sites else None
        self.offsets = offsets
        self.target = target
        self.inputs = {x: i for i, x in enumerate(function.inputs)}
        self.outputs = {x: i for i, x in enumerate(function.outputs) if x.role is not Role.INPUT}
        self.symbols: set[str] = set()
        self.of_runtime: set[str] = set()
        self.parts: list[str] = []
        self.names: dict[str, str] = {}
        self.constants: dict[Buffer, str] = {}
        self.numbers: dict[tuple[int, ...], str] = {}
        self.shared: dict[Hashable, Part] = {}
        self.sequences: dict[str, list[Step]] = {}
        steps = sum(isinstance(each, (Nest, Kernel)) for each in function.body)
        steps += 2 * sum(isinstance(each, Blocked) for each in function.body)
        self.has_many = steps > MANY_STEPS and measurements is None
        self.sizes = Sizes() if sizes is None else sizes
        self.called = called(function)
        self.functions: dict[tuple[str, str | None, str, int], str] = {}

    def text(self, entry: str) -> str:
        """Return the module: the function `entry` and everything it needs."""
        lines = [
            f'source_filename = "{_quoted(self.function.name)}"',
            *[_constant(name, buffer) for buffer, name in self.constants.items()],
            *[_table(name, numbers) for numbers, name in self.numbers.items()],
            *[
                line
                for name, steps in self.sequences.items()
                for line in tables(name, steps, self.sizes)
            ],
            *self.parts,
            *[f"declare i32 @{name}(ptr, ptr, ptr)" for name in sorted(self.symbols)],
            *[declaration(name) for name in sorted(self.of_runtime)],
            "declare i32 @kiln_parallel(ptr, ptr, ptr, i64, i64)",
            "declare i32 @kiln_poll(ptr)",
            *(DECLARATIONS if self.measurements is not None else ()),
            "declare i32 @kiln_sequence(ptr, ptr, i64, ptr)",
            entry,
            # With frame pointers gdb can unwind functions without other debug information.
            "attributes #0 = { nounwind%s }" % (' "frame-pointer"="all"' if options().gdb else ""),
            UNLIKELY,
        ]
        return "\n".join(lines) + "\n"

    def writer(self) -> Writer:
        """Return the writer of a new function."""
        return Writer(self.target, self.sizes)

    def part(self, w: Writer) -> str:
        """Return the name of the function that runs a range; equal ones are emitted once."""
        body = w.body()
        name = self.names.get(body)
        if name is None:
            name = self.names[body] = f"nest{len(self.names)}"
            parameters = "ptr %call, ptr %context, i64 %begin, i64 %end"
            self.parts.append(w.text(f"define internal i32 @{name}({parameters}) #0"))
        return name

    def elementary(self, x: Value, width: int) -> str:
        """Return the name of the function that computes an elementary function of vectors."""
        key = (x.op, x.attr, x.dtype, width)
        name = self.functions.get(key)
        if name is None and x.op == "of_runtime":
            name = self.functions[key] = f"@runtime.{x.attr}.{x.dtype}x{width}"
            self.of_runtime.add(symbol(x))
            self.parts.append(of_vectors(x, name, width))
        elif name is None:
            name = self.functions[key] = f"@{x.op}.{x.dtype}x{width}"
            w = Writer(self.target)
            pointers: dict[Buffer, str] = {}
            frame = Frame(w, pointers.__getitem__, {}, (), None, width, self.elementary)
            parameters = []
            for i, y in enumerate(x.operands):
                parameter = x.scope.node("parameter", y.dtype, (), i)
                frame.names[parameter] = f"%x{i}"
                parameters.append(parameter)
            root = expand(x.scope.node(x.op, x.dtype, tuple(parameters)))
            for y in postorder([root]):
                frame.is_vector[y] = width > 1 and y.op != "constant"
            kind = type_text(x.dtype, width)
            w.do(f"ret {kind} {frame.operand_in_place(root, width)}")
            listed = ", ".join(
                f"{type_text(y.dtype, width)} %x{i}" for i, y in enumerate(x.operands)
            )
            self.parts.append(w.text(f"define internal {kind} {name}({listed}) #0"))
        return name

    def table(self, numbers: tuple[int, ...]) -> str:
        """Return the name of the memory that holds the numbers of a kernel."""
        return self.numbers.setdefault(numbers, f"@numbers{len(self.numbers)}")

    def constant(self, buffer: Buffer) -> str:
        """Return the name of a constant's memory."""
        return self.constants.setdefault(buffer, f"@constant{len(self.constants)}")


def _table(name: str, numbers: tuple[int, ...]) -> str:
    listed = ", ".join(f"i64 {number}" for number in numbers)
    return f"{name} = private unnamed_addr constant [{len(numbers)} x i64] [{listed}], align 8"


def _constant(name: str, buffer: Buffer) -> str:
    assert buffer.value is not None
    data = buffer.value.tobytes()
    text = "".join(f"\\{byte:02x}" for byte in data)
    return f'{name} = internal constant [{len(data)} x i8] c"{text}", align 64'


def _quoted(name: str) -> str:
    return "".join(c if c.isalnum() or c in " ._-<>" else "_" for c in name)
