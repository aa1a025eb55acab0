"""Translates a function of loops into an LLVM module.

The entry loads the addresses of a call's buffers; statements follow in order. A parallel nest is a
separate function, over a range of its outermost axis: equal ones are emitted once.
"""

from __future__ import annotations

from collections.abc import Callable

from kiln.engines.native.llvm import epilogues, kernels
from kiln.engines.native.llvm.addresses import memory_type
from kiln.engines.native.llvm.call_buffers import WORKSPACE, CallBuffers
from kiln.engines.native.llvm.iteration import BETWEEN_POLLS, PROMOTED, grain_of, in_registers, work
from kiln.engines.native.llvm.kernels import by_rows, is_by_rows, may_be_empty, numbers_of
from kiln.engines.native.llvm.linking import ENTRY
from kiln.engines.native.llvm.measuring import Measurements
from kiln.engines.native.llvm.module import Module, Part
from kiln.engines.native.llvm.nests import ALWAYS, UNROLLED, NestCode
from kiln.engines.native.llvm.sequences import FROM_CALL, Step, call_of
from kiln.engines.native.llvm.target import Target
from kiln.engines.native.llvm.writer import COUNTER, POINTER, Sizes, Writer
from kiln.engines.native.loop_ir.buffers import axes_of, everywhere, touched
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.extents import Grain, estimate, is_named, is_positive
from kiln.engines.native.loop_ir.products import is_shared
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Blocked,
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Place,
    Role,
    Statement,
    Store,
    While,
)
from kiln.engines.native.passes.expansion import expanded
from kiln.engines.native.passes.schedule import Schedule, schedule
from kiln.engines.native.passes.structure import structure
from kiln.ir.sizes.size import Dim, as_ints

_FAILED = "failed"
"""The label at the end of a function that stops early."""
INLINE_POINTS = 1 << 12
"""A nest with fewer points is emitted inline."""


def module_text(
    function: Function,
    offsets: dict[Buffer, Dim],
    target: Target,
    sizes: Sizes | None = None,
    measurements: Measurements | None = None,
) -> str:
    """Return the LLVM module of a function whose temporaries are at given offsets in the workspace.

    With `sizes` the function has named axes: the sizes that a call must supply are added, each with
    its index in `Call.sizes`. The code records the cost of its statements in `measurements`, if
    given.
    """
    module = Module(function, offsets, target, sizes, measurements)
    entry = _Code(module, module.writer(), is_entry=True)
    entry.enter()
    entry.run(function.body)
    entry.finish()
    return module.text(entry.w.text(f"define i32 @{ENTRY}(ptr %call) #0"))


class _Code(CallBuffers):
    """Emits statements into the current function."""

    def __init__(self, module: Module, w: Writer, *, is_entry: bool = False) -> None:
        super().__init__(module, w)
        # Only here is the iteration of the program's loops known.
        self.watch = module.watch if is_entry else None
        self.measurements = module.measurements if is_entry else None
        self.iteration = "-1"
        self.is_part = not is_entry
        self.counts: list[str] = []
        self.counters: dict[Axis, str] = {}
        self.most = 0
        self.start = 0
        self.polls: str | None = None
        self.is_awake = False
        self.failures: list[tuple[str, str]] = []

    def enter(self) -> None:
        """Load the addresses of a call's buffers, and allocate those that live in registers."""
        self.fields = [self.field(i) for i in range(WORKSPACE + 1)]
        self.start = self.w.mark()
        for buffer in in_registers(self.module.function):
            kind = f"[{buffer.size} x {memory_type(buffer.dtype, 1)}]"
            self.fixed[buffer] = self.w.emit(f"alloca {kind}, align 64", PROMOTED)

    def run(self, statements: list[Statement]) -> None:
        """Emit the statements of the entry: each loads the addresses of its buffers itself.

        Loading all of them at the beginning would exceed the registers.
        """
        steps: list[Step] = []
        for statement in statements:
            step = self.step(statement) if self.module.has_many else None
            if step is not None:
                steps.append(step)
                continue
            self.sequence(steps)
            self.pointers = dict(self.fixed)
            for buffer in everywhere(statement):
                if buffer not in self.pointers and buffer.role is not Role.ROW:
                    self.pointers[buffer] = self.pointer(buffer)
            self.statements([statement])
        self.sequence(steps)
        for buffer in self.fixed:
            if buffer.role is Role.OUTPUT:
                self.pointers[buffer] = self.fixed[buffer]
                self.copy(Copy(Place(buffer), Place(buffer), buffer.size), self.pointer(buffer))

    def sequence(self, steps: list[Step]) -> None:
        """Run the steps collected so far."""
        if steps:
            name = f"@steps{len(self.module.sequences)}"
            self.module.sequences[name] = list(steps)
            self.check(self.w.emit(call_of(name, len(steps))))
            steps.clear()

    def step(self, statement: Statement) -> Step | None:
        """Return a statement as a table step, if it can be one."""
        if isinstance(statement, Kernel):
            places = self.places([*statement.operands, *statement.results])
            if places is None or may_be_empty(statement):
                return None
            self.module.symbols.add(statement.symbol)
            if is_by_rows(statement):
                name, rows = by_rows(self.module, statement), statement.numbers[1]
                return Step(name, places, rows, statement.grain)
            if is_named(*statement.numbers):
                first = self.module.sizes.block(statement.numbers)
                return Step(statement.symbol, places, first, FROM_CALL)
            numbers = as_ints(statement.numbers)
            return Step(statement.symbol, places, numbers=self.module.table(numbers))
        if isinstance(statement, Blocked):
            places = self.places(epilogues.places_of(statement))
            return epilogues.step(self.module, statement, places, self.write_rows)
        if not isinstance(statement, Nest) and not (
            isinstance(statement, Loop) and statement.parallel
        ):
            return None
        operands = touched(statement)
        places = self.places([Place(buffer) for buffer in operands])
        if places is None:
            return None
        key = structure(statement)
        part = self.module.shared.get(key)
        if part is None:
            part = self.part(statement, operands)
            if key is not None:
                self.module.shared[key] = part
        buffers = [places[i] for i in part.order]
        return Step(part.name, buffers, part.size, part.grain)

    def part(self, statement: Nest | Loop, operands: list[Buffer]) -> Part:
        """Emit a function for a statement that accesses some buffers."""
        plan = None
        if isinstance(statement, Nest):
            statement = expanded(statement, self.module.called)
            plan = schedule(statement, self.module.target.vector_bytes)
            count, grain = plan.order[0].size if plan.order else 1, plan.grain
        else:
            count, grain = statement.axis.size, grain_of(statement)
        name = _shared(self.module, statement, plan, [])
        return Part(name, count, grain, [operands.index(each) for each in touched(statement)])

    def finish(self) -> None:
        """End the function."""
        if self.watch is not None:
            self.watch.stop(self.w, self.iteration)
        self.w.do("ret i32 0")
        if self.failures:
            self.w.begin(_FAILED)
            self.w.do(f"ret i32 {self.w.phi('i32', *self.failures)}")
        self.w.insert(self.start, [f"{name} = alloca i64, align 8" for name in self.counts])
        if self.polls is not None:
            made = [f"{self.polls} = alloca i64, align 8"]
            made.append(f"store i64 {BETWEEN_POLLS}, ptr {self.polls}, align 8")
            self.w.insert(self.start, made)
        if self.most:
            self.w.insert(self.start, [f"%slots = alloca i64, i64 {self.most}, align 8"])

    def statements(self, statements: list[Statement]) -> None:
        if self.measurements is None:
            for statement in statements:
                self.statement(statement)
        elif statements:
            # A statement starts when the one before it has ended: one clock reading for both.
            start = self.measurements.begin(self.w)
            for statement in statements:
                self.statement(statement)
                start = self.measurements.end(self.w, statement, start)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Nest():
                self.nest(statement)
            case Kernel():
                self.kernel(statement)
            case Blocked():
                self.blocked(statement)
            case Copy() if (shared := kernels.shared_copy(statement)) is not None:
                self.called(shared)
            case Copy():
                self.copy(statement)
            case Loop():
                self.loop(statement)
            case While():
                self.while_(statement)
            case Branch():
                self.branch(statement)

    def nest(self, nest: Nest) -> None:
        nest = expanded(nest, self.module.called)
        vectors = self.module.target.vector_bytes
        plan = schedule(nest, vectors, self.widest(nest), is_awake=self.is_awake)
        whole = plan.order[0].size if plan.order else 1
        is_row = any(buffer.role is Role.ROW for buffer in touched(nest))
        is_small = plan.grain == 0 and estimate(nest.points) <= INLINE_POINTS
        if is_row or not plan.order or is_small:
            self.nest_here(nest, plan, "0", self.w.dim(whole))
        else:
            self.apart(nest, plan, whole, plan.grain)

    def nest_here(self, nest: Nest, plan: Schedule, begin: str, end: str) -> None:
        """Write a nest into this function."""
        self.code(nest, plan).write(begin, end)

    def code(self, nest: Nest, plan: Schedule) -> NestCode:
        """Return the writer of a nest."""
        pointer, elementary = self.pointers.__getitem__, self.module.elementary
        watch = self.module.watch
        most = ALWAYS if self.widest(nest) else UNROLLED
        return NestCode(self.w, nest, plan, pointer, self.counters, elementary, watch, most)

    def apart(
        self, statement: Nest | Loop, plan: Schedule | None, count: Dim, grain: int | Grain
    ) -> None:
        """Call a separate function for a statement, on several threads if there is a grain."""
        w = self.w
        outer = [axis for axis in axes_of(statement) if axis in self.counters]
        name = _shared(self.module, statement, plan, outer)
        values = [f"ptr {self.pointers[buffer]}" for buffer in touched(statement)]
        self.slots([*values, *[f"i64 {self.counters[axis]}" for axis in outer]])
        number = w.dim(count)
        if grain:
            status = w.emit(
                f"call i32 @kiln_parallel(ptr %call, ptr @{name}, ptr %slots, i64 {number}, "
                f"i64 {w.dim(grain)})"
            )
        else:
            status = w.emit(f"call i32 @{name}(ptr %call, ptr %slots, i64 0, i64 {number})")
        self.check(status)

    def slots(self, values: list[str]) -> None:
        """Store values to a function's argument slots."""
        self.most = max(self.most, self.w.store_slots(values), 1)

    def check(self, status: str) -> None:
        """Return the status if it is not zero."""
        w = self.w
        after = w.label("done")
        failed = w.emit(f"icmp ne i32 {status}, 0")
        w.do(f"br i1 {failed}, label %{_FAILED}, label %{after}")
        self.failures.append((status, w.block))
        w.begin(after)

    def place(self, place: Place) -> str:
        """Return the register with the address of an operand."""
        name = self.number(place.index)
        base = self.pointers[place.buffer]
        if name == "0":
            return base
        item = NUMPY_TYPES[place.buffer.dtype].itemsize
        offset = name if item == 1 else self.w.emit(f"mul i64 {name}, {item}")
        return self.w.emit(f"getelementptr i8, ptr {base}, i64 {offset}")

    def number(self, index: Index) -> str:
        """Return the register of an index over enclosing axes, and values in buffers."""
        if not index.terms:
            return self.w.dim(index.const)
        nest = Nest(
            (), [Store(Buffer("", "i64", 1, Role.TEMP), Index(), x) for x in index.operands]
        )
        plan = schedule(nest, self.module.target.vector_bytes)
        code = self.code(nest, plan)
        return code.scalar(index)

    def kernel(self, kernel: Kernel) -> None:
        """Call a kernel, unless its results have no elements."""
        if not may_be_empty(kernel):
            self.called(kernel)
            return
        sizes = [x.buffer.size for x in kernel.results]
        flags = [self.w.emit(f"icmp ne i64 {self.w.dim(size)}, 0") for size in sizes]
        some = flags[0]
        for flag in flags[1:]:
            some = self.w.emit(f"or i1 {some}, {flag}")
        self.when(some, lambda: self.called(kernel))

    def called(self, kernel: Kernel) -> None:
        """Call a kernel."""
        w = self.w
        self.module.symbols.add(kernel.symbol)
        places = [self.place(place) for place in [*kernel.operands, *kernel.results]]
        self.slots([f"ptr {place}" for place in places])
        if is_by_rows(kernel):
            name, rows = by_rows(self.module, kernel), w.dim(kernel.numbers[1])
            counts = f"i64 {rows}, i64 {w.dim(kernel.grain)}"
            self.check(
                w.emit(f"call i32 @kiln_parallel(ptr %call, ptr @{name}, ptr %slots, {counts})")
            )
            return
        numbers = numbers_of(self.module, w, kernel)
        status = w.emit(f"call i32 @{kernel.symbol}(ptr %call, ptr %slots, ptr {numbers})")
        self.check(status)

    def blocked(self, blocked: Blocked) -> None:
        """Call the kernel that computes a product and its epilogue."""
        outer = [axis for axis in axes_of(blocked.epilogue) if axis in self.counters]
        symbol, name, numbers = epilogues.call(self.module, blocked, outer, self.write_rows)
        values = [f"ptr {self.place(place)}" for place in epilogues.places_of(blocked)]
        values.insert(epilogues.EPILOGUE, f"ptr @{name}")
        self.slots([*values, *[f"i64 {self.counters[axis]}" for axis in outer]])
        self.check(self.w.emit(f"call i32 @{symbol}(ptr %call, ptr %slots, ptr {numbers})"))

    def write_rows(
        self, w: Writer, loop: Loop, pointers: dict[Buffer, str], counters: dict[Axis, str]
    ) -> None:
        """Emit a loop over a range into another function."""
        code = _Code(self.module, w)
        code.pointers, code.counters, code.start = pointers, counters, w.mark()
        code.rows(loop.body)
        code.iterations(loop, "%begin", "%end")
        code.finish()

    def copy(self, copy: Copy, to: str | None = None) -> None:
        kernels.write_copy(self.w, copy, self.place(copy.operand), to or self.place(copy.result))

    def loop(self, loop: Loop) -> None:
        if not loop.parallel or self.is_part:
            end = self.w.dim(loop.axis.size)
            if is_positive(loop.axis.size):
                self.iterations(loop, "0", end)
            else:
                some = self.w.emit(f"icmp sgt i64 {end}, 0")
                self.when(some, lambda: self.iterations(loop, "0", end))
            return
        self.apart(loop, None, loop.axis.size, grain_of(loop))

    def when(self, condition: str, write: Callable[[], None]) -> None:
        """Write statements that run if a condition holds."""
        w = self.w
        yes, after = w.label("then"), w.label("done")
        w.do(f"br i1 {condition}, label %{yes}, label %{after}")
        w.begin(yes)
        write()
        w.do(f"br label %{after}")
        w.begin(after)

    def iterations(self, loop: Loop, begin: str, end: str) -> None:
        """Write a loop over a range that is not empty."""
        w = self.w
        watched = self.watched(loop)
        before, head, after = w.block, w.label("loop"), w.label("done")
        w.do(f"br label %{head}")
        w.begin(head)
        counter, following = w.name(), w.name()
        position = w.mark()
        self.counters[loop.axis] = counter
        was_awake = self.is_awake
        self.is_awake = any(map(is_shared, loop.body))
        self.one_iteration(loop.body, counter if watched else None)
        self.is_awake = was_awake
        if not loop.parallel:
            self.poll(loop.body)
        del self.counters[loop.axis]
        last = w.block
        w.do(f"{following} = add i64 {counter}, 1")
        more = w.emit(f"icmp slt i64 {following}, {end}")
        w.do(f"br i1 {more}, label %{head}, label %{after}")
        w.insert(
            position, [f"{counter} = phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]"]
        )
        w.begin(after)

    def poll(self, body: list[Statement]) -> None:
        """Poll for signals whenever the iterations of loops have done enough work."""
        w = self.w
        if self.polls is None:
            self.polls = w.name(PROMOTED)
        left = w.emit(f"load i64, ptr {self.polls}, align 8")
        left = w.emit(f"sub i64 {left}, {work(body, self.module.target.vector_bytes)}")
        w.do(f"store i64 {left}, ptr {self.polls}, align 8")
        due, after = w.label("poll"), w.label("done")
        enough = w.emit(f"icmp slt i64 {left}, 1")
        w.do(f"br i1 {enough}, label %{due}, label %{after}")
        w.begin(due)
        w.do(f"store i64 {BETWEEN_POLLS}, ptr {self.polls}, align 8")
        self.check(w.emit("call i32 @kiln_poll(ptr %call)"))
        w.do(f"br label %{after}")
        w.begin(after)

    def watched(self, loop: Loop | While) -> bool:
        """Tell whether there are checks in a loop; before it nothing needs to be reported."""
        if self.watch is None or not has_checks([loop]):
            return False
        self.watch.stop(self.w, self.iteration)
        return True

    def one_iteration(self, body: list[Statement], iteration: str | None) -> None:
        """Emit one iteration of a loop, and stop after it if checks have failed in it."""
        if iteration is None or self.watch is None:
            self.statements(body)
            return
        outer, self.iteration = self.iteration, iteration
        self.statements(body)
        self.watch.stop(self.w, iteration)
        self.iteration = outer

    def while_(self, loop: While) -> None:
        w = self.w
        count = None
        if self.watched(loop):
            count = w.name(PROMOTED)
            self.counts.append(count)
            w.do(f"store i64 0, ptr {count}, align 8")
        head, body, after = w.label("while"), w.label("do"), w.label("done")
        w.do(f"br label %{head}")
        w.begin(head)
        iteration = None if count is None else w.emit(f"load i64, ptr {count}, align 8")
        self.one_iteration(loop.condition, iteration)
        flag = w.emit(f"load i8, ptr {self.pointers[loop.flag]}, align 1")
        some = w.emit(f"icmp ne i8 {flag}, 0")
        w.do(f"br i1 {some}, label %{body}, label %{after}")
        w.begin(body)
        self.one_iteration(loop.body, iteration)
        if count is not None:
            following = w.emit(f"add i64 {iteration}, 1")
            w.do(f"store i64 {following}, ptr {count}, align 8")
        self.poll(loop.body)
        w.do(f"br label %{head}")
        w.begin(after)

    def branch(self, branch: Branch) -> None:
        w = self.w
        number = w.emit(f"load i32, ptr {self.place(branch.number)}, align 4")
        labels = [w.label("case") for _ in branch.blocks]
        after = w.label("done")
        low = w.emit(f"icmp slt i32 {number}, 0")
        number = w.emit(f"select i1 {low}, i32 0, i32 {number}")
        cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
        w.do(f"switch i32 {number}, label %{labels[-1]} [ {cases} ]")
        for label, block in zip(labels, branch.blocks, strict=True):
            w.begin(label)
            self.statements(block)
            w.do(f"br label %{after}")
        w.begin(after)


def _shared(
    module: Module, statement: Nest | Loop, plan: Schedule | None, outer: list[Axis]
) -> str:
    """Return the name of a function that runs a nest, or a loop, over a range.

    Its context holds the addresses of the buffers that the statement accesses, then the counters of
    the enclosing axes.
    """
    w = module.writer()
    code = _Code(module, w)
    buffers = touched(statement)
    kinds = [POINTER] * len(buffers) + [COUNTER] * len(outer)
    given = iter(w.load_slots(kinds))
    code.pointers.update(zip(buffers, given, strict=False))
    code.counters.update(zip(outer, given, strict=True))
    code.start = w.mark()
    if isinstance(statement, Loop):
        code.rows(statement.body)
        code.iterations(statement, "%begin", "%end")
    else:
        assert plan is not None
        code.nest_here(statement, plan, "%begin", "%end")
    code.finish()
    return module.part(w)
