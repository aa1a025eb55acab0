"""Orbax: trees that are saved and restored, the checkpoints of a run."""

from __future__ import annotations

import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp


def _tree():
    return {
        "w": jnp.linspace(-1.0, 1.0, 12).reshape(4, 3),
        "half": jnp.arange(5, dtype=jnp.bfloat16) / 3,
        "inner": [jnp.arange(3), {"flags": jnp.asarray([True, False])}],
        "step": 7,
        "host": np.arange(4.0),
    }


def _numbers(name, tree):
    """The leaves of a tree in dtypes that NumPy can store, and how wide they are."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(tree)]
    found = {f"{name}_bytes": [x.dtype.itemsize for x in leaves]}
    for number, x in enumerate(leaves):
        found[f"{name}_{number}"] = x.astype(np.float32) if x.dtype == jnp.bfloat16 else x
    return found


def _folder():
    return pathlib.Path(tempfile.mkdtemp())


def trees():
    """A tree, restored without and with types, whole and changed."""
    path = _folder() / "tree"
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(path, _tree())
    checkpointer.wait_until_finished()
    target = jax.tree.map(ocp.utils.to_shape_dtype_struct, _tree())
    target["w"] = jax.ShapeDtypeStruct((4, 3), jnp.float16, sharding=target["w"].sharding)
    found = checkpointer.restore(path), checkpointer.restore(path, target)
    return _numbers("saved", found[0]) | _numbers("asked", found[1])


def pytrees():
    """The same by the older interface."""
    path = _folder() / "tree"
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(path, _tree())
    return _numbers("restored", checkpointer.restore(path))


def runs():
    """The last checkpoints of a run, and the best."""

    @jax.jit
    def train(w, x):
        return w - 0.1 * jax.grad(lambda w: jnp.sum((x @ w - 1.0) ** 2))(w)

    x = jnp.linspace(0.0, 1.0, 8).reshape(4, 2)
    w = jnp.zeros(2)
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(_folder() / "run", options=options) as manager:
        for step in range(5):
            w = train(w, x)
            saved = ocp.args.Composite(
                state=ocp.args.StandardSave({"w": w}),
                note=ocp.args.JsonSave({"step": step}),
            )
            manager.save(step, args=saved)
        manager.wait_until_finished()
        steps = sorted(manager.all_steps())
        wanted = ocp.args.Composite(
            state=ocp.args.StandardRestore({"w": w}), note=ocp.args.JsonRestore()
        )
        found = [manager.restore(step, args=wanted) for step in steps]
    return {
        "steps": steps,
        "w": [each["state"]["w"] for each in found],
        "notes": [each["note"]["step"] for each in found],
    }


PROGRAMS = {program.__name__: program for program in (trees, pytrees, runs)}
