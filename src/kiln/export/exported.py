"""`Exported`: a function as a portable program, with the metadata needed to call it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import PyTreeDef, equality_errors, tree_flatten, tree_unflatten
from kiln.control.custom_rules.vjp import custom_vjp
from kiln.control.exported_call import (
    ANY_PLATFORM,
    PortableProgram,
    call_exported_p,
    large_constants,
)
from kiln.core.engines.artifacts import artifact_compiler
from kiln.export.boundary import from_raw, raw_type, to_raw
from kiln.export.container import Contents, Shardings, from_bytes, to_bytes
from kiln.export.trees import argument_names, path_text
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10
_CUSTOM_CALL = "custom_call:"


class DisabledSafetyCheck:
    """A check that is skipped when a function is exported or called."""

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allow calls on platforms that the function was not exported for."""
        return cls(ANY_PLATFORM)

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allow the export of a call of a routine that is not guaranteed to be stable."""
        return cls(_CUSTOM_CALL + target_name)

    def is_custom_call(self) -> str | None:
        """Return the name of the routine that may be called; None for other checks."""
        found = re.match(f"{_CUSTOM_CALL}(.+)$", self._impl)
        return found.group(1) if found else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return self._impl


class Exported(Record, eq=False):
    """A function exported as StableHLO: `export` and `deserialize` return it.

    `in_avals` and `out_avals` are the types of the leaves of `(args, kwargs)` and of the results;
    they may have named sizes. `module_kept_var_idx` lists the positions of the arguments that the
    module takes.
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_tree: PyTreeDef
    out_avals: tuple[ShapedArray, ...]
    _in_named_shardings: Shardings
    _out_named_shardings: Shardings
    nr_devices: int
    platforms: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _get_vjp: Callable[[Exported], Exported] | None = None
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()

    @property
    def in_shardings_hlo(self) -> tuple[None, ...]:
        """None for each argument: shardings are stored by the names of mesh axes."""
        return (None,) * len(self.in_avals)

    @property
    def out_shardings_hlo(self) -> tuple[None, ...]:
        """None for each result, as `in_shardings_hlo`."""
        return (None,) * len(self.out_avals)

    def in_shardings_jax(self, mesh: Any) -> tuple[NamedSharding | None, ...]:
        """Return the shardings of the arguments over a mesh; None means any.

        Raises: ValueError unless the mesh has the axes that the function was exported with.
        """
        return self._over(self._in_named_shardings, mesh)

    def out_shardings_jax(self, mesh: Any) -> tuple[NamedSharding | None, ...]:
        """Return the shardings of the results, as `in_shardings_jax`."""
        return self._over(self._out_named_shardings, mesh)

    def _over(self, shardings: Shardings, mesh: Any) -> tuple[NamedSharding | None, ...]:
        for sharding in shardings:
            if sharding is not None and sharding.mesh.shape_tuple != mesh.shape_tuple:
                raise ValueError(
                    three_lines(
                        f"shardings of the exported function {self.fun_name} over {mesh} at "
                        f"{current_source()}",
                        f"the mesh does not match the mesh used for export, {sharding.mesh}",
                        "make a mesh with the same names and sizes of axes",
                    )
                )
        return tuple([s and NamedSharding(mesh, s.spec) for s in shardings])

    def mlir_module(self, serialized: bool = True) -> Any:
        """Return the module as StableHLO text."""
        return artifact_compiler().artifact_text(self.mlir_module_serialized)

    def has_vjp(self) -> bool:
        """Tell whether the derivative is available."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """Return the exported derivative: from arguments and output cotangents to input cotangents.

        Raises: ValueError if it was not stored.
        """
        if self._get_vjp is None:
            raise ValueError(
                three_lines(
                    f"derivative of the exported function {self.fun_name} at {current_source()}",
                    "No VJP is available: it was stored without one",
                    "store it with a derivative: exported.serialize(vjp_order=1)",
                )
            )
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Serialize the function, for `deserialize` of kiln or JAX.

        Derivatives up to the order `vjp_order` are stored with it.

        Raises: ValueError or TypeError for trees with nodes or keys that cannot be stored.
        """
        return bytearray(to_bytes(_contents(self, vjp_order)))

    @api_boundary
    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function with arguments of the structure and types that it was exported for.

        Raises: ValueError for other arguments, which it names; for another platform.
        """
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            found = "; ".join(
                f"at {path_text(path)}, {there} when exported and {here} now: {how}"
                for path, there, here, how in equality_errors(self.in_tree, tree)
            )
            raise ValueError(
                three_lines(
                    f"call of the exported function {self.fun_name} at {current_source()}",
                    "The invocation args and kwargs must have the same pytree structure as when "
                    f"the function '{self.fun_name}' was exported: {found}",
                    "pass arguments of the exported structure, without static ones",
                )
            )
        return tree_unflatten(self.out_tree, self._flat(*leaves))

    @property
    def _flat(self) -> Callable[..., Any]:
        """The function of the leaves, with its derivative; the same object for every call."""
        kept = self.__dict__
        found: Callable[..., Any] = kept.get("_made_flat") or kept.setdefault(
            "_made_flat", self._make_flat()
        )
        return found

    def _make_flat(self) -> Callable[..., Any]:
        program = portable(self)

        def run(*leaves: Any) -> tuple[Any, ...]:
            raws = [to_raw(x, aval) for x, aval in zip(leaves, self.in_avals, strict=True)]
            outs = call_exported_p.bind(*raws, *large_constants(program), program=program)
            return tuple([from_raw(x, a) for x, a in zip(outs, self.out_avals, strict=True)])

        def forward(*leaves: Any) -> Any:
            return flat(*leaves), leaves

        def backward(leaves: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
            pulled = self.vjp().call(*leaves, *cotangents)
            return tuple([None if _is_nothing(x) else x for x in pulled])

        run.__name__ = self.fun_name
        flat = custom_vjp(run)
        flat.defvjp(forward, backward)
        return jit(flat)

    def __repr__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def __reduce__(self) -> Any:
        return deserialize, (bytes(self.serialize()),)


def _is_nothing(x: Any) -> bool:
    return bool(x.dtype == dtypes.float0)


def portable(exported: Exported) -> PortableProgram:
    """Return the program of an exported function."""
    return PortableProgram(
        name=exported.fun_name,
        stored=exported.mlir_module_serialized,
        in_avals=tuple(map(raw_type, exported.in_avals)),
        out_avals=tuple(map(raw_type, exported.out_avals)),
        arg_names=argument_names(exported.in_tree, exported.in_avals),
        kept=exported.module_kept_var_idx,
        platforms=exported.platforms,
        any_platform=DisabledSafetyCheck.platform() in exported.disabled_safety_checks,
        nr_devices=exported.nr_devices,
        in_shardings=exported._in_named_shardings,
        out_shardings=exported._out_named_shardings,
        is_refined=exported.uses_global_constants,
    )


def _contents(exported: Exported, vjp_order: int) -> Contents:
    checks = exported.disabled_safety_checks
    targets = [check.is_custom_call() for check in checks]
    return Contents(
        fun_name=exported.fun_name,
        in_tree=exported.in_tree,
        out_tree=exported.out_tree,
        in_avals=exported.in_avals,
        out_avals=exported.out_avals,
        in_shardings=exported._in_named_shardings,
        out_shardings=exported._out_named_shardings,
        nr_devices=exported.nr_devices,
        platforms=exported.platforms,
        any_platform=DisabledSafetyCheck.platform() in checks,
        custom_calls=tuple([target for target in targets if target is not None]),
        module=exported.mlir_module_serialized,
        kept=exported.module_kept_var_idx,
        is_refined=exported.uses_global_constants,
        calling_convention_version=exported.calling_convention_version,
        vjp=_contents(exported.vjp(), vjp_order - 1) if vjp_order > 0 else None,
    )


@api_boundary
def deserialize(blob: bytes | bytearray) -> Exported:
    """Load the function that `Exported.serialize` of kiln or JAX stored.

    The bytes must be trusted: the program may call any routine in jaxlib. The checksum that kiln
    stores detects damage; a program without one, such as JAX's, is first parsed in another process.

    Raises: ValueError for other bytes, and for a calling convention that kiln does not support.

    Example:
        >>> stored = kiln.export.export(kiln.jit(jnp.sin))(jnp.ones(2)).serialize()
        >>> kiln.export.deserialize(stored).call(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    contents, is_checked = from_bytes(bytes(blob))
    found = _exported(contents)
    if not is_checked:
        artifact_compiler().check_artifacts(_modules(contents))
    return found


# In pickles.
deserialize.__module__ = "kiln.export"


def _modules(contents: Contents) -> list[bytes]:
    """Return the programs of a container: its own, and those of its derivatives."""
    inner = contents.vjp
    return [contents.module, *(() if inner is None else _modules(inner))]


def _exported(contents: Contents) -> Exported:
    version = contents.calling_convention_version
    least, most = (
        minimum_supported_calling_convention_version,
        maximum_supported_calling_convention_version,
    )
    if not least <= version <= most:
        raise ValueError(
            three_lines(
                f"loading the exported program {contents.fun_name} at {current_source()}",
                f"its calling convention version {version} is outside the range of supported "
                f"versions [{least}..{most}]",
                "export it with a release of JAX or kiln that writes one of these",
            )
        )
    checks = [DisabledSafetyCheck.platform()] * contents.any_platform
    checks += map(DisabledSafetyCheck.custom_call, contents.custom_calls)
    inner = contents.vjp
    return Exported(
        fun_name=contents.fun_name,
        in_tree=contents.in_tree,
        in_avals=contents.in_avals,
        out_tree=contents.out_tree,
        out_avals=contents.out_avals,
        _in_named_shardings=contents.in_shardings,
        _out_named_shardings=contents.out_shardings,
        nr_devices=contents.nr_devices,
        platforms=contents.platforms,
        disabled_safety_checks=tuple(checks),
        mlir_module_serialized=contents.module,
        calling_convention_version=version,
        module_kept_var_idx=contents.kept,
        uses_global_constants=contents.is_refined,
        _get_vjp=None if inner is None else lambda _: _exported(inner),
    )
