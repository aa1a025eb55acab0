"""Programs where jaxlib cannot be imported: on the first CPU device all of them run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENV = {**os.environ, "KILN_NUM_CPU_DEVICES": "1"}
PROGRAM = """\
import sys
sys.modules["jaxlib"] = None
import pickle
import numpy as np
import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.errors import MissingEngine

(device,) = kiln.devices()
assert repr(device) == "CpuDevice(id=0)", device
assert pickle.loads(pickle.dumps(device)) == device
x = kiln.device_put(np.arange(4.0, dtype="float32"), device)
assert x.devices() == {device} and x.sharding.device_set == {device}

# Compiled, derived, batched, looped over, donated, ahead of time, with callbacks, sharded over one.
loss = lambda w: jnp.mean(jnp.tanh(w @ w.T) ** 2)
w = kiln.random.normal(kiln.random.key(0), (5, 5))
wanted = (loss(w + 1e-2) - loss(w - 1e-2)) / 2e-2
np.testing.assert_allclose(kiln.jit(kiln.grad(loss))(w).sum(), wanted, rtol=1e-2)
total = lambda x: lax.scan(lambda c, e: (c + e, c * e), 0.0, x)[0]
np.testing.assert_allclose(kiln.jit(kiln.vmap(total))(jnp.ones((3, 4))), [4, 4, 4])
assert float(kiln.jit(lambda x: x + 1, donate_argnums=0)(jnp.ones(()))) == 2
lowered = kiln.jit(jnp.sin).lower(x)
np.testing.assert_allclose(lowered.compile()(x), np.sin(x), rtol=1e-6)
assert "sin" in str(kiln.make_jaxpr(jnp.sin)(x))
seen = []
kiln.jit(lambda x: kiln.debug.callback(seen.append, x))(x)
kiln.effects_barrier()
assert len(seen) == 1
mesh = kiln.make_mesh((1,), ("i",))
placed = kiln.device_put(x, kiln.NamedSharding(mesh, kiln.P("i")))
np.testing.assert_array_equal(kiln.jit(lambda x: x * 2)(placed), 2 * np.asarray(x))
np.testing.assert_allclose(jnp.linalg.inv(jnp.eye(3) * 2), np.eye(3) / 2)

def refused(call):
    try:
        call()
    except MissingEngine as error:
        lines = str(error).splitlines()
        assert len(lines) == 3 and lines[2] == 'pip install "kiln[xla]"', error
        assert "<string>" in lines[0] and "jaxlib" in lines[1], error
        return lines[0]
    raise AssertionError("it ran")

print(refused(lambda: kiln.export.export(kiln.jit(jnp.sin))(x)))
print(refused(lambda: lowered.as_text("stablehlo")))
print(refused(lambda: kiln.jit(jnp.sin, compiler_options={"xla_dump_to": "."})(x)))
print(refused(lambda: kiln.distributed.initialize("localhost:1", 2, 0)))
kiln.config.update("engine", "xla")
print(refused(lambda: jnp.sin(np.ones(3))))
kiln.config.update("engine", "")
def lib():
    import kiln.lib
def raising():
    import kiln.engines.xla.raising
print(refused(lib))
print(refused(raising))
kiln.config.update("num_cpu_devices", 8)
print(refused(kiln.devices))
assert "jaxlib" not in [name for name, module in sys.modules.items() if module is not None]
"""


def test_programs_run_or_say_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=ENV
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 8
