"""MuJoCo's MJX: bodies that move and touch, and derivatives through time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

PENDULUM = """
<mujoco>
  <option timestep="0.01" iterations="4" ls_iterations="8"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="a" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.04" fromto="0 0 0 0.4 0 0" contype="0" conaffinity="0"/>
      <body pos="0.4 0 0">
        <joint name="b" type="hinge" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="b" gear="0.5"/></actuator>
</mujoco>
"""
BALL = """
<mujoco>
  <option timestep="0.01" iterations="2" ls_iterations="4"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body pos="0 0 0.3"><freejoint/><geom type="sphere" size="0.1" mass="1"/></body>
  </worldbody>
</mujoco>
"""


def _model(text):
    return mjx.put_model(mujoco.MjModel.from_xml_string(text))


def rollout():
    """A double pendulum that is pushed, in a scan."""
    model = _model(PENDULUM)

    @jax.jit
    def run(controls):
        def step(data, control):
            data = mjx.step(model, data.replace(ctrl=control))
            return data, (data.qpos, data.qvel)

        return jax.lax.scan(step, mjx.make_data(model), controls)[1]

    positions, velocities = run(jnp.sin(jnp.arange(20.0))[:, None])
    return {"positions": positions, "velocities": velocities}


def gradient():
    """The derivative of where it ends, by its controls."""
    model = _model(PENDULUM)

    def height(controls):
        data = mjx.make_data(model)
        for control in controls:
            data = mjx.step(model, data.replace(ctrl=control))
        return jnp.sum(data.xpos[:, 2] + data.qpos.sum())

    value, derivative = jax.jit(jax.value_and_grad(height))(0.1 * jnp.ones((3, 1)))
    return {"value": value, "derivative": derivative}


def contact():
    """Balls from several heights, that land on a plane."""
    model = _model(BALL)

    @jax.jit
    @jax.vmap
    def run(height):
        data = mjx.make_data(model)
        data = data.replace(qpos=data.qpos.at[2].set(height))

        def step(data, _):
            data = mjx.step(model, data)
            return data, data.qpos[:3]

        return jax.lax.scan(step, data, None, length=25)[1]

    return {"paths": run(np.array([0.12, 0.15, 0.3], np.float32))}


PROGRAMS = {"rollout": rollout, "gradient": gradient, "contact": contact}
