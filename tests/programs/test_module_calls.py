"""How JavaScript calls WebAssembly modules: the example, trees, replaced arguments, errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.base.options.config import override
from tests.programs.node_driver import needs_node, run_node
from tests.structure.source_tree import REPOSITORY

pytestmark = needs_node

EXAMPLES = REPOSITORY / "examples" / "library"
ANSWERS = ["1.0000", "0.9934", "0.0001", "the size n is 0"]
F32 = kiln.ShapeDtypeStruct((4,), np.float32)


def said(folder: Path, *lines: str) -> list[Any]:
    """Run statements after loading the module `made`; return what `say` was given."""
    text = [
        'import { load } from "./made.mjs";',
        "const library = await load();",
        "const plain = (x) => ArrayBuffer.isView(x) ? [...x].map(plain)",
        '  : typeof x === "bigint" ? Number(x) : x;',
        "const say = (x) => console.log(JSON.stringify(x, (_, value) => plain(value)));",
        "const fails = (run) => { try { run(); } catch (e) { say(e.message.split('\\n')); } };",
        *lines,
    ]
    (folder / "main.mjs").write_text("\n".join(text))
    return [json.loads(line) for line in run_node(folder, "main.mjs").splitlines()]


def written(folder: Path, function: Any, *args: Any) -> None:
    """Write the module `made` of a function."""
    made = export.library(function, *args, name="made", path=folder, target="wasm32")
    assert sorted(made.files) == [
        "libmade.a", "made.h", "made.hpp", "made.json", "made.mjs", "made.wasm",
    ]  # fmt: skip


def test_the_example_runs_in_a_clean_folder(tmp_path: Path) -> None:
    options = ["--arg", "f32[n,2]", "--name", "circle", "--target", "wasm32", "-o", str(tmp_path)]
    command = [sys.executable, "-m", "kiln", "compile", "model:predict", *options]
    subprocess.run(command, cwd=EXAMPLES, check=True, capture_output=True)
    shutil.copy(EXAMPLES / "main.mjs", tmp_path)
    assert run_node(tmp_path, "main.mjs").splitlines() == ANSWERS


def test_a_module_imports_nothing_and_exports_its_own_names(tmp_path: Path) -> None:
    # `exp` is a function of libc too, `sort` one of the runtime.
    functions = {"exp": (jnp.exp, F32), "sort": (jnp.sort, F32)}
    export.library(functions, name="made", path=tmp_path, target="wasm32")
    found = said(
        tmp_path,
        'import { readFileSync } from "node:fs";',
        'const module = new WebAssembly.Module(readFileSync("made.wasm"));',
        "say(WebAssembly.Module.imports(module));",
        "say(WebAssembly.Module.exports(module).map((each) => each.name).sort());",
        "say(library.made_sort([3, 1, 2, 0]));",
        "say(library.made_exp([0, 0, 0, 0]));",
    )
    own = ["allocate", "create", "destroy", "error", "exp", "exp_workspace_size", "free", "sort"]
    own = [f"made_{name}" for name in [*own, "sort_workspace_size", "workspace_size"]]
    assert found == [[], ["_initialize", *own, "memory"], [0, 1, 2, 3], [1, 1, 1, 1]]


def test_one_function_may_be_called_as_one_of_libc(tmp_path: Path) -> None:
    export.library(jnp.exp, F32, name="exp", path=tmp_path, target="wasm32")
    shutil.copy(tmp_path / "exp.mjs", tmp_path / "made.mjs")
    assert said(tmp_path, "say(library.exp([0, 0, 0, 0]));") == [[1, 1, 1, 1]]


def test_trees_and_several_results(tmp_path: Path) -> None:
    def f(params: Any, x: Any) -> Any:
        return params["w"] * x, {"sum": x.sum(), "rest": (params["b"][0] + 1,)}

    params = {"w": np.ones(4, "f"), "b": [np.ones(2, "i")]}
    written(tmp_path, f, params, F32)
    call = "library.made({ w: [1, 2, 3, 4], b: { item0: [5, 6] } }, Float32Array.of(1, 1, 1, 2))"
    assert said(tmp_path, f"say({call});") == [
        [[1, 2, 3, 8], {"rest": {"item0": [6, 7]}, "sum": [5]}]
    ]


def test_named_sizes_are_checked_and_memory_is_used_again(tmp_path: Path) -> None:
    x = kiln.ShapeDtypeStruct(export.symbolic_shape("n, m // 2 + 1"), np.float32)
    written(tmp_path, lambda x: x.sum(0), x)
    found = said(
        tmp_path,
        "say(library.made({ n: 2, m: 3 }, [1, 2, 3, 4]));",
        "say(library.made({ n: 1, m: 5 }, [1, 2, 3]));",
        "fails(() => library.made({ n: 2, m: 3 }, [1, 2, 3]));",
        "fails(() => library.made({ n: 2 }, [1, 2, 3]));",
        "fails(() => library.made({ n: 2, m: 3 }));",
        "fails(() => library.made({ n: 2 ** 30, m: 3 }, [1]));",
        "const before = library.exports.memory.buffer.byteLength;",
        "for (let n = 1; n < 300; ++n) library.made({ n: 1000 + n % 2, m: 5 }, "
        "new Float32Array(3 * (1000 + n % 2)));",
        "say(library.exports.memory.buffer.byteLength - before < 2 ** 18);",
        "const call = library.made.prepare({ n: 1, m: 1 });",
        "call.free();",
        "fails(() => call.run());",
    )
    assert found == [
        [4, 6],
        [1, 2, 3],
        [
            "made(m = 3, n = 2)",
            "x is float32[n,m//2+1], and 3 elements were given",
            "pass a Float32Array of 4 elements",
        ],
        [
            "made(m = undefined, n = 2)",
            "the size m is undefined",
            "pass { m: an integer from 1 } first",
        ],
        ["made(m = 3, n = 2)", "it has 1 arguments, and 0 were given", "pass x"],
        ["made(m = 3, n = 1073741824)", "out of memory", "free other calls, or pass smaller sizes"],
        True,
        ["made(m = 1, n = 1)", "its call was freed", "prepare another call"],
    ]


def test_elements_are_not_converted_silently(tmp_path: Path) -> None:
    arguments = np.zeros(2, "u1"), jnp.ones(2, "bfloat16"), np.zeros(2, "?")
    written(tmp_path, lambda i, h, b: (i + 1, h * 2, ~b), *arguments)
    found = said(
        tmp_path,
        "say(library.made([1, 255], Uint16Array.of(0x3f80, 0x4000), [true, false]));",
        "fails(() => library.made([1, 256], Uint16Array.of(0, 0), [true, false]));",
        "fails(() => library.made([1, 2], [1, 2], [true, false]));",
        "fails(() => library.made(Float32Array.of(1, 2), Uint16Array.of(0, 0), [1, 0]));",
    )
    assert found[0] == [[2, 0], [0x4000, 0x4080], [0, 1]]
    assert [lines[1] for lines in found[1:]] == [
        "i is uint8[2], which does not hold all elements",
        "h is bfloat16[2], and Array was given",
        "i is uint8[2], and Float32Array was given",
    ]


def test_donated_arguments_are_replaced(tmp_path: Path) -> None:
    written(tmp_path, kiln.jit(lambda state, x: state + x, donate_argnums=0), F32, F32)
    found = said(
        tmp_path,
        "const state = Float32Array.of(1, 2, 3, 4);",
        "say(library.made(state, [1, 1, 1, 1]) === undefined);",
        "say(state);",
        "fails(() => library.made([1, 2, 3, 4], [1, 1, 1, 1]));",
    )
    assert found[:2] == [True, [2, 3, 4, 5]]
    assert found[2][1] == "state is float32[4], and Array was given"


@pytest.mark.parametrize("option", ["threads", "mapped", "blas"])
def test_options_that_modules_lack_are_refused(option: str, tmp_path: Path) -> None:
    given: Any = {option: True}
    with pytest.raises(NotImplementedError, match=f"{option}=True"):
        export.library(jnp.exp, F32, name="made", path=tmp_path / "out", target="wasm32", **given)
    assert not (tmp_path / "out").exists()


def test_factorizations_and_callbacks_are_refused(tmp_path: Path) -> None:
    def loud(x: Any) -> Any:
        kiln.debug.print("{}", x)
        return x

    matrix = np.eye(300, dtype=np.float32)
    for function, x in ((loud, F32), (jnp.linalg.svd, matrix)):
        with pytest.raises(NotImplementedError, match=r"no Python|LAPACK"):
            export.library(function, x, name="made", path=tmp_path / "out", target="wasm32")
    assert not (tmp_path / "out").exists()


def test_the_page_leads_to_an_answer(tmp_path: Path) -> None:
    """Do what docs/library.md says of modules, in an empty folder."""
    page = (REPOSITORY / "docs" / "library.md").read_text()
    (model, *_) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (commands,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    (program,) = re.findall(r"```javascript\n(.*?)```", page, re.DOTALL)
    (tmp_path / "model.py").write_text(model)
    compile, run = [line.removeprefix("python ") for line in commands.splitlines()]
    subprocess.run([sys.executable, *shlex.split(compile)], cwd=tmp_path, check=True)
    assert run == "node web/main.mjs"
    (tmp_path / "web" / "main.mjs").write_text(program)
    expected = program.splitlines()[-1].partition("// ")[2]
    assert run_node(tmp_path / "web", "main.mjs").splitlines() == [expected]


def test_a_transform_without_memory_is_an_error_and_not_a_trap(tmp_path: Path) -> None:
    # A prime size is computed by a longer transform.
    large, small = [kiln.ShapeDtypeStruct((n,), np.complex64) for n in (16777213, 8)]
    functions = {"large": (jnp.fft.fft, large), "small": (jnp.fft.fft, small)}
    export.library(functions, name="made", path=tmp_path, target="wasm32")
    found = said(
        tmp_path,
        "fails(() => library.made_large.prepare());",
        "say(library.made_small(new Float32Array(16).fill(1)).slice(0, 2));",
    )
    # Its tables are made with the size of its workspace, and leave no memory for arrays.
    remedy = "free other calls, or pass smaller sizes"
    assert found == [["made_large()", "out of memory", remedy], [8, 8]]


def test_numbers_of_64_bits_and_complex_ones(tmp_path: Path) -> None:
    with override(enable_x64=True):
        written(tmp_path, lambda i, z: (i * 2, z * 1j), np.int64(0), np.zeros(1, np.complex128))
        found = said(
            tmp_path,
            "say(library.made(2n ** 40n, [1, 2]));",
            "fails(() => library.made(1, [1, 2]));",
        )
    assert found == [
        [[2**41], [-2, 1]],
        [
            "made()",
            "i is int64[], which does not hold all elements",
            "pass a BigInt64Array of 1 elements",
        ],
    ]
