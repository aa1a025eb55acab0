"""Functions of private modules of jax that libraries call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.as_jax.test_finder import run

NUMBERS: list[Any] = [None, 1, (0, 2), [1, 7], ()]
NAMES: list[Any] = [None, "b", ("c", "e"), ["x"], ()]
ASKED = """
import inspect, itertools
import kiln.as_jax
try:
    from jax._src.api import _infer_argnums_and_argnames as infer
except ImportError:
    from jax._src.api_util import infer_argnums_and_argnames as infer

def function(a, /, b, c=1, *d, e=2):
    pass

print([infer(inspect.signature(function), *each) for each in itertools.product(NUMBERS, NAMES)])
"""


def test_positions_and_names_of_arguments() -> None:
    """A name that jax has no more is not there: libraries go on without it."""
    text = ASKED.replace("NUMBERS", repr(NUMBERS)).replace("NAMES", repr(NAMES))
    wanted = run("-c", text.replace("import kiln.as_jax\n", "")).stdout
    assert run("-c", text).stdout == wanted
    assert len(eval(wanted)) == len(NUMBERS) * len(NAMES)


PREFIXES = """
import kiln.as_jax
from jax._src.tree_util import prefix_errors

errors = prefix_errors({"a": 1, "b": [2], "c": (3,)}, {"a": 1, "b": 2, "c": (3, 4)})
for error in errors:
    made = error("in_axes")
    print(type(made).__name__, "in_axes['b']" in str(made), "in_axes['c']" in str(made))
print(prefix_errors(1, [1, 2]))
"""


def test_errors_of_prefixes_are_named_later() -> None:
    wanted = run("-c", PREFIXES.replace("import kiln.as_jax\n", "")).stdout
    assert wanted.splitlines() == ["ValueError True False", "ValueError False True", "[]"]
    assert run("-c", PREFIXES).stdout == wanted


CLOSED_OVER = """
import kiln.as_jax
import jax
from jax._src.interpreters.ad import CustomVJPException

@jax.jit
def loss(x):
    @jax.custom_vjp
    def times(y):
        return x * y
    times.defvjp(lambda y: (times(y), None), lambda _, ct: (ct,))
    return jax.jit(times)(3.0)

try:
    jax.grad(loss)(2.0)
except CustomVJPException:
    print("caught")
"""


def test_a_derivative_by_a_closed_over_value_is_caught() -> None:
    wanted = run("-c", CLOSED_OVER.replace("import kiln.as_jax\n", "")).stdout
    assert wanted == "caught\n"
    assert run("-c", CLOSED_OVER).stdout == wanted


BACKEND = """
import kiln.as_jax
from jax._src import xla_bridge

print("cuda" in xla_bridge.get_backend().platform_version, xla_bridge.get_backend().platform)
"""


def test_the_backend_is_found_by_its_private_path() -> None:
    assert run("-c", BACKEND).stdout == "False cpu\n"


FLAGS = """
import kiln.as_jax
import jax
from absl import flags

flags.DEFINE_string("made_for_this_test", "its default", "")
try:
    flags.FLAGS.made_for_this_test
except flags.UnparsedFlagAccessError:
    print("not parsed")
jax.config.parse_flags_with_absl()
print(flags.FLAGS.made_for_this_test)
jax.config.parse_flags_with_absl()
"""


def test_flags_have_their_defaults_once_they_are_parsed() -> None:
    pytest.importorskip("absl")
    wanted = run("-c", FLAGS.replace("import kiln.as_jax\n", "")).stdout
    assert wanted.splitlines() == ["not parsed", "its default"]
    assert run("-c", FLAGS).stdout == wanted


def test_excluded_files_are_a_list_that_libraries_change() -> None:
    text = """
import sys
import kiln.as_jax
from jax._src import traceback_util

frame = sys._getframe()
shown = [traceback_util.include_frame(frame)]
traceback_util.register_exclusion(frame.f_code.co_filename)
shown.append(traceback_util.include_frame(frame))
traceback_util._exclude_paths.remove(frame.f_code.co_filename)
shown.append(traceback_util.include_frame(frame))
print(shown)
"""
    assert run("-c", text).stdout == "[True, False, True]\n"


def test_tracebacks_leave_out_the_frames_of_excluded_files(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text("def call(f, x):\n    return f(x)\n")
    text = f"""
import sys, traceback
sys.path.insert(0, {str(tmp_path)!r})
import kiln.as_jax
import jax, library
from jax._src import traceback_util

def wrong(x):
    raise ValueError("wrong")

def names():
    try:
        jax.jit(lambda x: library.call(wrong, x))(1.0)
    except ValueError as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]

print(names())
traceback_util.register_exclusion(library.__file__)
print(names())
"""
    assert run("-c", text).stdout.splitlines() == [
        "['names', '<lambda>', 'call', 'wrong']",
        "['names', '<lambda>', 'wrong']",
    ]
