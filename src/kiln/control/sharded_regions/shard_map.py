"""One program per device: a function of the shards of arrays, which may use collectives.

The primitive holds the body, a program over one member's shards. Its meaning: split the operands
along the mesh axes, map the body over every mesh axis by name, join the results (`expand`). Engines
with several devices run the members in parallel instead.

Derivatives are regions too. With `check_vma` the types in the body say along which axes a value
varies, and the body's own derivative is sufficient. Without, an operand that is not sharded along a
mesh axis is one value shared by all members there, so its cotangent is their sum; a result that is
not sharded along one is the mean of the members' values (which should be equal), so each gets an
equal share of the cotangent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from kiln.base.options.config import options, override
from kiln.control.regions.region import (
    Extend,
    Region,
    avals_of,
    fill_zeros,
    memoized,
    merge,
    pull_back,
    select_by,
    split,
)
from kiln.control.sharded_regions.shards import (
    axes_to_split_by,
    joined,
    mesh_inside,
    shard_names,
    shard_of,
    whole_type,
    with_axis,
)
from kiln.core.absent import is_linear, is_zero
from kiln.core.meaning import meaning
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of, axes_bound
from kiln.execution.placement import NO_REQUEST, PlacementRequest, Placer
from kiln.ir.effects import Effects, named_axis
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.shardings.mesh import Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray, plain, with_split
from kiln.ops.collective import psum_p
from kiln.ops.elements.elementwise import div, ne
from kiln.ops.elements.families import constant
from kiln.ops.indexing.slicing import dynamic_index_in_dim
from kiln.ops.indexing.static_slicing import index_in_dim
from kiln.ops.reductions.reduction import argmax
from kiln.ops.shape import mapped_at, reshape
from kiln.ops.sharding import retyped
from kiln.transforms.batching import MappedAxis, batch, batch_jaxpr
from kiln.transforms.jvp import jvp_jaxpr

Specs = tuple[PartitionSpec, ...]
Axes = tuple[Any, ...]


class ShardMap(Region):
    """Run `jaxpr` on each member's shards, split and joined along the axes in `manual_axes`."""

    name = "shard_map"

    def effects(self, params: dict[str, Any]) -> Effects:
        return _outside(params["jaxpr"], params["manual_axes"])

    def infer(
        self,
        *xs: Any,
        jaxpr: Jaxpr,
        mesh: Mesh,
        manual_axes: Axes,
        out_specs: Specs,
        **_: Any,
    ) -> list[ShapedArray]:
        return [
            whole_type(aval, mesh, spec, manual_axes)
            for aval, spec in zip(jaxpr.out_avals, out_specs, strict=True)
        ]

    def numpy(self, *xs: Any, **params: Any) -> Any:
        return meaning(expanded(params), xs)

    def evaluate(self, *xs: Any, **params: Any) -> Any:
        return _placer(params).run(xs)

    def expand(self, *xs: Any, **params: Any) -> list[Any]:
        return eval_jaxpr(expanded(params), (), *xs)

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        in_specs: Specs,
        out_specs: Specs,
        **members: Any,
    ) -> Any:
        moving = [not is_zero(t) for t in tangents]
        with members_of(**members), mesh_of_members(members["mesh"], members["manual_axes"]):
            both, out_moving = jvp_jaxpr(jaxpr, moving)
        outs = self.bind(
            *primals,
            *select_by(moving, tangents),
            jaxpr=both,
            **members,
            in_specs=(*in_specs, *select_by(moving, in_specs)),
            out_specs=(*out_specs, *select_by(out_moving, out_specs)),
        )
        n = len(jaxpr.outvars)
        zeros = [x.tangent() for x in avals_of(outs[:n])]
        return outs[:n], fill_zeros(out_moving, outs[n:], zeros)

    def batch_over(
        self,
        axis: MappedAxis,
        xs: Sequence[Any],
        axes: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        in_specs: Specs,
        out_specs: Specs,
        **members: Any,
    ) -> Any:
        # Inside, a mesh axis of the same name shadows the mapped one.
        inner = MappedAxis(axis.size) if axis.name in members["manual_axes"] else axis
        manual = members["manual_axes"]
        by = axes_to_split_by(axis.spmd, manual, jaxpr.effects, in_specs, out_specs)
        if by is not None:
            count = math.prod(members["mesh"].shape[name] for name in axes_of(by))
            inner = dataclasses.replace(inner, size=axis.size // count, spmd=None)
        if inner.split is not None:
            # The split of the examples is part of the types inside, too, unless one of its axes is
            # Manual.
            names = axes_of(inner.split[1])
            mesh = mesh_inside(members["mesh"], members["manual_axes"])
            stays = all(name in mesh.explicit_axes for name in names)
            inner = dataclasses.replace(inner, split=(mesh, inner.split[1]) if stays else None)
        with members_of(**members), mesh_of_members(members["mesh"], members["manual_axes"]):
            stacked, at = batch_jaxpr(jaxpr, inner, axes)
        outs = self.bind(
            *xs,
            jaxpr=stacked,
            **members,
            in_specs=tuple(with_axis(s, a, by) for s, a in zip(in_specs, axes, strict=True)),
            out_specs=tuple(with_axis(s, 0 if a else None, by) for s, a in zip(out_specs, at)),
        )
        if axis.split is not None:
            outs = [_split_again(x, axis.split) if a else x for x, a in zip(outs, at, strict=True)]
        return outs, [0 if s else None for s in at]

    def partial_eval(self, trace: Any, xs: Sequence[Any], params: dict[str, Any]) -> Any:
        mesh, manual_axes = params["mesh"], params["manual_axes"]
        unknown = [trace.unknown(x) for x in xs]
        with (
            members_of(mesh, manual_axes, params["check_vma"]),
            mesh_of_members(mesh, manual_axes),
        ):
            parts = split(params["jaxpr"], unknown)
            known, staged = _with_stacked_residuals(parts.known, parts.staged, parts.residuals)
        known_specs = select_by(unknown, params["in_specs"], False)
        stacked = [
            _names_first(manual_axes, aval if params["check_vma"] else None)
            for aval in staged.in_avals[: parts.residuals]
        ]
        outs = trace.known_bind(
            self,
            select_by(unknown, xs, False),
            {
                **params,
                "jaxpr": known,
                "in_specs": tuple(known_specs),
                "out_specs": (*select_by(parts.unknown_out, params["out_specs"], False), *stacked),
            },
        )
        count = len(outs) - parts.residuals
        staged_params = {
            **params,
            "jaxpr": staged,
            "in_specs": (*stacked, *select_by(unknown, params["in_specs"])),
            "out_specs": tuple(select_by(parts.unknown_out, params["out_specs"])),
        }
        operands = [*outs[count:], *select_by(unknown, xs)]
        results = trace.record(
            self,
            [trace.atom(x) for x in operands],
            self.infer(**staged_params),
            staged_params,
        )
        return merge(parts.unknown_out, results, outs[:count])

    def transpose(
        self,
        cts: Sequence[Any],
        *xs: Any,
        jaxpr: Jaxpr,
        mesh: Mesh,
        manual_axes: Axes,
        in_specs: Specs,
        out_specs: Specs,
        check_vma: bool,
    ) -> Any:
        linear = [is_linear(x) for x in xs]
        moving = [not is_zero(ct) for ct in cts]
        fixed = linear.count(False)
        ct_specs = select_by(moving, out_specs)
        with members_of(mesh, manual_axes, check_vma), mesh_of_members(mesh, manual_axes):
            back, there = pull_back(jaxpr, linear, moving)
            found_specs = select_by(there, select_by(linear, in_specs))

            def body(*args: Any) -> list[Any]:
                cts = args[fixed:]
                if check_vma:
                    # A result that is equal on several members is joined from all of them: sum its
                    # cotangents.
                    given = [
                        _summed(
                            ct,
                            [n for n in _sharded_axes(manual_axes, spec) if n not in aval.varying],
                        )
                        for ct, aval, spec in zip(cts, ct_avals, ct_specs, strict=True)
                    ]
                    return eval_jaxpr(back, (), *args[:fixed], *given)
                given = [
                    _shared(ct, mesh, _replicated_axes(manual_axes, spec))
                    for ct, spec in zip(cts, ct_specs, strict=True)
                ]
                outs = eval_jaxpr(back, (), *args[:fixed], *given)
                return [
                    _summed(ct, _replicated_axes(manual_axes, spec))
                    for ct, spec in zip(outs, found_specs, strict=True)
                ]

            in_avals, ct_avals = back.in_avals[:fixed], back.in_avals[fixed:]
            if check_vma:
                in_avals += [
                    aval.with_(varying=aval.varying.union(_sharded_axes(manual_axes, spec)))
                    for aval, spec in zip(ct_avals, ct_specs, strict=True)
                ]
            else:
                in_avals = back.in_avals
            whole = memoized(
                back,
                ("shared", mesh, manual_axes, check_vma, tuple(ct_specs), tuple(found_specs)),
                lambda: stage_pure(body, in_avals, name=jaxpr.name, purpose="transposition"),
            )
        outs = self.bind(
            *select_by(linear, xs, False),
            *select_by(moving, cts),
            jaxpr=whole,
            mesh=mesh,
            manual_axes=manual_axes,
            check_vma=check_vma,
            in_specs=(*select_by(linear, in_specs, False), *ct_specs),
            out_specs=tuple(found_specs),
        )
        pulled = fill_zeros(there, outs, avals_of(select_by(linear, xs)))
        return merge(linear, pulled, [None] * fixed)

    def thread_state(
        self,
        extend: Extend,
        state: Sequence[Any],
        xs: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        in_specs: Specs,
        out_specs: Specs,
        **members: Any,
    ) -> Any:
        """Give each member the state; continue with that of the first one that changes it."""
        count = len(state)
        with members_of(**members), mesh_of_members(members["mesh"], members["manual_axes"]):
            extended = extend(jaxpr)
            stacked = memoized(
                extended, ("stacked state", count), lambda: _stacked_state(extended, count)
            )
        outs = self.bind(
            *(*state, *xs),
            jaxpr=stacked,
            **members,
            in_specs=(*[PartitionSpec()] * count, *in_specs),
            out_specs=(*[_names_first(members["manual_axes"], None)] * count, *out_specs),
        )
        first = argmax(ne(outs[0], state[0]), 0, np.int32)
        return [*(dynamic_index_in_dim(x, first, 0, False) for x in outs[:count]), *outs[count:]]

    def live(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        jaxpr, needed = memoized(
            params["jaxpr"], ("live", tuple(used)), lambda: _live(params["jaxpr"], used)
        )
        changed = {
            **params,
            "jaxpr": jaxpr,
            "in_specs": tuple(select_by(needed, params["in_specs"])),
            "out_specs": tuple(select_by(used, params["out_specs"])),
        }
        return eqn.with_(
            invars=select_by(needed, eqn.invars),
            outvars=select_by(used, eqn.outvars),
            params=changed,
            effects=self.effects(changed),
        )


shard_map_p = ShardMap()


def _split_again(x: Any, split: tuple[Any, Any]) -> Any:
    """Split the mapped axis of a result as outside: specs do not cover it."""
    mesh, entry = split
    aval = aval_of(x)
    return retyped(x, with_split(aval, mesh, (entry, *aval.split[1:])))


def _outside(jaxpr: Jaxpr, manual_axes: Axes) -> Effects:
    return jaxpr.effects - {named_axis(name) for name in manual_axes}


def _live(jaxpr: Jaxpr, used: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    clean, needed = eliminate_dead_code(jaxpr, used)
    return drop_inputs(clean, needed), needed


def _placer(params: dict[str, Any]) -> Placer:
    jaxpr = params["jaxpr"]

    def make() -> Placer:
        # Made for a copy: values stored on a jaxpr must not keep that jaxpr alive.
        inner = {**params, "jaxpr": jaxpr.with_()}
        invars = [
            Var(whole_type(v.aval, params["mesh"], spec, params["manual_axes"]))
            for v, spec in zip(jaxpr.invars, params["in_specs"], strict=True)
        ]
        outvars = [Var(aval) for aval in shard_map_p.infer(**params)]
        eqn = Eqn(shard_map_p, invars, outvars, inner, shard_map_p.effects(inner))
        program = Jaxpr([], invars, [eqn], outvars, arg_names=jaxpr.arg_names)
        mesh, specs, request = params["mesh"], params["out_specs"], NO_REQUEST
        if set(params["manual_axes"]) == {*mesh.axis_names} and not mesh.is_explicit:
            # Results get their shardings as written: P(None) is not turned into P().
            written = tuple([NamedSharding(mesh, spec) for spec in specs])
            request = PlacementRequest(out_shardings=written)
        return Placer(program, shard_map_p.name, request=request)

    return memoized(jaxpr, ("placer", options().key(), *_key(params)), make)


def _key(params: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(params[k] for k in ("mesh", "manual_axes", "in_specs", "out_specs", "check_vma"))


def members_of(mesh: Mesh, manual_axes: Axes, check_vma: bool) -> AbstractContextManager[None]:
    """Bind the names of the mesh axes, with types that track what varies if `check_vma`."""
    return axes_bound((name, mesh.shape[name], check_vma) for name in manual_axes)


def mesh_of_members(mesh: Mesh, manual_axes: Axes) -> AbstractContextManager[Any]:
    """Put the mesh in force, with these axes Manual."""
    here = options().mesh
    # Inside another shard_map, its axes stay Manual.
    known = () if here is None else here.manual_axes
    return override(mesh=mesh_inside(mesh, (*manual_axes, *known)))


def _replicated_axes(manual_axes: Axes, spec: PartitionSpec) -> Axes:
    named = shard_names(spec)
    return tuple(name for name in manual_axes if name not in named)


def _sharded_axes(manual_axes: Axes, spec: PartitionSpec) -> Axes:
    named = shard_names(spec)
    return tuple(name for name in manual_axes if name in named)


def _names_first(manual_axes: Axes, aval: ShapedArray | None) -> PartitionSpec:
    """Shard the first axis along all mesh axes, or along those that a type varies along."""
    names = [name for name in manual_axes if aval is None or name in aval.varying]
    return PartitionSpec(tuple(names)) if names else PartitionSpec()


def _shared(ct: Any, mesh: Mesh, names: Axes) -> Any:
    count = math.prod(mesh.shape[name] for name in names)
    return ct if count == 1 else div(ct, constant(count, ct))


def _summed(ct: Any, names: Sequence[Any]) -> Any:
    return psum_p.bind(ct, axes=tuple(names), axis_index_groups=None) if names else ct


def _stacked_state(extended: Jaxpr, count: int) -> Jaxpr:
    """Give the state among the results a leading axis of size 1, along which it is joined."""

    def run(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(extended, (), *xs)
        return [*(reshape(x, (1, *aval_of(x).shape)) for x in outs[:count]), *outs[count:]]

    return stage_pure(run, extended.in_avals, name=extended.name, purpose="shard_map")


def _with_stacked_residuals(known: Jaxpr, staged: Jaxpr, count: int) -> tuple[Jaxpr, Jaxpr]:
    """Give residuals a leading axis of size 1, along which those of all members are joined."""
    return memoized(staged, "stacked residuals", lambda: _stacked_residuals(known, staged, count))


def _stacked_residuals(known: Jaxpr, staged: Jaxpr, count: int) -> tuple[Jaxpr, Jaxpr]:
    n = len(known.outvars) - count

    def first(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(known, (), *xs)
        return [*outs[:n], *(reshape(x, (1, *aval_of(x).shape)) for x in outs[n:])]

    def second(*xs: Any) -> list[Any]:
        residuals = [reshape(x, aval_of(x).shape[1:]) for x in xs[:count]]
        return eval_jaxpr(staged, (), *residuals, *xs[count:])

    avals = staged.in_avals
    stacked = [a.with_axis(0, 1) for a in avals[:count]]
    info = {"name": known.name, "purpose": "partial evaluation"}
    return (
        stage_pure(first, known.in_avals, **info),
        stage_pure(second, [*stacked, *avals[count:]], **info),
    )


# Meaning.


def expanded(params: dict[str, Any]) -> Jaxpr:
    """Return the program that computes all members together, on whole arrays."""
    jaxpr = params["jaxpr"]

    def make() -> Jaxpr:
        avals = [
            plain(whole_type(v.aval, params["mesh"], spec, params["manual_axes"]))
            for v, spec in zip(jaxpr.invars, params["in_specs"], strict=True)
        ]
        return stage_pure(
            lambda *xs: _all_members(xs, **params), avals, name=jaxpr.name, purpose="shard_map"
        )

    return memoized(jaxpr, ("expanded", *_key(params)), make)


def _all_members(
    xs: Sequence[Any],
    *,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual_axes: Axes,
    in_specs: Specs,
    out_specs: Specs,
    check_vma: bool,
) -> list[Any]:
    order = [name for name in mesh.axis_names if name in manual_axes]

    def over(names: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        if not names:
            return eval_jaxpr(jaxpr, (), *values)
        name, *rest = names
        axis = MappedAxis(mesh.shape[name], name, is_of_mesh=True)
        at = [0 if name in shard_names(spec) else None for spec in in_specs]
        outs, found = batch(lambda *ys: over(rest, ys), axis, values, at)
        return [
            mapped_at(x, axis.size, a, 0)
            if name in shard_names(spec)
            else x
            if a is None
            else index_in_dim(x, 0, a, keepdims=False)
            for x, a, spec in zip(outs, found, out_specs, strict=True)
        ]

    parts = [shard_of(x, mesh, order, spec) for x, spec in zip(xs, in_specs, strict=True)]
    outs = over(order, parts)
    return [joined(x, mesh, order, spec) for x, spec in zip(outs, out_specs, strict=True)]
