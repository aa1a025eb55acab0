"""`shard_map`: a user-written per-device program that all devices of a mesh run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.options.config import options
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import (
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from kiln.base.wrapping import wraps
from kiln.control.regions.bodies import arrays_of, check_callable, stage_body
from kiln.control.sharded_regions.shard_map import members_of, mesh_of_members, shard_map_p
from kiln.control.sharded_regions.shards import mesh_inside, part_type, shard_counts, shard_names
from kiln.core.trace import aval_of
from kiln.ir.ref_type import AbstractRef
from kiln.ir.shardings.abstract_mesh import AbstractMesh
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.argument_types import leaf_type
from kiln.jit.signatures.parameters import parameter_name


class _Infer:
    """The marker of specs and axes that follow from the types of arguments."""

    def __repr__(self) -> str:
        return "Infer"


INFER = _Infer()


@known_keywords
def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = INFER,
    mesh: Mesh | None = None,
    axis_names: Collection[Any] = frozenset(),
    check_vma: bool = True,
    check_rep: bool | None = None,
) -> Callable[..., Any]:
    """Map a function over the devices of a mesh, each with its shards of the arguments.

    `in_specs` and `out_specs` are pytree prefixes of PartitionSpecs: how arguments are sharded and
    results are joined. Without `in_specs`, arguments are sharded as their types say. Collectives
    (`lax.psum`, ...) refer to mesh axes by name. If `axis_names` is given, the compiler handles the
    other mesh axes. With `check_vma` the types inside track the
    mesh axes along which a value may vary from member to member: a result that is not joined along
    an axis must not vary along it, and a gradient taken inside `f` with respect to a value shared
    by members is the sum over them (`lax.pcast` gives each member its own copy). Without it,
    nothing is checked, such a gradient is this member's contribution, and `psum` is its own
    transpose. `check_rep` is the former name of this option. In either case, derivatives of the
    mapped function are those of the whole program. Without `f`, returns a decorator; without
    `mesh`, uses that of the surrounding `with mesh:`.

    Raises: ValueError if specs do not match the mesh or the arrays, or if results may differ where
        the specs say they are equal; TypeError for specs of another type.
    Example:
        >>> mesh, rows = kiln.make_mesh((1,), ("i",)), kiln.P("i")
        >>> def centered(x):
        ...     return x - lax.pmean(x.mean(), "i")
        >>> kiln.shard_map(centered, mesh=mesh, in_specs=rows, out_specs=rows)(jnp.arange(3.0))
        Array([-1.,  0.,  1.], dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
            check_rep=check_rep,
        )
    check_callable("shard_map", "f", f)
    check = check_vma if check_rep is None else check_rep
    fun = f

    @wraps(fun)
    @api_boundary
    def mapped(*args: Any) -> Any:
        fixed = None if in_specs is INFER else _without_specs(in_specs, args)
        if fixed is not None:
            inner, specs_of_rest, rest = fixed(fun)
            return shard_map(
                inner,
                out_specs=out_specs,
                in_specs=specs_of_rest,
                mesh=mesh,
                axis_names=axis_names,
                check_vma=check,
            )(*rest)
        over = _Mapped(fun, _with_devices(mesh, args), axis_names)
        leaves, in_tree = arrays_of("shard_map", "args", args)
        paths = [path for path, _ in tree_flatten_with_path(args)[0]]
        names = [parameter_name(fun, p[0].idx) + keystr(p[1:]) for p in paths]
        avals = [aval_of(x) for x in leaves]
        if in_specs is INFER:
            specs = over.specs_of_types(avals)
            for spec in specs:
                over.check_names("in_specs", spec)
        else:
            specs = over.specs("in_specs", in_specs, args)
        for name, aval, spec in zip(names, avals, specs, strict=True):
            over.check_fit(f"the argument {name}", "in_specs", aval, spec)
        inside = mesh_inside(over.mesh, over.manual)
        local = [part_type(a, over.mesh, s, inside) for a, s in zip(avals, specs, strict=True)]
        if check:
            local = [
                a.with_(varying=a.varying.union(shard_names(s)))
                for a, s in zip(local, specs, strict=True)
            ]
        with (
            members_of(over.mesh, over.manual, check),
            mesh_of_members(over.mesh, over.manual),
        ):
            body = stage_body("shard_map", fun, in_tree, local)
        result = tree_unflatten(body.out_tree, range(body.out_tree.num_leaves))
        found = over.specs("out_specs", out_specs, result)
        in_all = (*[PartitionSpec()] * len(body.consts), *specs)
        for i, (aval, spec) in enumerate(zip(body.out_avals, found, strict=True)):
            over.check_rank(over.named_result(result, i), "out_specs", aval, spec)
            if check:
                over.check_equal(over.named_result(result, i), aval.varying, spec)
        outs = shard_map_p.bind(
            *body.consts,
            *leaves,
            jaxpr=body.jaxpr,
            mesh=over.mesh,
            manual_axes=over.manual,
            in_specs=in_all,
            out_specs=tuple(found),
            check_vma=check,
        )
        return tree_unflatten(body.out_tree, outs)

    return mapped


def _without_specs(in_specs: Any, args: Any) -> Callable[[Any], Any] | None:
    """Return a function that fixes arguments that are not arrays, whose specs are None; or None.

    It takes the user's function, and returns one of the other arguments, their specs, and them.
    """
    leaves, tree = tree_flatten(args)
    is_fixed = [leaf_type(x) is None for x in leaves]
    if not any(is_fixed):
        return None
    given = tuple(in_specs) if isinstance(in_specs, list) else in_specs
    specs = broadcast_prefix(given, args, is_leaf=lambda s: s is None)
    if any(known and spec is not None for known, spec in zip(is_fixed, specs, strict=True)):
        return None
    rest = [x for x, known in zip(leaves, is_fixed, strict=True) if not known]
    rest_specs = tuple([s for s, known in zip(specs, is_fixed, strict=True) if not known])

    def fix(fun: Callable[..., Any]) -> Any:
        @wraps(fun)
        def inner(*xs: Any) -> Any:
            moving = iter(xs)
            values = [
                x if known else next(moving) for x, known in zip(leaves, is_fixed, strict=True)
            ]
            return fun(*tree_unflatten(tree, values))

        return inner, rest_specs, rest

    return fix


def _with_devices(mesh: Any, args: Any) -> Any:
    """Return a mesh; if without devices, the one in force or of an argument with the same axes."""
    if not isinstance(mesh, AbstractMesh):
        return mesh
    places = [getattr(x, "sharding", None) for x in tree_flatten(args)[0] if hasattr(x, "aval")]
    meshes = [s.mesh for s in places if isinstance(s, NamedSharding)]
    for found in (options().mesh, *meshes):
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found.update(axis_types=mesh.axis_types)
    wrong = (
        f"Mesh shape of the input {meshes[0].shape_tuple} does not match the mesh shape passed to "
        f"shard_map {mesh.shape_tuple}"
        if meshes
        else "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map` when passing "
        "`AbstractMesh` to the mesh argument."
    )
    raise ValueError(
        three_lines(
            f"shard_map over {mesh} at {current_source()}",
            wrong,
            "give a mesh with devices, or set one: with kiln.set_mesh(mesh): ...",
        )
    )


class _Mapped:
    """A function, the mesh it is mapped over, and the mesh axes it refers to."""

    def __init__(self, fun: Any, mesh: Mesh | None, axis_names: Collection[Any]) -> None:
        found = options().mesh if mesh is None else mesh
        if isinstance(found, Mesh) and found.empty:
            raise ValueError(
                three_lines(
                    f"shard_map of {name_of(fun)} at {current_source()}",
                    f"shard_map requires a non-empty mesh, got {found}",
                    "give mesh=kiln.make_mesh((n,), ('x',))",
                )
            )
        if not isinstance(found, Mesh):
            raise (ValueError if found is None else TypeError)(
                three_lines(
                    f"shard_map of {name_of(fun)} at {current_source()}",
                    "The context mesh cannot be empty: it needs a mesh, and there is none here"
                    if found is None
                    else f"mesh must be a Mesh, got {found!r}",
                    "give mesh=kiln.make_mesh((n,), ('x',)), or enter the mesh: with mesh: ...",
                )
            )
        self.fun = fun
        self.mesh = found
        wanted = set(axis_names) or set(found.axis_names)
        unknown = wanted - set(found.axis_names)
        if unknown:
            raise self._error(
                f"axis_names={set(axis_names)} has {sorted(map(str, unknown))}, not found in the "
                f"mesh's axes {found.axis_names}",
                "use the names of the mesh's axes",
            )
        self.manual = tuple(name for name in found.axis_names if name in wanted)

    def _error(self, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
        asked = f"shard_map of {name_of(self.fun)} over {self.mesh} at {current_source()}"
        return kind(three_lines(asked, wrong, remedy))

    def specs_of_types(self, avals: Sequence[Any]) -> list[PartitionSpec]:
        """Return the specs of arguments from their types, which hold them over Explicit axes."""
        if not self.mesh.is_explicit:
            raise self._error(
                "shard_map in_specs argument must be a pytree of `PartitionSpec` instances, but it "
                f"was left out, and axis_names={set(self.manual)} are not Explicit",
                "give in_specs=P(...), or make the mesh with axis_types=(AxisType.Explicit, ...)",
                TypeError,
            )
        return [
            PartitionSpec(
                *[tuple(name for name in axes_of(e) if name in self.manual) for e in aval.split],
                unreduced=aval.sums.unreduced.intersection(self.manual),
                reduced=aval.sums.reduced.intersection(self.manual),
            )
            for aval in [a.inner_aval if isinstance(a, AbstractRef) else a for a in avals]
        ]

    def specs(self, what: str, given: Any, full: Any) -> list[PartitionSpec]:
        """Return a spec for each leaf of `full`."""
        leaves, _ = tree_flatten(given, is_leaf=lambda s: s is None)
        for spec in leaves:
            if spec is not None and not isinstance(spec, PartitionSpec):
                raise self._error(
                    f"shard_map {what} argument must be a pytree of PartitionSpec instances, but "
                    f"{what} is {spec!r} of type {type(spec).__name__}",
                    "write PartitionSpec('axis', None, ...)",
                    TypeError,
                )
        # A list of specs is treated as the tuple of arguments.
        if what == "in_specs" and isinstance(given, list):
            given = tuple(given)
        try:
            found = broadcast_prefix(given, full, is_leaf=lambda s: s is None)
        except ValueError as error:
            full_name = "arguments" if what == "in_specs" else "result"
            why = " ".join(str(error).splitlines()[1:2])
            raise self._error(
                f"shard_map {what} must be a tree prefix of the {full_name}: {why}",
                "give one entry for each, or one PartitionSpec for all",
            ) from None
        specs = [PartitionSpec() if spec is None else spec for spec in found]
        for spec in specs:
            self.check_names(what, spec)
        return specs

    def check_names(self, what: str, spec: PartitionSpec) -> None:
        """Raise an error for a spec that names other axes than Manual ones."""
        for name in shard_names(spec):
            if name not in self.manual:
                raise self._error(
                    f"shard_map {what} argument must refer to an axis marked as manual "
                    f"{self.manual}, but {what} refers to {name!r} in {spec}, which is not found "
                    "there",
                    "use the names of the mesh's axes"
                    if name not in self.mesh.axis_names
                    else f"add {name!r} to axis_names, or leave it out of the spec",
                )
        if any(entry is UNCONSTRAINED for entry in spec):
            raise self._error(
                f"{what} has {spec}, and each dimension must be sharded or whole in shard_map",
                "write None, or an axis name, in place of UNCONSTRAINED",
            )
        if spec.unreduced or spec.reduced:
            raise self._error(
                f"{what} has {spec}: members have no arrays that are unreduced or reduced",
                "add the parts first, kiln.reshard(x, P(...)), and join results as they are",
                NotImplementedError,
            )
        NamedSharding(self.mesh, spec)

    def check_rank(self, who: str, what: str, aval: ShapedArray, spec: PartitionSpec) -> None:
        """Raise ValueError for a spec with more entries than an array has dimensions."""
        if len(spec) > aval.ndim:
            raise self._error(
                f"{what} {spec}, which has length {len(spec)}, is for {who} of type {aval}, which "
                f"has rank {aval.ndim}",
                f"consider using an {what} entry of `P()`, or add dimensions: x[None]",
            )

    def check_fit(self, who: str, what: str, aval: ShapedArray, spec: PartitionSpec) -> None:
        """Raise ValueError unless an array can be sharded as its spec says."""
        self.check_rank(who, what, aval, spec)
        for axis, parts in enumerate(shard_counts(self.mesh, spec, aval.ndim)):
            size = aval.shape[axis]
            if parts > 1 and size % parts != 0:
                raise self._error(
                    f"{who} of type {aval} has axis {axis} of size {size}, which is not evenly "
                    f"divisible by the {parts} parts that {what} {spec} splits it into",
                    "pad the array to a divisible size, or shard another axis",
                )

    def check_equal(self, who: str, varying: frozenset[Any], spec: PartitionSpec) -> None:
        """Raise ValueError for a result that may differ along an axis its spec leaves out."""
        loose = sorted(
            str(name) for name in varying - set(shard_names(spec)) if name in self.manual
        )
        if loose:
            raise self._error(
                f"out_specs {spec} of {who} require replication which can't be statically "
                f"inferred: out_specs is {_as_tuple(spec)} which implies that the corresponding "
                f"output value is only varying across mesh axes {_set(shard_names(spec))} and not "
                f"{_set(loose)}, but it was inferred to be possibly varying over {_set(varying)}: "
                f"the result may differ along the mesh axes {loose}",
                f"combine it first, as in lax.psum(x, {loose[0]!r}), name the axes in out_specs, "
                "or pass check_vma=False",
            )

    def named_result(self, result: Any, i: int) -> str:
        """Return the name of the i-th leaf of the result in messages."""
        return f"the result{keystr(tree_flatten_with_path(result)[0][i][0])}"


def _set(names: Collection[Any]) -> str:
    return "{" + ",".join(sorted(map(str, names))) + "}"


def _as_tuple(spec: PartitionSpec) -> str:
    return f"P({', '.join(map(repr, spec))}{',' if len(spec) == 1 else ''})"
