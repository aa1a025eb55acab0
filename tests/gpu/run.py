"""Run what `write.py` wrote on the GPU of this machine, with jax alone; print what differs.

`python run.py FOLDER [PLATFORM]`. The status is 1 if something differs or fails.
"""

import collections
import concurrent.futures
import sys
from pathlib import Path

import jax
import numpy as np


def checked(path: Path, device: jax.Device) -> str:
    """Return what is wrong with one program: nothing is an empty text."""
    exported = jax.export.deserialize(bytearray(path.read_bytes()))
    with np.load(path.with_suffix(".npz")) as data:
        count = len(exported.in_avals)
        operands = [data[f"in{i}"] for i in range(count)]
        expected = [data[f"out{i}"] for i in range(len(exported.out_avals))]
        tolerance = float(data["tolerance"])
    operands = [np.asarray(x).astype(a.dtype) for x, a in zip(operands, exported.in_avals)]
    args, kwargs = jax.tree.unflatten(exported.in_tree, jax.device_put(operands, device))
    found = jax.tree.leaves(jax.jit(exported.call)(*args, **kwargs))
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert next(iter(a.devices())) == device
        a = np.asarray(
            jax.random.key_data(a) if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key) else a
        )
        a = a.astype(b.dtype) if a.dtype.kind == "V" else a
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype}{a.shape} for {b.dtype}{b.shape}"
        if a.dtype.kind in "fc":
            scale = np.abs(b[np.isfinite(b)]).max(initial=1e-30)
            if not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
                return f"result {i}: off by {np.nanmax(np.abs(a - b)):.2g}, largest {scale:.2g}"
        elif not np.array_equal(a, b):
            return f"result {i}: {(a != b).mean():.0%} of the values differ"
    return ""


def main(folder: Path, platform: str) -> int:
    """Check all programs of a folder, many at a time; print a summary."""
    jax.config.update("jax_enable_x64", True)
    device = jax.devices(platform)[0]
    print(jax.__version__, device.device_kind, flush=True)
    paths = sorted(folder.glob("*.bin"))
    wrong = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        futures = {pool.submit(checked, path, device): path.stem for path in paths}
        for done in concurrent.futures.as_completed(futures):
            try:
                what = done.result()
            except Exception as error:  # noqa: BLE001
                what = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            if what:
                wrong[what].append(futures[done])
    print(f"{len(paths) - sum(map(len, wrong.values()))} of {len(paths)} programs agree")
    for what, names in sorted(wrong.items()):
        print(f"{len(names)}: {what}: {', '.join(sorted(names)[:8])}")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), (*sys.argv[2:], "gpu")[0]))
