"""The names that programs written for jax expect exist, are documented, and are the only ones."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import kiln
from tests.structure.source_tree import KILN

# Dotted names below `kiln`, from section 0 of the behavior contract and the sections it sums up.
CONTRACT = {
    "functions": """
        jit grad value_and_grad vmap jvp vjp linearize linear_transpose jacfwd jacrev jacobian
        hessian checkpoint remat custom_jvp custom_vjp make_jaxpr eval_shape pure_callback
        effects_barrier disable_jit log_compiles enable_x64 default_matmul_precision
        threefry_partitionable clear_caches device_count local_device_count default_backend
        process_index process_count devices local_devices device_get device_put block_until_ready
        default_device make_mesh make_array_from_callback make_array_from_single_device_arrays
        live_arrays Array ShapeDtypeStruct config checkpoint_policies sharding numpy lax random nn
        tree tree_util core dtypes debug stages errors linen __version__
    """,
    "inside": """
        core.Tracer core.eval_jaxpr dtypes.float0 dtypes.prng_key debug.print debug.callback
        config.update stages.Wrapped stages.Traced stages.Lowered stages.Compiled
        errors.ConcretizationTypeError errors.TracerArrayConversionError
        errors.TracerIntegerConversionError errors.TracerBoolConversionError
        errors.UnexpectedTracerError errors.NonConcreteBooleanIndexError errors.JAXTypeError
        errors.JAXIndexError errors.JaxRuntimeError tree.map tree.leaves tree.flatten tree.unflatten
        tree.structure tree.reduce tree.all tree.transpose tree.flatten_with_path tree.map_with_path
        tree_util.tree_map tree_util.tree_leaves tree_util.tree_flatten tree_util.tree_unflatten
        tree_util.tree_structure tree_util.tree_reduce tree_util.tree_transpose tree_util.tree_all
        tree_util.tree_flatten_with_path tree_util.tree_map_with_path tree_util.keystr
        tree_util.register_pytree_node tree_util.register_pytree_node_class
        tree_util.register_dataclass tree_util.register_static tree_util.Partial
        tree_util.register_pytree_with_keys tree_util.DictKey tree_util.SequenceKey
        tree_util.GetAttrKey tree_util.PyTreeDef checkpoint_policies.dots_saveable
        checkpoint_policies.everything_saveable checkpoint_policies.nothing_saveable
        sharding.Mesh sharding.PartitionSpec sharding.P sharding.NamedSharding
        sharding.SingleDeviceSharding sharding.Sharding sharding.make_mesh
        lax.with_sharding_constraint ops.segment_sum ops.segment_prod ops.segment_max
        ops.segment_min
    """,
    "random": """
        random.key random.PRNGKey random.split random.fold_in random.key_data random.wrap_key_data
        random.bits random.uniform random.normal random.randint random.bernoulli random.permutation
        random.choice random.categorical random.truncated_normal random.gumbel random.exponential
        random.gamma random.beta random.poisson random.laplace random.cauchy random.dirichlet
        random.multivariate_normal random.rademacher random.ball random.orthogonal
    """,
    "nn": """
        nn.relu nn.relu6 nn.sigmoid nn.softplus nn.soft_sign nn.silu nn.swish nn.log_sigmoid nn.elu
        nn.leaky_relu nn.hard_tanh nn.celu nn.selu nn.gelu nn.glu nn.softmax nn.log_softmax
        nn.logsumexp nn.standardize nn.one_hot nn.tanh nn.initializers.zeros nn.initializers.ones
        nn.initializers.normal nn.initializers.uniform nn.initializers.glorot_uniform
        nn.initializers.glorot_normal nn.initializers.lecun_normal nn.initializers.he_normal
        nn.initializers.variance_scaling nn.initializers.orthogonal nn.initializers.constant
    """,
    "arrays": """
        Array.shape Array.dtype Array.ndim Array.size Array.T Array.at Array.sum Array.mean
        Array.max Array.min Array.reshape Array.astype Array.transpose Array.ravel Array.flatten
        Array.dot Array.argmax Array.argmin Array.argsort Array.sort Array.std Array.var Array.prod
        Array.any Array.all Array.clip Array.round Array.cumsum Array.cumprod Array.squeeze
        Array.swapaxes Array.take Array.repeat Array.trace Array.diagonal Array.real Array.imag
        Array.conj Array.copy Array.item Array.tolist Array.block_until_ready Array.nonzero
        Array.is_deleted Array.delete Array.is_ready Array.mT Array.ptp Array.view
        Array.nbytes Array.itemsize Array.devices Array.sharding Array.committed
        Array.addressable_shards Array.is_fully_replicated Array.device
    """,
}

# The two hundred and some functions of NumPy that programs use most.
NUMPY = """
    abs absolute add all allclose amax amin angle any append apply_along_axis arange arccos
    arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort argwhere
    around array array_equal array_split asarray atleast_1d atleast_2d atleast_3d average
    bincount bitwise_and bitwise_not bitwise_or bitwise_xor block broadcast_arrays
    broadcast_shapes broadcast_to cbrt ceil choose clip column_stack compress concatenate conj
    conjugate convolve copy copysign corrcoef correlate cos cosh count_nonzero cov cross cumprod
    cumsum deg2rad degrees delete diag diagflat diagonal diff digitize divide divmod dot dsplit
    dstack dtype ediff1d einsum empty empty_like equal exp exp2 expand_dims expm1 extract eye
    fabs fft flatnonzero flip fliplr flipud float32 float64 floor floor_divide fmax fmin fmod
    frexp full full_like gcd geomspace gradient greater greater_equal heaviside histogram hsplit
    hstack hypot identity iinfo finfo imag indices inf inner insert interp intersect1d invert
    isclose iscomplex isfinite isin isinf isnan isneginf isposinf isreal isscalar issubdtype
    kron lcm ldexp left_shift less less_equal lexsort linalg linspace log log10 log1p log2
    logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace matmul max
    maximum mean median meshgrid min minimum mod modf moveaxis multiply nan nan_to_num nanargmax
    nanargmin nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar ndarray ndim negative
    newaxis nextafter nonzero not_equal ones ones_like outer pad percentile permute_dims pi
    piecewise polyfit polyval power prod promote_types ptp quantile rad2deg radians ravel real
    reciprocal remainder repeat reshape result_type right_shift roll rollaxis roots rot90 round
    searchsorted select setdiff1d shape sign signbit sin sinc sinh size sort split sqrt square
    squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace
    transpose trapezoid tri tril tril_indices triu triu_indices true_divide trunc union1d unique
    unravel_index unwrap vander var vdot vectorize vsplit vstack where zeros zeros_like c_ r_ s_
    linalg.norm linalg.inv linalg.solve linalg.det linalg.slogdet linalg.eigh linalg.svd
    linalg.qr linalg.cholesky linalg.matrix_power linalg.matrix_rank linalg.pinv linalg.lstsq
    linalg.eigvalsh fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.fftn fft.fftfreq
    fft.fftshift
"""

# Asked for and not there yet.
NOT_YET: dict[str, str] = {}


def _exists(dotted: str) -> bool:
    value: Any = kiln
    for part in dotted.split("."):
        if not hasattr(value, part):
            return False
        # What arrays can do is asked of one of them: the class is abstract.
        value = kiln.numpy.ones((2, 2)) if part == "Array" else getattr(value, part)
    return True


def _names(group: str) -> list[str]:
    if group == "numpy":
        return [f"numpy.{name}" for name in NUMPY.split()]
    return CONTRACT[group].split()


@pytest.mark.parametrize("group", [*CONTRACT, "numpy"])
def test_expected_names_exist(group: str) -> None:
    assert [name for name in _names(group) if not _exists(name)] == []


def test_what_is_not_there_yet() -> None:
    assert [name for name in NOT_YET if _exists(name)] == []


# These only name what other files define.
FACADES = [
    "",
    "numpy",
    "lax",
    "random",
    "nn",
    "tree",
    "lax.linalg",
    "stages",
    "linen",
    "serialization",
    "checkpoints",
    "data",
]
SURFACES = ["", "numpy", "lax", "random", "nn", "nn.initializers", "tree", "tree_util", "debug"]
SURFACES += [
    "sharding",
    "core",
    "dtypes",
    "stages",
    "errors",
    "numpy.linalg",
    "numpy.fft",
    "lax.linalg",
    "linen",
    "linen.metadata",
    "linen.frozen_dict",
    "serialization",
    "checkpoints",
    "data",
    "struct",
    "traverse_util",
    "typing",
]


def _surface(name: str) -> dict[str, Any]:
    module = importlib.import_module(f"kiln.{name}".rstrip("."))
    names = {*vars(module), *dir(module)}
    return {n: getattr(module, n) for n in names if not n.startswith("_") and n != "annotations"}


@pytest.mark.parametrize("surface", SURFACES)
def test_public_functions_are_documented(surface: str) -> None:
    wrong = []
    for name, value in _surface(surface).items():
        if inspect.isfunction(value) or (inspect.isclass(value) and _is_ours(value)):
            text = inspect.getdoc(value) or ""
            if not text.split("\n\n")[0].rstrip().endswith((".", ":")):
                wrong.append(name)
    assert wrong == []


# How arrays print is decided by NumPy's own options.
FOREIGN = {"get_printoptions", "printoptions", "set_printoptions"}


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("kiln")


@pytest.mark.parametrize("surface", FACADES)
def test_nothing_else_is_public(surface: str) -> None:
    """No imported module and no foreign function is among the public names."""
    wrong = []
    for name, value in _surface(surface).items():
        if isinstance(value, types.ModuleType):
            if not value.__name__.startswith("kiln"):
                wrong.append(name)
        elif (
            (inspect.isfunction(value) or inspect.isbuiltin(value))
            and not _is_ours(value)
            and name not in FOREIGN
        ):
            wrong.append(name)
    assert wrong == []


def test_public_lists_are_true() -> None:
    for surface in SURFACES:
        module = importlib.import_module(f"kiln.{surface}".rstrip("."))
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{surface}.{name}"


def hidden_by_modules(package: Path) -> list[str]:
    """Return the names that a package loads on first use and that modules in it have, too.

    Whoever imports such a module puts it in the place of the function.
    """
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    dotted = ".".join(("kiln", *package.relative_to(KILN).parts))
    return [
        alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != dotted
        for alias in node.names
        if (package / f"{alias.name}.py").exists() or (package / alias.name).is_dir()
    ]


def test_no_module_hides_a_name_loaded_on_first_use() -> None:
    packages = [path.parent for path in KILN.rglob("__init__.py")]
    assert len(packages) > 30
    assert {str(p): found for p in packages if (found := hidden_by_modules(p))} == {}


def test_a_module_that_hides_a_name_is_found(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.modules[__name__], "KILN", tmp_path)
    text = "if TYPE_CHECKING:\n    from kiln.einsum import einsum as einsum\n"
    (tmp_path / "__init__.py").write_text(text)
    assert hidden_by_modules(tmp_path) == []
    (tmp_path / "einsum.py").touch()
    assert hidden_by_modules(tmp_path) == ["einsum"]
