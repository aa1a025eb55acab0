"""Export the cases of every primitive and some whole programs, with their answers on the CPU.

`python -m tests.gpu.write FOLDER`; then `run.py`, which needs jax and no kiln, where the GPU is.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import export, lax
from tests.cases.collection import CASES, applied, drawn


def _loss(params: list[Any], x: Any, labels: Any) -> Any:
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return -jnp.mean(jnp.sum(kiln.nn.log_softmax(x @ w + b) * labels, axis=-1))


def _trained(params: list[Any], x: Any, labels: Any) -> Any:
    def step(params: list[Any], _: Any) -> Any:
        loss, grads = kiln.value_and_grad(_loss)(params, x, labels)
        return kiln.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    return lax.scan(step, params, None, length=50)


def _convolved(kernels: list[Any], images: Any) -> Any:
    def loss(kernels: list[Any]) -> Any:
        x = images
        for k in kernels:
            x = kiln.nn.relu(lax.conv(x, k, (2, 2), "SAME"))
        return jnp.mean(x**2)

    return kiln.value_and_grad(loss)(kernels)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return kiln.nn.dot_product_attention(q, k, v, is_causal=True)


def _drawn(key: Any) -> Any:
    a, b, c, d = kiln.random.split(key, 4)
    return (
        kiln.random.normal(a, (1000,)),
        kiln.random.gamma(b, 2.0, (1000,)),
        kiln.random.permutation(c, 1000),
        kiln.random.categorical(d, jnp.zeros((50, 7))),
    )


def _newton(a: Any) -> Any:
    def near(x: Any) -> Any:
        return jnp.any(jnp.abs(x * x - a) > 1e-6 * a)

    return lax.while_loop(near, lambda x: 0.5 * (x + a / x), a)


def _near_identity(q: Any) -> Any:
    return jnp.max(jnp.abs(q.mT.conj() @ q - jnp.eye(q.shape[-1]))) < 1e-3


def _factors(x: Any) -> list[Any]:
    """Return what is unique of factors: their products, and whether they are orthogonal."""
    found = []
    for full in (False, True):
        u, s, vt = jnp.linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        found += [(u[..., :k] * s[..., None, :]) @ vt[..., :k, :], s]
        found += [_near_identity(u), _near_identity(vt.mT)]
    q, r = jnp.linalg.qr(x)
    found += [q @ r, _near_identity(q), jnp.linalg.svdvals(x)]
    square = x @ x.mT.conj()
    w, v = jnp.linalg.eigh(square)
    found += [w, (v * w[..., None, :]) @ v.mT.conj(), _near_identity(v)]
    square = square + jnp.eye(square.shape[-1])
    found += [jnp.linalg.inv(square), *jnp.linalg.slogdet(square), jnp.linalg.cholesky(square)]
    return [*found, jnp.linalg.solve(square, x)]


def _whole() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    layers = [(0.3 * normal(m, n), normal(n)) for m, n in ((20, 64), (64, 64), (64, 10))]
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 128)]
    return {
        "training": (_trained, (layers, normal(128, 20), labels)),
        "convolutions": (
            _convolved,
            ([0.2 * normal(8, 3, 3, 3), 0.2 * normal(16, 8, 3, 3)], normal(4, 3, 16, 16)),
        ),
        "attention": (
            _attention,
            (normal(2, 32, 4, 16), normal(2, 32, 4, 16), normal(2, 32, 4, 16)),
        ),
        "random": (_drawn, (kiln.random.PRNGKey(7),)),
        "tall factors": (_factors, (normal(50, 40),)),
        "wide factors": (_factors, (normal(3, 20, 33),)),
        "complex factors": (_factors, (normal(2, 36, 34) + 1j * normal(2, 36, 34),)),
        "large values": (jnp.linalg.svdvals, (normal(1030, 20),)),
        "large wide factors": (
            lambda x: jnp.prod(jnp.linalg.svd(x, full_matrices=False)[1]),
            (normal(4, 1030),),
        ),
        "newton": (_newton, (np.abs(normal(100)) + 0.1,)),
        "hessian": (
            kiln.hessian(lambda x: jnp.sum(jnp.sin(x) ** 3) / jnp.sum(x * x)),
            (normal(12),),
        ),
        "vmapped": (
            kiln.vmap(lambda x, i: jnp.sort(x)[::-1].at[i].add(1).cumsum()),
            (normal(9, 30), np.arange(9)),
        ),
    }


LEFT_OUT = {
    "rng_uniform": "each platform draws by a generator of its own",
    "eigh": "eigenvectors have no sign: see `_factors`",
    "svd": "singular vectors have no sign: see `_factors`",
    "scatter": "which of several updates of one element is the last is not said",
}
PLATFORM = (*sys.argv[2:], "cuda")[0]


def _bits(x: Any) -> Any:
    """Return what a key or an array consists of."""
    return kiln.random.key_data(x) if jnp.issubdtype(x.dtype, kiln.dtypes.prng_key) else x


def _written(
    folder: Path, name: str, fun: Callable[..., Any], operands: Sequence[Any], tolerance: float
) -> None:
    exported = export.export(kiln.jit(fun), platforms=(PLATFORM,))(*operands)
    if exported.nr_devices > 1:
        raise ValueError("\nit needs several devices")
    outs = [_bits(x) for x in kiln.tree.leaves(kiln.jit(fun)(*operands))]
    (folder / f"{name}.bin").write_bytes(bytes(exported.serialize()))
    arrays = {f"in{i}": np.asarray(x) for i, x in enumerate(kiln.tree.leaves(tuple(operands)))}
    arrays |= {f"out{i}": np.asarray(x) for i, x in enumerate(outs)}
    # NumPy's files do not keep types that NumPy does not have.
    arrays = {k: v.astype(np.float32) if v.dtype.kind == "V" else v for k, v in arrays.items()}
    np.savez(folder / f"{name}.npz", tolerance=tolerance, **arrays)


def main(folder: Path) -> None:
    """Write each program, its operands and answers; print what cannot be exported, and why."""
    folder.mkdir(parents=True, exist_ok=True)
    refused: dict[str, list[str]] = collections.defaultdict(list)
    written = 0
    cases = [case for case in CASES if case.primitive.name not in LEFT_OUT]
    with kiln.default_matmul_precision("highest"):
        for name, (fun, operands) in _whole().items():
            _written(folder, name, fun, operands, 1e-4)
        for number, case in enumerate(cases):
            name = f"{number:04}-{case.primitive.name}"
            try:
                _written(
                    folder, name, lambda *xs, c=case: applied(c, xs), drawn(case), case.tolerance
                )
                written += 1
            except Exception as error:  # noqa: BLE001
                refused[f"{type(error).__name__}: {str(error).splitlines()[1:2]}"].append(case.id)
    print(f"{written} of {len(cases)} cases, {len(_whole())} programs")
    for reason, names in refused.items():
        print(f"{len(names)}: {reason}: {', '.join(names[:6])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
