"""Programs from disk: the same results as compiled ones, and nothing from disk that may differ."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from benchmarks.programs import PROGRAMS
from kiln.base.options.config import override
from kiln.core.engines.engine import engine
from kiln.engines.native.executables import stored
from kiln.execution import disk_cache, own_code, stored_programs
from kiln.execution.disk_cache import Folder, counts, folder
from tests.contract.marks import contract
from tests.unit.execution.programs_of_processes import FUNCTIONS, X, layers


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Switch the cache on in a folder of the test's own; nothing is compiled before it."""
    monkeypatch.setattr(disk_cache, "_warned", set())
    # Somebody may edit kiln while its tests run.
    monkeypatch.setattr(stored_programs, "code_digest", lambda *given: "code")
    kiln.clear_caches()
    with override(cache_dir=str(tmp_path / "cache"), check=False):
        found = folder()
        assert found is not None
        yield found
    kiln.clear_caches()


class Change:
    """How the counts changed since."""

    def __init__(self) -> None:
        self._before = dict(vars(counts))

    def __call__(self) -> tuple[int, int, int]:
        """Return the hits, the misses, and the entries written."""
        now = vars(counts)
        hits, misses, stored = (now[n] - self._before[n] for n in ("hits", "misses", "stored"))
        return hits, misses, stored


def again(f: Callable[..., Any], *args: Any) -> Any:
    """Call a function as another process would."""
    kiln.clear_caches()
    return kiln.jit(lambda *xs: f(*xs))(*args)


@contract("16.1")
@pytest.mark.parametrize("engine_name", ["native", "xla"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_same_to_the_bit(name: str, engine_name: str) -> None:
    f, change = FUNCTIONS[name], Change()
    with override(engine=engine_name):
        first = again(f, X)
        hits, misses, written = change()
        assert (hits, misses) == (0, 1)
        second = again(f, X)
    # XLA has no stored form of some programs.
    assert change()[0] == written
    assert written == 1 or engine_name == "xla"
    for a, b in zip(kiln.tree.leaves(first), kiln.tree.leaves(second), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@contract("16.1")
def test_a_call_of_a_program_that_is_in_memory_does_not_look() -> None:
    f, change = kiln.jit(layers), Change()
    for _ in range(3):
        f(X)
    assert change() == (0, 1, 1)


def test_small_programs_are_compiled() -> None:
    change = Change()
    again(lambda x: x + 1, X)
    assert change() == (0, 0, 0)


@contract("16.4")
def test_nothing_is_written_with_the_cache_off(place: Folder) -> None:
    change = Change()
    for chosen in ({"cache_dir": ""}, {"check": True}, {"dump": "jaxpr", "dump_only": "nobody"}):
        with override(**chosen):
            again(layers, X)
    assert change() == (0, 0, 0)
    assert place.entries() == []


def test_programs_that_call_python_are_not_kept(place: Folder) -> None:
    def calls(x: Any) -> Any:
        return layers(kiln.pure_callback(np.sin, kiln.ShapeDtypeStruct(x.shape, x.dtype), x))

    for name in ("native", "xla"):
        with override(engine=name):
            again(calls, X)
    assert place.entries() == []


@contract("16.2")
@pytest.mark.parametrize(
    "other",
    [
        {"enable_x64": True},
        {"code_generator": "llvm"},
        {"debug_nans": True},
    ],
)
def test_other_options_are_other_programs(other: dict[str, Any]) -> None:
    again(layers, X)
    change = Change()
    with override(**other):
        again(layers, X)
    assert change()[0] == 0


@contract("16.2")
def test_another_kiln_has_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    again(layers, X)
    change = Change()
    monkeypatch.setattr(stored_programs, "code_digest", lambda *given: "another")
    again(layers, X)
    assert change() == (0, 1, 1)
    # Its files changed while it ran.
    monkeypatch.setattr(stored_programs, "code_digest", lambda *given: None)
    again(layers, X)
    assert change() == (0, 1, 1)


@contract("16.2")
def test_another_machine_has_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    again(layers, X)
    change = Change()
    monkeypatch.setattr(engine("native"), "machine", lambda: ("x86-64-v1", "0"), raising=False)
    again(layers, X)
    assert change() == (0, 1, 1)


@contract("16.3")
@pytest.mark.parametrize("engine_name", ["native", "xla"])
@pytest.mark.parametrize("code", [b"", b"\0" * 100, b"\xfb" + b"\xff" * 50])
def test_code_that_cannot_be_loaded_is_compiled_again(
    place: Folder, engine_name: str, code: bytes
) -> None:
    with override(engine=engine_name):
        first = again(layers, X)
        (listed,) = place.entries()
        place.put(listed.name, place.check(listed.name)._replace(code=code))
        with pytest.warns(RuntimeWarning, match="compiled again"):
            second = again(layers, X)
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()
        # It was written anew.
        assert place.check(listed.name).code != code


@contract("16.3")
def test_an_object_that_is_cut_is_compiled_again(place: Folder) -> None:
    first = again(layers, X)
    (listed,) = place.entries()
    entry = place.check(listed.name)
    about, image = stored.marshal.loads(entry.code)
    place.put(listed.name, entry._replace(code=stored.marshal.dumps((about, image[:300]))))
    with pytest.warns(RuntimeWarning, match="compiled again"):
        second = again(layers, X)
    assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


def test_a_program_from_disk_can_be_looked_at() -> None:
    def looked_at() -> tuple[Any, ...]:
        kiln.clear_caches()
        jitted: Any = kiln.jit(layers)
        made = jitted.lower(X).compile()
        memory = made.memory_analysis()
        numbers = memory.temp_size_in_bytes, memory.argument_size_in_bytes
        return made.cost_analysis(), numbers, made.as_text("loops"), made.as_text("llvm")

    change = Change()
    fresh = looked_at()
    assert change() == (0, 1, 1)
    assert looked_at() == fresh
    assert change() == (1, 1, 1)


def test_the_code_of_llvm_takes_the_place_of_the_assemblers(place: Folder) -> None:
    def image() -> tuple[int, bytes]:
        (listed,) = place.entries()
        about, code = stored.marshal.loads(place.check(listed.name).code)
        return about["calls"], code

    f = kiln.jit(FUNCTIONS["chain"])
    f(X)
    calls, first = image()
    if not calls:
        pytest.skip("LLVM compiled the program at once, or is never asked")
    kiln.clear_caches()
    f = kiln.jit(PROGRAMS["chain"](jnp, 100, 0.5))
    for _ in range(calls + 1):
        f(X)
    later, second = image()
    assert later == 0
    assert second != first
    assert np.asarray(again(FUNCTIONS["chain"], X)).tobytes() == np.asarray(f(X)).tobytes()


@contract("16.2")
def test_a_donated_operand_makes_another_program() -> None:
    change = Change()
    expected = np.asarray(again(layers, X)).tobytes()
    for donated in ((), (0,)):
        kiln.clear_caches()
        f = kiln.jit(lambda x: layers(x), donate_argnums=donated)
        assert np.asarray(f(kiln.device_put(X))).tobytes() == expected
    assert change() == (1, 2, 2)


def test_programs_for_several_devices_come_back() -> None:
    mesh = kiln.make_mesh((4,), ("i",))
    rows = kiln.sharding.NamedSharding(mesh, kiln.sharding.PartitionSpec("i"))
    x, change = kiln.device_put(X, rows), Change()
    first = again(layers, x)
    second = again(layers, x)
    assert change() == (1, 1, 1)
    assert second.sharding == first.sharding
    assert np.asarray(second).tobytes() == np.asarray(first).tobytes()


def test_evicted_programs_come_from_disk() -> None:
    f, change = kiln.jit(layers), Change()
    first = f(X)
    with override(executable_cache_mb=0):
        kiln.jit(FUNCTIONS["mixed"])(X)
    assert np.asarray(f(X)).tobytes() == np.asarray(first).tobytes()
    assert change()[0] == 1


@contract("16.5")
def test_what_is_kept_in_numbers(place: Folder) -> None:
    again(layers, X)
    found = kiln.cache_info()
    assert found.programs >= 1
    assert found.program_bytes > 0
    assert found.disk.folder == place.path
    assert found.disk.entries == 1
    assert found.disk.bytes == place.entries()[0].size
    with override(cache_dir=""):
        assert kiln.cache_info().disk.folder is None


PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
import numpy as np
import kiln
from tests.unit.execution.programs_of_processes import FUNCTIONS, X
import hashlib
found = hashlib.sha256()
for name, f in FUNCTIONS.items():
    for leaf in kiln.tree.leaves(kiln.jit(f)(X)):
        found.update(np.asarray(leaf).tobytes())
disk = kiln.cache_info().disk
print(found.hexdigest(), disk.hits, disk.misses, disk.rejected,
      "kiln.engines.native.compiler" in sys.modules)
"""


def started(path: Path, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, "KILN_CACHE_DIR": str(path), "KILN_CHECK": "0", **more}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert err == ""
    return out.split()


@contract("16.1")
def test_a_second_process_runs_without_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    digest, hits, misses, rejected, compiler = ended(started(path))
    assert (int(hits), int(rejected), compiler) == (0, 0, "True")
    second = ended(started(path))
    assert second == [digest, misses, "0", "0", "False"]


def check_all(path: Path) -> int:
    """Look at every byte of a folder's entries; return how many there are."""
    with override(cache_dir=str(path)):
        place = folder()
        assert place is not None
        entries = place.entries()
        for each in entries:
            place.check(each.name)
    return len(entries)


@contract("16.6")
@pytest.mark.parametrize(
    ("engine_name", "count"),
    [
        ("", 3),
        pytest.param("", 8, marks=pytest.mark.full),
        pytest.param("xla", 8, marks=pytest.mark.full),
    ],
)
def test_processes_race_on_an_empty_cache(tmp_path: Path, engine_name: str, count: int) -> None:
    path = tmp_path / "shared"
    processes = [started(path, KILN_ENGINE=engine_name) for _ in range(count)]
    found = [ended(each) for each in processes]
    assert len({digest for digest, *_ in found}) == 1
    assert {rejected for _, _, _, rejected, _ in found} == {"0"}
    assert check_all(path)
    assert not list(path.rglob("*.tmp"))
    digest, hits, misses, *_ = ended(started(path, KILN_ENGINE=engine_name))
    assert digest == found[0][0]
    assert int(hits) > 0


@contract("16.6")
@pytest.mark.parametrize(
    ("engine_name", "count"),
    [
        ("", 4),
        pytest.param("", 50, marks=pytest.mark.full),
        pytest.param("xla", 50, marks=pytest.mark.full),
    ],
)
def test_killed_processes_leave_no_broken_cache(
    tmp_path: Path, engine_name: str, count: int
) -> None:
    # They are killed at any moment of their lives, most of which they spend compiling and writing.
    path, chance = tmp_path / "shared", random.Random(count)
    begin = time.monotonic()
    digest, *_ = ended(started(tmp_path / "other", KILN_ENGINE=engine_name))
    lasting = time.monotonic() - begin
    for n in range(count):
        process = started(path, KILN_ENGINE=engine_name)
        time.sleep(lasting * chance.uniform(0.2, 1.0))
        process.kill()
        process.communicate()
        check_all(path)
        if n % 10 == 9:
            # So that there is something to write.
            for entry in path.rglob("*.program"):
                entry.unlink()
    found, _, _, rejected, _ = ended(started(path, KILN_ENGINE=engine_name))
    assert (found, rejected) == (digest, "0")


@contract("16.3")
@pytest.mark.parametrize(
    ("engine_name", "count"),
    [
        ("", 20),
        ("xla", 4),
        pytest.param("", 200, marks=pytest.mark.full),
        pytest.param("xla", 200, marks=pytest.mark.full),
    ],
)
def test_damaged_programs_are_compiled_again(place: Folder, engine_name: str, count: int) -> None:
    chance = random.Random(count)
    with override(engine=engine_name), warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        wanted = np.asarray(again(layers, X))
        for n in range(count):
            (entry,) = Path(place.path).glob("*.program")
            data = bytearray(entry.read_bytes())
            if n % 2:
                data = data[: chance.randrange(len(data))]
            else:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            entry.write_bytes(data)
            change = Change()
            np.testing.assert_array_equal(again(layers, X), wanted)
            assert change() == (0, 1, 1)
    assert counts.rejected >= count
    assert len([each for each in records if "cache" in str(each.message)]) <= 1


def test_the_digest_of_this_code_is_known(tmp_path: Path) -> None:
    own_code._known.clear()
    (tmp_path / "cache").mkdir(exist_ok=True)
    found = own_code.code_digest(Folder(str(tmp_path / "cache")), "native")
    # None if somebody edits kiln meanwhile.
    assert found is None or len(found) == 32
