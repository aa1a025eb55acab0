"""`pallas_call`: a kernel, run for each block of its arguments, as an ordinary loop.

The kernel is recorded as a program on references. The grid is one loop in row-major order, which
carries the arrays that the kernel writes. An iteration reads blocks, runs the kernel on them, and
writes blocks back. So no primitive is needed: derivatives, `vmap` and engines handle a loop.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.api.contexts.scopes import make_user_context, named_scope
from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import (
    PyTreeDef,
    equality_errors,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)
from kiln.control.loops.loops import fori_loop
from kiln.control.references.primitives import holding
from kiln.core.trace import aval_of
from kiln.experimental.pallas.blocks import INT32, Blocks, Programs, blocks_of, undefined
from kiln.experimental.pallas.programs import grid_axes_bound, in_grid
from kiln.experimental.pallas.recording import Recorded, recorded
from kiln.experimental.pallas.specs import GridSpec, no_block_spec
from kiln.ir.ref_type import AbstractRef
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import div, mul, rem

_sizes_in_force = make_user_context(())
"""The known sizes of the grid are part of the key of functions that are traced in a kernel."""


@api_boundary
def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    metadata: Mapping[str, str] | None = None,
) -> Callable[..., Any]:
    """Return a function of arrays that runs `kernel(*input_refs, *output_refs, *scratch_refs)`.

    The kernel runs once for each program of the grid, in row-major order. Its references hold
    blocks as defined by `in_specs` and `out_specs`; the final contents of output blocks are written
    back. An output is undefined until it is written, unless `input_output_aliases` maps the number
    of an input to it: then it starts with the input's values.

    `interpret`, `compiler_params`, `cost_estimate` and `metadata` are for other compilers, and have
    no effect: the program is compiled like any other. `debug` prints the kernel's program.

    Raises: ValueError for specifications that do not match the arguments, and a kernel that returns
        something; NotImplementedError if the default platform is GPU or TPU, unless `interpret`.
    Source: the documentation of `jax.experimental.pallas.pallas_call`.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> def add(x, y, out):
        ...     out[...] = x[...] + y[...]
        >>> block = pl.BlockSpec((2,), lambda i: (i,))
        >>> pl.pallas_call(
        ...     add,
        ...     out_shape=kiln.ShapeDtypeStruct((8,), jnp.float32),
        ...     grid=(4,),
        ...     in_specs=[block, block],
        ...     out_specs=block,
        ... )(jnp.arange(8.0), jnp.ones(8))
        Array([1., 2., 3., 4., 5., 6., 7., 8.], dtype=float32)
    """
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    else:
        _check_only_grid_spec(grid, in_specs, out_specs, scratch_shapes)
    outputs, out_tree = _outputs(out_shape)
    call = _Call(
        kernel=kernel,
        name=f"{name} for kernel function {definition_of(kernel)}"
        if name
        else definition_of(kernel),
        spec=grid_spec,
        outputs=outputs,
        out_tree=out_tree,
        aliases=dict(input_output_aliases),
        debug=debug,
    )

    def run(*args: Any) -> Any:
        if not interpret:
            _check_platform()
        scope = named_scope(name) if name else contextlib.nullcontext()
        with scope:
            return call.run(args)

    run.__name__ = run.__qualname__ = name or name_of(kernel)
    return jit(run, inline=True)


class _Array(NamedTuple):
    """An input or output, with its name in messages."""

    aval: ShapedArray
    origin: str


class _Call(NamedTuple):
    """The parameters of a `pallas_call`; `run` applies it to arguments."""

    kernel: Callable[..., None]
    name: str
    spec: GridSpec
    outputs: list[_Array]
    out_tree: PyTreeDef
    aliases: dict[int, int]
    debug: bool

    def run(self, args: Sequence[Any]) -> Any:
        """Run the grid; return the outputs, in the structure of `out_shape`."""
        sizes = self.spec.grid
        count = self.spec.num_scalar_prefetch
        scalars, scalar_tree = tree_flatten(tuple(args[:count]))
        pairs, _ = tree_flatten_with_path(args)
        inputs = [_Array(aval_of(x), f"args{keystr(path)}") for path, x in pairs]
        self._check_aliases(inputs, [keystr(path) for path, _ in pairs])
        prefetched = [AbstractRef(a.aval) for a in inputs[: len(scalars)]]
        rest = inputs[len(scalars) :]
        in_tree = tree_structure(tuple(args[count:]))
        programs = Programs(
            sizes, tuple(prefetched), lambda refs: tree_unflatten(scalar_tree, refs)
        )
        blocks = [
            *_cut("in_specs", self.spec.in_specs, rest, in_tree, programs),
            *_cut("out_specs", self.spec.out_specs, self.outputs, self.out_tree, programs),
        ]
        scratch, scratch_tree = tree_flatten(self.spec.scratch_shapes)
        scratch_types = [AbstractRef(ShapedArray(tuple(s.shape), s.dtype)) for s in scratch]
        kernel = self._record(
            [*prefetched, *[b.seen for b in blocks], *scratch_types],
            _Structure(scalar_tree, in_tree, self.out_tree, scratch_tree),
        )
        values = [x for _, x in pairs]
        started = {out: values[i] for i, out in self.aliases.items()}
        arrays = [
            *values[len(scalars) :],
            *[
                started[i] if i in started else undefined(a.aval.shape, a.aval.dtype)
                for i, a in enumerate(self.outputs)
            ],
        ]
        grid = _Grid(kernel, sizes, scalars, prefetched, blocks, scratch_types)
        after = grid.run(
            [
                *[b.padded(x) for b, x in zip(blocks, arrays, strict=True)],
                *[undefined(t.shape, t.dtype) for t in scratch_types],
            ]
        )
        found = [
            b.without_padding(x)
            for b, x in zip(blocks[len(rest) :], after[len(rest) : len(blocks)], strict=True)
        ]
        return tree_unflatten(self.out_tree, found)

    def _record(self, types: Sequence[AbstractRef], structure: _Structure) -> Recorded:
        sizes = self.spec.grid
        count = len(sizes)
        known = tuple([size if isinstance(size, int) else None for size in sizes])

        def flat(*args: Any) -> list[Any]:
            positional, by_name = structure.arguments(args[count:])
            named = grid_axes_bound(self.spec.grid_names, sizes)
            with in_grid(args[:count], sizes), named, _sizes_in_force(known):
                found = self.kernel(*positional, **by_name)
            tree = tree_structure(found)
            if tree != tree_structure(None):
                raise ValueError(
                    three_lines(
                        f"pallas_call at {current_source()}",
                        f"The kernel function in the pallas_call {self.name} should return None. "
                        f"It returns a PyTree: {tree}",
                        "write results into the references of outputs: out_ref[...] = x",
                    )
                )
            return []

        kernel = recorded(flat, [INT32] * count + list(types), self.kernel)
        if self.debug:
            sys.stdout.write(f"The kernel jaxpr in pallas_call {self.name}:\n{kernel.jaxpr}\n")
        return kernel

    def _check_aliases(self, inputs: Sequence[_Array], paths: Sequence[str]) -> None:
        asked = f"pallas_call at {current_source()}"
        for i, out in self.aliases.items():
            mapping = f"input_output_aliases contains the mapping '{i}:{out}'"
            for what, number, count in (
                ("input", i, len(inputs)),
                ("output", out, len(self.outputs)),
            ):
                if not 0 <= number < count:
                    raise ValueError(
                        three_lines(
                            asked,
                            f"{mapping} with {what} index {number} outside the range [0, {count})",
                            "count inputs and outputs in flattened order",
                        )
                    )
            given, wanted = inputs[i].aval, self.outputs[out].aval
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                path = self.outputs[out].origin.removeprefix("outputs")
                raise ValueError(
                    three_lines(
                        asked,
                        f"{mapping} referring to input{paths[i]} with abstract value {given!r} and "
                        f"to output{path} with a different abstract value {wanted!r}.",
                        "alias an output only to an input of the same shape and dtype",
                    )
                )


class _Structure(NamedTuple):
    """The structures of a kernel's arguments."""

    scalars: PyTreeDef
    inputs: PyTreeDef
    outputs: PyTreeDef
    scratch: PyTreeDef

    def arguments(self, refs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments."""
        given = iter(refs)
        parts = [
            tree_unflatten(tree, [next(given) for _ in range(tree.num_leaves)]) for tree in self
        ]
        scalars, inputs, outputs, scratch = parts
        if not isinstance(outputs, (tuple, list)):
            outputs = (outputs,)
        positional = [*scalars, *inputs, *outputs]
        if isinstance(scratch, dict):
            return positional, scratch
        return [*positional, *scratch], {}


class _Grid(NamedTuple):
    """A kernel, and the blocks of its programs."""

    kernel: Recorded
    sizes: tuple[Any, ...]
    scalars: list[Any]
    prefetched: list[AbstractRef]
    blocks: list[Blocks]
    scratch: list[AbstractRef]

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arrays and the scratch buffers after all programs have run."""
        skipped = len(self.sizes) + len(self.prefetched)
        written = self.kernel.writes[skipped:]
        carried = [i for i, is_written in enumerate(written) if is_written]

        def iteration(ids: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
            values = list(arrays)
            for i, x in zip(carried, carry, strict=True):
                values[i] = x
            after = self._step(ids, values)
            return [after[i] for i in carried]

        def body(k: Any, carry: Sequence[Any]) -> list[Any]:
            return iteration(_ids(convert_element_type(k, np.int32), self.sizes), carry)

        start = [arrays[i] for i in carried]
        if all(isinstance(size, int) and size == 1 for size in self.sizes):
            # A single program needs no loop, and its blocks begin at known positions.
            found = iteration([np.int32(0)] * len(self.sizes), start)
        else:
            found = fori_loop(np.int32(0), _product(self.sizes), body, start)
        after = list(arrays)
        for i, x in zip(carried, found, strict=True):
            after[i] = x
        return after

    def _step(self, ids: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        scalars = [
            holding(t.inner_aval, x) for t, x in zip(self.prefetched, self.scalars, strict=True)
        ]
        places = [blocks.place(ids, scalars) for blocks in self.blocks]
        count = len(self.blocks)
        refs = [
            holding(blocks.seen.inner_aval, blocks.read(x, place))
            for blocks, x, place in zip(self.blocks, values[:count], places, strict=True)
        ]
        scratch = [
            holding(t.inner_aval, x) for t, x in zip(self.scratch, values[count:], strict=True)
        ]
        before = [ref.content for ref in refs]
        self.kernel.run([*ids, *scalars, *refs, *scratch])
        after = [
            x if ref.content is old else blocks.write(x, place, ref.content)
            for blocks, x, place, ref, old in zip(
                self.blocks, values[:count], places, refs, before, strict=True
            )
        ]
        return [*after, *[ref.content for ref in scratch]]


def _ids(k: Any, sizes: Sequence[Any]) -> list[Any]:
    """Return the program ids of the k-th program in row-major order."""
    ids = []
    for axis, size in enumerate(sizes):
        behind = _product(sizes[axis + 1 :])
        i = k if type(behind) is np.int32 and behind == 1 else div(k, behind)
        ids.append(i if axis == 0 else rem(i, _product([size])))
    return ids


def _product(sizes: Sequence[Any]) -> Any:
    known = math.prod([size for size in sizes if isinstance(size, int)])
    found: Any = np.int32(known)
    for size in sizes:
        if not isinstance(size, int):
            found = mul(found, convert_element_type(jnp.asarray(size), np.int32))
    return found


def _cut(
    what: str, specs: Any, arrays: Sequence[_Array], tree: PyTreeDef, programs: Programs
) -> list[Blocks]:
    flat = [no_block_spec] * len(arrays)
    if specs is not no_block_spec:
        flat, found = tree_flatten(specs)
        if found != tree:
            raise _mismatch(what, specs, tree)
    return [
        blocks_of(spec, array.aval, array.origin, programs)
        for spec, array in zip(flat, arrays, strict=True)
    ]


def _mismatch(what: str, specs: Any, tree: PyTreeDef) -> ValueError:
    other = "inputs" if what == "in_specs" else "out_shape"
    found = tree_structure(specs)
    errors = [
        f"{f'at {keystr(path)}, ' if path else ''}`{what}` is {a} but `{other}` is {b}, so {why}"
        for path, a, b, why in equality_errors(
            tree_unflatten(found, range(found.num_leaves)),
            tree_unflatten(tree, range(tree.num_leaves)),
        )
    ]
    return ValueError(
        three_lines(
            f"pallas_call at {current_source()}",
            f"Pytree for `{what}` and `{other}` do not match. There are {len(errors)} mismatches, "
            f"including: {'; '.join(errors)}",
            f"pass one BlockSpec for each of the {tree.num_leaves} arrays: {tree}",
        )
    )


def _outputs(out_shape: Any) -> tuple[list[_Array], PyTreeDef]:
    if isinstance(out_shape, list):
        out_shape = tuple(out_shape)
    pairs, tree = tree_flatten_with_path(out_shape)
    found = []
    for path, x in pairs:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            raise ValueError(
                three_lines(
                    f"pallas_call at {current_source()}",
                    f"out_shape{keystr(path)} has no shape and dtype: {x!r:.60}",
                    "pass a kiln.ShapeDtypeStruct(shape, dtype) for each output",
                )
            )
        dtype = x.dtype if dtypes.is_extended(x.dtype) else dtypes.canonicalize_dtype(x.dtype)
        found.append(_Array(ShapedArray(tuple(x.shape), dtype), f"outputs{keystr(path)}"))
    return found, tree


def _check_only_grid_spec(grid: Any, in_specs: Any, out_specs: Any, scratch_shapes: Any) -> None:
    for name, value, absent in (
        ("grid", grid, ()),
        ("in_specs", in_specs, no_block_spec),
        ("out_specs", out_specs, no_block_spec),
        ("scratch_shapes", scratch_shapes, ()),
    ):
        if value is not absent and value != absent:
            shown = absent if absent is no_block_spec else "()"
            raise ValueError(
                three_lines(
                    f"pallas_call with grid_spec and {name} at {current_source()}",
                    f"If `grid_spec` is specified, then `{name}` must be `{shown}`. It is "
                    f"{value!r:.60}",
                    f"pass {name} to the GridSpec",
                )
            )


def _check_platform() -> None:
    device = options().default_device
    platform = getattr(device, "platform", device)
    if platform in (None, "cpu"):
        return
    raise NotImplementedError(
        three_lines(
            f"pallas_call on the platform {platform} at {current_source()}",
            "kernels are compiled only for the CPU: there is no lowering to Mosaic or Triton",
            "pass interpret=True, which runs the grid as a loop there",
        )
    )
