"""Kernels, given a library: jax in interpret mode, or kiln in its place."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.differential.program_groups import registry

PROGRAMS, program = registry()


def pallas(jax: Any, name: str = "") -> Any:
    """Return the library's module of kernels, or one within it."""
    return importlib.import_module(f"{jax.__name__}.experimental.pallas{name}")


def call(jax: Any, kernel: Any, shape: Any, *args: Any, dtype: Any = np.float32, **how: Any) -> Any:
    """Run a kernel with one output."""
    out = jax.ShapeDtypeStruct(shape, dtype)
    return pallas(jax).pallas_call(kernel, out_shape=out, interpret=True, **how)(*args)


def x(*shape: int) -> Any:
    """Return 0, 1, 2, ... as float32."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def copy(x_ref: Any, o_ref: Any) -> None:
    """Copy a block."""
    o_ref[...] = x_ref[...]


@program("blocks")
def whole(jax):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + 2 * y_ref[...]

    return call(jax, kernel, (2, 3), x(2, 3), x(2, 3))


@program("blocks")
def one_axis(jax):
    block = pallas(jax).BlockSpec((2,), lambda i: (i,))
    return call(jax, copy, (6,), x(6), grid=(3,), in_specs=[block], out_specs=block)


@program("blocks")
def turned_around(jax):
    pl = pallas(jax)
    into, out = pl.BlockSpec((2,), lambda i: (i,)), pl.BlockSpec((2,), lambda i: 2 - i)
    return call(jax, copy, (6,), x(6), grid=3, in_specs=[into], out_specs=out)


@program("blocks")
def two_axes(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        i, j = pl.program_id(0), pl.program_id(1)
        o_ref[...] = x_ref[...] + 100 * i + 1000 * j + 10000 * pl.num_programs(1)

    block = pl.BlockSpec((2, 3), lambda i, j: (i, j))
    return call(jax, kernel, (4, 9), x(4, 9), grid=(2, 3), in_specs=[block], out_specs=block)


@program("blocks")
def axes_that_kernels_do_not_see(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    into = pl.BlockSpec((None, 2, 3), lambda i: (i, 0, 0))
    out = pl.BlockSpec((pl.squeezed, 3, 2), lambda i: (i, 0, 0))
    return call(jax, kernel, (4, 3, 2), x(4, 2, 3), grid=(4,), in_specs=[into], out_specs=out)


@program("blocks")
def trees(jax):
    pl = pallas(jax)

    def kernel(tree, out):
        out["sum"][...] = tree["a"][...] + tree["b"][0][...]
        out["rest"][0][...] = tree["b"][1][...] * 2

    shapes = {
        "sum": jax.ShapeDtypeStruct((3,), np.float32),
        "rest": [jax.ShapeDtypeStruct((2,), np.int32)],
    }
    args = {"a": x(3), "b": [x(3), np.arange(2, dtype=np.int32)]}
    return jax.tree.leaves(pl.pallas_call(kernel, out_shape=shapes, interpret=True)(args))


@program("blocks")
def two_outputs(jax):
    pl = pallas(jax)

    def kernel(x_ref, a_ref, b_ref):
        a_ref[...] = x_ref[...] + 1
        b_ref[...] = (x_ref[...] > 2).astype(b_ref.dtype)

    block = pl.BlockSpec((2,), lambda i: (i,))
    shapes = [jax.ShapeDtypeStruct((6,), np.float32), jax.ShapeDtypeStruct((6,), np.int8)]
    return pl.pallas_call(
        kernel, shapes, grid=(3,), in_specs=[block], out_specs=[block, block], interpret=True
    )(x(6))


@program("blocks")
def the_whole_array_for_each_program(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[i] = x_ref[i] * 2 + x_ref[2 - i]

    return call(jax, kernel, (3, 2), x(3, 2), grid=(3,))


@program("blocks")
def no_programs(jax):
    block = pallas(jax).BlockSpec((2,), lambda i: (i,))
    return call(jax, copy, (6,), x(6), grid=(0,), in_specs=[block], out_specs=block)


@program("blocks")
def integers_and_booleans(jax):
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[1]

    shape = (4,)
    return [
        call(jax, kernel, shape, np.ones(4, dtype), dtype=dtype)
        for dtype in (np.int8, np.uint16, np.int32, np.bool_, np.float16)
    ]


@program("edges")
def blocks_beyond_the_end(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum(keepdims=True) * jax.numpy.ones(2)

    into, out = pl.BlockSpec((4,), lambda i: (i,)), pl.BlockSpec((2,), lambda i: (i,))
    return call(jax, kernel, (5,), x(10), grid=(3,), in_specs=[into], out_specs=out)


@program("edges")
def both_axes(jax):
    pl = pallas(jax)
    block = pl.BlockSpec((3, 2), lambda i, j: (i, j))
    grid = (pl.cdiv(4, 3), pl.cdiv(5, 2))
    return call(jax, copy, (4, 5), x(4, 5), grid=grid, in_specs=[block], out_specs=block)


@program("edges")
def padding_of_integers(jax):
    pl = pallas(jax)
    into, out = pl.BlockSpec((4,), lambda i: (i,)), pl.BlockSpec((4,), lambda i: (i,))
    wide = np.arange(6, dtype=np.int32)
    return call(jax, copy, (8,), wide, grid=2, in_specs=[into], out_specs=out, dtype=np.int32)


@program("edges")
def blocks_that_do_not_exist(jax):
    pl = pallas(jax)
    into, out = pl.BlockSpec((2,), lambda i: (i + 5,)), pl.BlockSpec((2,), lambda i: (i,))
    return call(jax, copy, (4,), x(4), grid=2, in_specs=[into], out_specs=out)


@program("edges")
def windows_at_elements(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum(keepdims=True)

    into = pl.BlockSpec((pl.Element(3),), lambda i: (i,))
    out = pl.BlockSpec((1,), lambda i: (i,))
    return call(jax, kernel, (4,), x(6), grid=4, in_specs=[into], out_specs=out)


@program("edges")
def windows_with_padding(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    into = pl.BlockSpec((pl.Element(3, (1, 2)),), lambda i: (2 * i,))
    out = pl.BlockSpec((3,), lambda i: (i,))
    return call(jax, kernel, (12,), x(6), grid=4, in_specs=[into], out_specs=out)


@program("edges")
def outputs_that_nobody_wrote(jax):
    pl = pallas(jax)

    def kernel(o_ref):
        o_ref[...] = x(2)

    def constant(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    out = pl.BlockSpec((2,), lambda i: (2 * i,))
    into = pl.BlockSpec((2,), lambda i: (0,))
    return call(jax, constant, (6,), x(2), grid=2, in_specs=[into], out_specs=out)


@program("state")
def sums_over_programs(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jax.numpy.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    into = pl.BlockSpec((2, 1), lambda i, j: (i, j))
    out = pl.BlockSpec((2, 1), lambda i, j: (i, 0))
    return call(jax, kernel, (4, 1), x(4, 5), grid=(2, 5), in_specs=[into], out_specs=out)


@program("state")
def product_with_scratch(jax):
    pl = pallas(jax)

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def first():
            acc_ref[...] = jax.numpy.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...] @ y_ref[...]

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def last():
            o_ref[...] = acc_ref[...]

    return call(
        jax,
        kernel,
        (4, 6),
        x(4, 8),
        x(8, 6),
        grid=(2, 3, 4),
        in_specs=[
            pl.BlockSpec((2, 2), lambda i, j, k: (i, k)),
            pl.BlockSpec((2, 2), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((2, 2), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.ANY((2, 2), np.float32)],
    )


@program("state")
def scratch_by_name(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref, *, count, seen):
        @pl.when(pl.program_id(0) == 0)
        def _():
            count[0] = 0
            seen[...] = x_ref[...]

        count[0] += 1
        seen[...] += x_ref[...]
        o_ref[...] = seen[...] * count[0]

    block = pl.BlockSpec((2,), lambda i: (i,))
    return call(
        jax,
        kernel,
        (6,),
        x(6),
        grid=(3,),
        in_specs=[block],
        out_specs=block,
        scratch_shapes={"count": pl.ANY((1,), np.int32), "seen": pl.ANY((2,), np.float32)},
    )


@program("state")
def scratch_is_undefined_at_first(jax):
    def kernel(o_ref, i_ref, a, b):
        o_ref[...] = a[...]
        i_ref[...] = b[...]

    pl = pallas(jax)
    shapes = (jax.ShapeDtypeStruct((2,), np.float32), jax.ShapeDtypeStruct((2,), np.int8))
    scratch = [pl.ANY((2,), np.float32), pl.ANY((2,), np.int8)]
    return pl.pallas_call(kernel, shapes, scratch_shapes=scratch, interpret=True)()


@program("state")
def aliases(jax):
    pl = pallas(jax)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[0] = x_ref[0] + o_ref[0]

    into = [pl.BlockSpec((2,), lambda i: (i,))] * 2
    out = pl.BlockSpec((2,), lambda i: (2 * i,))
    return call(
        jax,
        kernel,
        (6,),
        x(6),
        x(6) + 10,
        grid=(2,),
        in_specs=into,
        out_specs=out,
        input_output_aliases={1: 0},
    )


@program("state")
def inputs_that_kernels_write_to(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        x_ref[0] = 7.0

    into, out = pl.BlockSpec((2,), lambda i: (0,)), pl.BlockSpec((2,), lambda i: (i,))
    return call(jax, kernel, (6,), x(2), grid=3, in_specs=[into], out_specs=out)


@program("state")
def buffers_of_a_scope(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        def doubled(a, b):
            a[...] = x_ref[...] * 2
            b[...] = a[...] + 1
            o_ref[...] = b[...]
            return a[...].sum()

        o_ref[0] += pl.run_scoped(doubled, pl.ANY((3,), np.float32), b=pl.ANY((3,), np.float32))

    return call(jax, kernel, (3,), x(3))


@program("state")
def states(jax):
    def twice(refs):
        refs[0][...] = refs[1][...] * 2
        refs[1][0] = refs[0][1]

    return pallas(jax).run_state(twice)((x(3), x(3) + 1))


@program("loops")
def rows(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        @pl.loop(0, x_ref.shape[0])
        def row(i):
            o_ref[i, :] = x_ref[i, :] - x_ref[i, :].max()

    block = pl.BlockSpec((2, 3), lambda i: (i, 0))
    return call(jax, kernel, (4, 3), x(4, 3), grid=2, in_specs=[block], out_specs=block)


@program("loops")
def with_a_carry_and_steps(jax):
    pl = pallas(jax)

    def kernel(x_ref, n_ref, o_ref):
        @pl.loop(0, 6, step=2, init_carry=np.float32(0))
        def total(i, so_far):
            return so_far + x_ref[i]

        @pl.loop(1, n_ref[()])
        def more(i):
            o_ref[i] = x_ref[i] + total

        o_ref[0] = total

    return call(jax, kernel, (6,), x(6), np.int32(4))


@program("loops")
def conditions(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[...] = x_ref[...]
        pl.when(i % 2 == 0)(lambda: o_ref.__setitem__(0, -1.0))
        pl.when(False)(lambda: o_ref.__setitem__(1, -2.0))
        pl.when(True)(lambda: o_ref.__setitem__(1, i * 10.0))

    block = pl.BlockSpec((2,), lambda i: (i,))
    return call(jax, kernel, (6,), x(6), grid=3, in_specs=[block], out_specs=block)


@program("loops")
def grids_of_traced_size(jax):
    pl = pallas(jax)
    block = pl.BlockSpec((1, 2), lambda i, j: (i, j))

    @jax.jit
    def run(n, y):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 10 + pl.num_programs(0) + pl.program_id(1)

        return call(jax, kernel, (3, 4), y, grid=(n, 2), in_specs=[block], out_specs=block)

    return [run(np.int32(2), x(3, 4)), run(np.int32(3), x(3, 4))]


@program("parts")
def starts_that_are_traced(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[pl.ds(2 * i, 2)] = x_ref[pl.ds(i, 2)] * x_ref[pl.ds(1, 2)]

    return call(jax, kernel, (6,), x(6), grid=3)


@program("parts")
def starts_beyond(jax):
    pl = pallas(jax)

    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(i_ref[0], 3)]

    return [call(jax, kernel, (3,), np.array([i]), x(6)) for i in (1, 4, 9, -1, -2)]


@program("parts")
def of_several_axes(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[i, pl.ds(i, 2)] = x_ref[pl.ds(i, 2), 1]
        o_ref[i, pl.ds(2, 2)] = x_ref[i, pl.ds(1, 2, 2)] + x_ref[1, pl.ds(i, 2)]

    def start(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jax.numpy.zeros_like(o_ref)

        kernel(x_ref, o_ref)

    return call(jax, start, (2, 4), x(4, 5), grid=2)


@program("parts")
def with_arrays(jax):
    pl = pallas(jax)

    def kernel(i_ref, x_ref, o_ref):
        k = pl.program_id(0)
        o_ref[...] = x_ref[pl.ds(k, 2), i_ref[...]]

    return call(jax, kernel, (2, 3), np.array([2, 0, 1]), x(4, 5), grid=2)


@program("parts")
def views(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        row = x_ref.at[i]
        out = o_ref.at[pl.ds(i, 1)]
        out[0] = row[...] * 2
        out.at[0].at[pl.ds(1, 2)][...] = row[pl.ds(i, 2)] + row[0]

    return call(jax, kernel, (3, 4), x(3, 4), grid=3)


@program("parts")
def slices_of_all(jax):
    pl = pallas(jax)

    def kernel(x_ref, o_ref):
        o_ref[pl.ds(2)] = x_ref[pl.ds(1, 2)]
        o_ref[pl.ds(2, 2)] = x_ref[pl.ds(None)][:2] + x_ref[pl.dslice(0, 2, 3)]

    return call(jax, kernel, (4,), x(6))


@program("masks")
def loads_and_stores(jax):
    pl, triton = pallas(jax), pallas(jax, ".triton")

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        at = pl.ds(4 * i, 4)
        mask = 4 * i + jax.numpy.arange(4) < 10
        got = triton.load(x_ref.at[at], mask=mask, other=-1.0)
        triton.store(o_ref.at[at], got + 1, mask=mask)

    return call(jax, kernel, (10,), x(10), grid=3)


@program("masks")
def of_two_axes(jax):
    pl, triton = pallas(jax), pallas(jax, ".triton")

    def kernel(x_ref, o_ref):
        i, j = pl.program_id(0), pl.program_id(1)
        at = (pl.ds(2 * i, 2), pl.ds(3 * j, 3))
        rows = 2 * i + jax.numpy.arange(2) < 3
        columns = 3 * j + jax.numpy.arange(3) < 5
        mask = rows[:, None] & columns[None]
        got = triton.load(x_ref.at[at], mask=mask, other=0.0)
        triton.store(o_ref.at[at], got * 2, mask=mask)

    return call(jax, kernel, (3, 5), x(3, 5), grid=(2, 2))


@program("masks")
def of_known_parts(jax):
    triton = pallas(jax, ".triton")

    def kernel(x_ref, o_ref):
        mask = jax.numpy.arange(3) != 1
        o_ref[...] = x_ref[...]
        triton.store(o_ref.at[1:4], triton.load(x_ref.at[:3], mask=mask, other=9.0), mask=mask)

    return call(jax, kernel, (5,), x(5))


@program("masks")
def of_arrays_of_positions(jax):
    triton = pallas(jax, ".triton")

    def kernel(i_ref, x_ref, o_ref):
        i = i_ref[...]
        o_ref[...] = x_ref[...]
        got = triton.load(x_ref.at[i], mask=i < 4, other=0.0)
        triton.store(o_ref.at[i], got + 10, mask=i < 4)

    return call(jax, kernel, (5,), np.array([3, 0, 4]), x(5))


@program("scalars")
def prefetched(jax):
    pl, tpu = pallas(jax), pallas(jax, ".tpu")

    def kernel(order_ref, scale_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale_ref[0] + order_ref[pl.program_id(0)]

    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(3,),
        in_specs=[pl.BlockSpec((2,), lambda i, order, scale: (order[i],))],
        out_specs=pl.BlockSpec((2,), lambda i, *_: (i,)),
    )
    order, scale = np.array([2, 0, 1], np.int32), np.array([3.0], np.float32)
    return call(jax, kernel, (6,), order, scale, x(6), grid_spec=spec)


@program("scalars")
def weak_types(jax):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 1.5 + 1

    return [
        call(jax, kernel, (), 2.0),
        call(jax, kernel, (2,), x(2).astype(np.float16), dtype=np.float16),
    ]


@program("transformations")
def mapped(jax):
    pl = pallas(jax)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + pl.program_id(0)

    block = pl.BlockSpec((2,), lambda i: (i,))

    def run(a, b):
        return call(jax, kernel, (6,), a, b, grid=3, in_specs=[block, block], out_specs=block)

    return [
        jax.vmap(run)(x(2, 6), x(2, 6)),
        jax.vmap(run, (0, None))(x(2, 6), x(6)),
        jax.vmap(run, (1, 0), 1)(x(6, 2), x(2, 6)),
        jax.vmap(jax.vmap(run, (None, 0)), (0, None))(x(2, 6), x(3, 6)),
        jax.jit(jax.vmap(run))(x(2, 6), x(2, 6)),
    ]


@program("transformations")
def forward_derivatives(jax):
    pl = pallas(jax)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jax.numpy.sin(x_ref[...]) * y_ref[...]

    block = pl.BlockSpec((2,), lambda i: (i,))

    def run(a, b):
        return call(jax, kernel, (6,), a, b, grid=3, in_specs=[block, block], out_specs=block)

    return [
        *jax.jvp(run, (x(6), x(6)), (x(6) + 1, x(6))),
        *jax.jvp(jax.jit(run), (x(6), x(6)), (x(6) + 1, x(6))),
    ]


@program("functions")
def numbers(jax):
    pl = pallas(jax)
    found = [pl.cdiv(9, 2), pl.cdiv(8, 2), pl.align_to(5, 4), pl.next_power_of_2(5)]
    found += [pl.next_power_of_2(0), *pl.strides_from_shape((2, 3, 4))]
    traced = [pl.cdiv(np.int32(9), jax.numpy.int32(4)), pl.align_to(jax.numpy.int32(5), 4)]
    traced.append(jax.jit(lambda y: pl.reciprocal(y))(x(3) + 1))
    return [np.array(found), *traced, pl.multiple_of(np.int32(8), 4)]


@program("functions")
def products(jax):
    triton = pallas(jax, ".triton")

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = triton.dot(x_ref[...], y_ref[...], trans_a=True, trans_b=True)

    return [
        call(jax, kernel, (3, 4), x(2, 3), x(4, 2)),
        call(jax, kernel, (3, 4), x(2, 3).astype(np.float16), x(4, 2).astype(np.float16)),
    ]


def _broken(name: str, run: Callable[[Any], Any]) -> None:
    def program(jax: Any) -> Any:
        run(jax)

    program.__name__ = name
    PROGRAMS.setdefault("refused", []).append(program)


def _spec(shape: Any, index_map: Any) -> Callable[[Any], Any]:
    return lambda jax: call(
        jax, copy, (6,), x(6), grid=3, in_specs=[pallas(jax).BlockSpec(shape, index_map)]
    )


for _name, _run in {
    "rank_of_a_block": _spec((2, 2), lambda i: (i, 0)),
    "too_few_parameters": _spec((2,), lambda: 0),
    "too_many_parameters": _spec((2,), lambda i, j: (i,)),
    "too_many_indices": _spec((2,), lambda i: (i, 0)),
    "indices_that_are_no_integers": _spec((2,), lambda i: (1.5,)),
    "indices_that_are_no_scalars": _spec((2,), lambda i: (x(2).astype(int),)),
    "a_size_that_is_none": _spec(("a",), lambda i: (i,)),
    "no_sequence_of_specifications": lambda jax: call(
        jax, copy, (6,), x(6), in_specs=pallas(jax).BlockSpec((6,), lambda: 0)
    ),
    "too_many_specifications": lambda jax: call(
        jax, copy, (6,), x(6), in_specs=[pallas(jax).BlockSpec()] * 2
    ),
    "another_structure_of_outputs": lambda jax: call(
        jax, copy, (6,), x(6), out_specs=(pallas(jax).BlockSpec(),)
    ),
    "grid_spec_and_grid": lambda jax: call(
        jax, copy, (6,), x(6), grid=(1,), grid_spec=pallas(jax).GridSpec((1,))
    ),
    "a_grid_of_floats": lambda jax: call(jax, copy, (6,), x(6), grid=(1.5,)),
    "a_result": lambda jax: call(jax, lambda a, b: a[...], (6,), x(6)),
    "a_kernel_of_fewer_arguments": lambda jax: call(jax, lambda a: None, (6,), x(6)),
    "another_shape": lambda jax: call(jax, copy, (7,), x(6)),
    "another_dtype": lambda jax: call(jax, copy, (6,), x(6), dtype=np.int32),
    "a_reference_into_a_reference": lambda jax: call(
        jax, lambda a, b: b.__setitem__(..., a), (6,), x(6)
    ),
    "an_alias_of_no_input": lambda jax: call(jax, copy, (6,), x(6), input_output_aliases={2: 0}),
    "an_alias_of_no_output": lambda jax: call(jax, copy, (6,), x(6), input_output_aliases={0: 1}),
    "an_alias_of_another_shape": lambda jax: call(
        jax, copy, (7,), x(6), input_output_aliases={0: 0}
    ),
    "an_axis_that_the_grid_has_not": lambda jax: call(
        jax, lambda a, b: b.__setitem__(0, pallas(jax).program_id(1)), (6,), x(6), grid=(1,)
    ),
    "a_part_out_of_bounds": lambda jax: call(
        jax, lambda a, b: b.__setitem__(..., a[pallas(jax).ds(2, 6)]), (6,), x(6)
    ),
    "a_cost_of_floats": lambda jax: pallas(jax).CostEstimate(1.5, 1, 1),
}.items():
    _broken(_name, _run)
