"""Under the door, `jax` is kiln, whether jax is installed or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DECOY = "raise AssertionError('jax itself was imported')\n"


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """Return a folder whose package `jax` fails when it is imported."""
    (tmp_path / "jax" / "numpy").mkdir(parents=True)
    (tmp_path / "jax" / "__init__.py").write_text(DECOY)
    (tmp_path / "jax" / "numpy" / "__init__.py").write_text(DECOY)
    return tmp_path


def run(*arguments: str, at: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python with a folder of decoys first on its path."""
    path = f"import sys; sys.path.insert(0, {str(at)!r})\n" if at else ""
    given = [path + a if arguments[i - 1] == "-c" else a for i, a in enumerate(arguments)]
    done = subprocess.run(
        [sys.executable, *given], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


def door(text: str, at: Path) -> str:
    """Return what a program prints that opens the door first."""
    return run("-c", "import kiln.as_jax\n" + text, at=at).stdout


def test_jax_is_kiln(decoy: Path) -> None:
    text = """
import jax, jax.numpy as jnp, kiln, kiln.numpy
from jax import lax
from jax.numpy import linalg
assert jnp is kiln.numpy and lax is kiln.lax and linalg is kiln.numpy.linalg
assert jax.Array is kiln.Array and jax.core.Tracer is kiln.core.Tracer
assert isinstance(jnp.ones(2), jax.Array)
assert jax.__version__ == jax.version.__version__ == "0.10.2" != kiln.__version__
assert jax.__version_info__ == (0, 10, 2)
assert jax.lib.__version__ == "0.10.2"
assert jax.jit is kiln.jit and jnp.__spec__.name == "kiln.numpy"
print(float(jax.grad(jnp.sin)(0.0)))
"""
    assert door(text, decoy) == "1.0\n"


def test_libraries_know_jitted_functions_by_their_class(decoy: Path) -> None:
    text = "import jax; print(type(jax.jit(abs)), type(jax.vmap(abs)))"
    assert "PjitFunction" in door(text, decoy).partition("'>")[0]
    assert "Pjit" not in run("-c", "import kiln; print(type(kiln.jit(abs)))").stdout


def test_random_numbers_are_those_of_current_jax(decoy: Path) -> None:
    text = "import jax; print(jax.random.normal(jax.random.key(0), (2,)).tolist())"
    assert door(text, decoy).startswith("[1.6226")


def test_programs_are_exported(decoy: Path) -> None:
    text = """
import jax, jax.numpy as jnp
from jax import export
from jax.experimental import serialize_executable
stored = export.export(jax.jit(jnp.square))(jnp.ones(2)).serialize()
print(export.deserialize(stored).call(jnp.full(2, 3.0)).tolist())
assert jax.export is export and jax.experimental.serialize_executable is serialize_executable
"""
    assert door(text, decoy) == "[9.0, 9.0]\n"


def test_what_jax_has_no_name_for_is_not_there(decoy: Path) -> None:
    text = """
import jax
for name in ("base", "control", "num_threads", "set_num_threads", "no_such_name"):
    assert not hasattr(jax, name), name
try:
    import jax.base
except ModuleNotFoundError as error:
    print(error)
"""
    assert door(text, decoy) == "No module named 'jax.base'\n"


def test_a_missing_name_raises_where_it_is_used(decoy: Path) -> None:
    text = """
import jax
from jax.experimental import custom_partitioning as cp
from jax.experimental.custom_partitioning import SdyShardingRule
kernel = cp.custom_partitioning
class Spec(cp.ArrayMapping): pass
assert not isinstance(1, cp.ArrayMapping)
try:
    kernel(lambda: 0)
except NotImplementedError as error:
    print(error)
try:
    Spec()
except NotImplementedError as error:
    print(str(error).splitlines()[0])
"""
    *asked, spec = door(text, decoy).splitlines()
    name = "jax.experimental.custom_partitioning.custom_partitioning"
    assert asked[0].startswith(f"{name}(...) at <string>:")
    assert asked[1].startswith(f"kiln has no {name}: it controls XLA's compiler")
    assert len(asked) == 3
    assert spec.startswith("jax.experimental.custom_partitioning.ArrayMapping(...)")


def test_private_modules_import_and_raise_when_used(decoy: Path) -> None:
    text = """
from jax._src import core, traceback_util
import jax._src.dispatch
from jax._src.numpy import lax_numpy
from jax._src.hijax import VJPHiPrimitive
from jax._src.interpreters.ad import GradAccum, NullAccum
assert VJPHiPrimitive.__name__ == "VJPHiPrimitive" and issubclass(NullAccum, GradAccum)
import kiln.core, kiln.lax
from jax._src import array, stages
from jax._src.lax import linalg, parallel
from jax._src.shard_map import shard_map
assert core.Tracer is kiln.core.Tracer and core.trace_state_clean()
assert linalg.lu is kiln.lax.linalg.lu and parallel.psum is kiln.lax.psum
assert array.make_array_from_callback is kiln.make_array_from_callback
assert stages.Lowered is kiln.stages.Lowered and shard_map is kiln.shard_map
assert "_lu_python" in repr(linalg._lu_python)
traceback_util.register_exclusion(__name__)
try:
    jax._src.dispatch.apply_primitive(1)
except NotImplementedError as error:
    print(error)
"""
    assert door(text, decoy).startswith("jax._src.dispatch.apply_primitive(...)")


def test_private_modules_are_there_once_jax_is(decoy: Path) -> None:
    text = """
import jax
children, _ = jax._src.tree_util.flatten_one_level({"a": 1, "b": [2]})
state = jax._src.distributed.global_state
print(children, state.process_id, state.num_processes, state.client)
"""
    assert door(text, decoy) == "[1, [2]] 0 1 None\n"


def test_it_must_come_first(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").touch()
    done = run("-c", "import jax, kiln.as_jax", at=tmp_path, code=1)
    assert "import kiln.as_jax first" in done.stderr


def test_pickles_agree(decoy: Path) -> None:
    text = """
import pickle, jax, jax.numpy as jnp, kiln
spec = pickle.loads(pickle.dumps(jax.sharding.PartitionSpec("x")))
assert spec == kiln.sharding.PartitionSpec("x")
assert pickle.loads(pickle.dumps(jnp.sin)) is kiln.numpy.sin
print(pickle.loads(pickle.dumps(jnp.arange(2))).tolist())
"""
    assert door(text, decoy) == "[0, 1]\n"


def test_the_release_is_known_to_importlib(decoy: Path) -> None:
    text = "import importlib.metadata; print(importlib.metadata.version('jax'))"
    assert door(text, decoy) == "0.10.2\n"


def test_environment_variables_of_jax(decoy: Path) -> None:
    text = """
import os
os.environ.pop("KILN_NUM_CPU_DEVICES", None)
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
import kiln.as_jax, jax, jax.numpy as jnp
print(jnp.ones(1).dtype, jax.device_count())
"""
    assert run("-c", text, at=decoy).stdout == "float64 3\n"


def test_guards_that_the_environment_asks_for_are_refused(decoy: Path) -> None:
    text = """
import os, kiln
from kiln.as_jax.environment import apply_environment
for name, accepted, refused in (
    ("JAX_ARRAY_GARBAGE_COLLECTION_GUARD", "allow", "fatal"),
    ("JAX_PLATFORMS", "cpu", "cuda"),
    ("JAX_EXPORT_CALLING_CONVENTION_VERSION", "10", "9"),
):
    os.environ[name] = accepted
    apply_environment()
    os.environ[name] = refused
    try:
        apply_environment()
        print(name)
    except kiln.errors.UnavailableOptionError as error:
        assert f"the environment has {name}={refused}" in str(error)
        assert str(error).count(chr(10)) == 2
    del os.environ[name]
"""
    assert run("-c", text, at=decoy).stdout == ""


def test_options_of_the_environment(decoy: Path) -> None:
    text = """
import os
os.environ["JAX_NO_EXECUTION"] = "true"
os.environ["JAX_RANDOM_SEED_OFFSET"] = "7"
os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = "-1"
os.environ["JAX_SCAN3"] = "on"
os.environ["CHECK_VMA"] = "1"
os.environ["JAX_DEBUG_NANS"] = "1"
os.environ["KILN_DEBUG_NANS"] = "0"
import kiln.as_jax, jax
names = "jax_no_execution", "jax_random_seed_offset", "jax_compilation_cache_max_size"
print([jax.config.read(name) for name in (*names, "jax_scan3", "check_vma", "jax_debug_nans")])
os.environ["JAX_ENABLE_X64"] = "perhaps"
try:
    kiln.as_jax.environment.apply_environment()
except ValueError as error:
    print(error)
"""
    values, *error = run("-c", text, at=decoy).stdout.splitlines()
    assert values == "[True, 7, -1, True, True, False]"
    assert error[:2] == [
        "the environment has JAX_ENABLE_X64=perhaps",
        "invalid truth value 'perhaps'",
    ]


def test_transfer_guards_of_the_environment(decoy: Path) -> None:
    text = """
import os
os.environ["JAX_TRANSFER_GUARD_DEVICE_TO_DEVICE"] = "log"
os.environ["JAX_TRANSFER_GUARD_HOST_TO_DEVICE"] = "disallow"
import kiln.as_jax, jax, jax.numpy as jnp
assert jax.config.jax_transfer_guard_device_to_device == "log"
x = jnp.arange(3)
try:
    x + 1
except jax.errors.JaxRuntimeError as error:
    assert "Disallowed host-to-device transfer" in str(error)
    print(x + x)
# One for all directions precedes those of one.
os.environ["JAX_TRANSFER_GUARD"] = "allow"
kiln.as_jax.environment.apply_environment()
print(x + 1)
"""
    assert run("-c", text, at=decoy).stdout == "[0 2 4]\n[1 2 3]\n"


def test_programs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, jax\n"
        "if __name__ == '__main__':\n"
        "    print(jax.__version__, sys.argv[1:], sys.path[0])\n"
    )
    done = run("-m", "kiln.as_jax", str(program), "a", "--report")
    assert done.stdout == f"0.10.2 ['a', '--report'] {tmp_path}\n"


def test_reports(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import jax, jax.numpy as jnp\n"
        "jnp.sin(1.0)\n"
        "try:\n    jax.lax.precv('x', None)\n"
        "except NotImplementedError:\n    pass\n"
    )
    lines = run("-m", "kiln.as_jax", "--report", str(program)).stderr.splitlines()
    assert "jax.numpy: sin" in lines
    assert lines[-1] == "missing: jax.lax.precv (used 1 times)"


def test_the_command_line_explains_itself() -> None:
    done = run("-m", "kiln.as_jax", code=1)
    assert "python -m kiln.as_jax" in done.stderr


def test_linen_takes_the_place_of_flax_linen(tmp_path: Path) -> None:
    (tmp_path / "flax").mkdir()
    (tmp_path / "flax" / "__init__.py").write_text("from flax import linen as linen\n")
    (tmp_path / "flax" / "linen.py").write_text(DECOY)
    program = tmp_path / "program.py"
    program.write_text("import flax.linen as nn, kiln.linen\nprint(nn is kiln.linen)\n")
    assert run("-m", "kiln.as_jax", "--linen", str(program)).stdout == "True\n"


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param([], id="one process"),
        # Half a minute while other tests run.
        pytest.param(["-n", "2"], id="two workers", marks=pytest.mark.full),
    ],
)
def test_tests_run_under_the_door(tmp_path: Path, workers: list[str]) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("import jax, kiln\ndef test_it():\n    assert jax.jit is kiln.jit\n")
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "--rootdir", str(tmp_path)]
    done = run("-m", "kiln.as_jax", "-m", "pytest", *plain, *workers, str(test))
    assert "1 passed" in done.stdout


def test_the_door_is_light() -> None:
    text = """
import sys, kiln
before = set(sys.modules)
import kiln.as_jax
added = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(added & {"jax", "jaxlib", "scipy", "numpyro", "pytest", "email", "argparse"}))
"""
    assert run("-c", text).stdout == "[]\n"


def test_linen_takes_the_place_of_what_modules_are_made_of(tmp_path: Path) -> None:
    (tmp_path / "flax").mkdir()
    (tmp_path / "flax" / "__init__.py").write_text("own = 1\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import flax, kiln.linen\n"
        "from flax.core import FrozenDict, Scope\n"
        "from flax.core.frozen_dict import freeze\n"
        "from flax.errors import NameInUseError\n"
        "from flax.linen.transforms import _private\n"
        "from flax.linen.attention import SelfAttention\n"
        "assert flax.own == 1 and type(freeze({})) is FrozenDict is kiln.linen.FrozenDict\n"
        "assert NameInUseError is kiln.linen.errors.NameInUseError\n"
        "assert SelfAttention is kiln.linen.SelfAttention\n"
        "try:\n"
        "    _private()\n"
        "except NotImplementedError:\n"
        "    print('refused')\n"
    )
    assert run("-m", "kiln.as_jax", "--linen", str(program)).stdout == "refused\n"
