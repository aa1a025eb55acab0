"""kiln's primitives, by the names in `jax.extend.core.primitives`."""

from __future__ import annotations

from kiln import lax
from kiln.control.call import jit_p as jit_p
from kiln.control.checkpoint import checkpoint_p
from kiln.control.custom_rules.jvp import custom_jvp_call_p as custom_jvp_call_p
from kiln.control.custom_rules.vjp import custom_lin_p as custom_lin_p
from kiln.control.custom_rules.vjp import custom_vjp_call_p as custom_vjp_call_p
from kiln.core.primitive import Primitive
from kiln.ops.elements.elementwise import add_p
from kiln.ops.elements.elementwise import stop_gradient_p as stop_gradient_p
from kiln.ops.identity import name_p as name_p
from kiln.ops.linear.linalg import cholesky_p as cholesky_p
from kiln.ops.linear.linalg import lu_p as lu_p
from kiln.ops.linear.linalg import triangular_solve_p as triangular_solve_p
from kiln.ops.linear.orthogonal import householder_product_p as householder_product_p
from kiln.ops.linear.orthogonal import qr_p as qr_p
from kiln.ops.linear.spectral import eig_p as eig_p
from kiln.ops.linear.spectral import eigh_p as eigh_p
from kiln.ops.linear.spectral import svd_p as svd_p
from kiln.ops.random.random_bits import random_bits_p as random_bits_p
from kiln.ops.random.random_bits import random_fold_in_p as random_fold_in_p
from kiln.ops.random.random_bits import random_seed_p as random_seed_p
from kiln.ops.random.random_bits import random_split_p as random_split_p
from kiln.ops.random.threefry import threefry2x32_p as threefry2x32_p

remat_p = checkpoint_p
add_jaxvals_p = add_p

call_p = Primitive("core_call")
"""Of libraries that recognize calls; no program of kiln has one."""
closed_call_p = Primitive("closed_call")

globals().update({name: getattr(lax, name) for name in dir(lax) if name.endswith("_p")})

__all__ = [name for name in globals() if name.endswith("_p")]
