"""Rotations in three dimensions, as unit quaternions (x, y, z, w).

Sources: Shepperd, "Quaternion from rotation matrix" (1978); Bernardes and Viollet, "Quaternion to
Euler angles conversion" (2022); Markley et al., "Averaging quaternions" (2007).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln import random
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array
from kiln.numpy.promotion import inexact, lifted, of_own_ranks
from kiln.ops.linear.spectral import eigh

__all__ = ["Rotation", "Slerp"]


def _refused(asked: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(three_lines(f"{asked} at {current_source()}", wrong, remedy))


def _floats(x: Any) -> Any:
    return lifted(inexact("Rotation", jnp.asarray(x)))


def _length(v: Any) -> Any:
    """Return the lengths of vectors, kept as an axis, with derivatives at 0."""
    square = jnp.sum(v * v, axis=-1, keepdims=True)
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def _normalized(q: Any) -> Any:
    return q / jnp.where(_length(q) == 0, math.nan, _length(q))


def _canonical(q: Any) -> Any:
    """Choose of q and -q the one with w >= 0, and if it is 0 with a positive first of x, y, z."""
    x, y, z, w = (q[..., i : i + 1] for i in range(4))
    turn = (w < 0) | ((w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0))))))
    return jnp.where(turn, -q, q)


def _product(p: Any, q: Any) -> Any:
    v, w = p[..., :3], p[..., 3:]
    u, s = q[..., :3], q[..., 3:]
    vector = w * u + s * v + jnp.cross(v, u)
    return jnp.concatenate([vector, w * s - jnp.sum(v * u, axis=-1, keepdims=True)], axis=-1)


def _about(axis: int, angle: Any) -> Any:
    half = 0.5 * angle[..., None]
    rows = np.eye(4, dtype=np.float32).reshape((4, *[1] * (half.ndim - 1), 4))
    unit, end = (jnp.asarray(rows[i]).astype(half.dtype) for i in (axis, 3))
    return jnp.sin(half) * unit + jnp.cos(half) * end


def _axes(seq: str) -> tuple[list[int], bool]:
    """Return the axes of a sequence such as "xyz", and whether they are fixed."""
    if re.fullmatch("[xyz]{1,3}", seq):
        fixed = True
    elif re.fullmatch("[XYZ]{1,3}", seq):
        fixed = False
    else:
        raise _refused(
            f"Euler angles with seq={seq!r}",
            "Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got " + seq,
            'use "xyz" for fixed axes, "XYZ" for those that turn along',
        )
    axes = ["xyz".index(letter) for letter in seq.lower()]
    if any(a == b for a, b in itertools.pairwise(axes)):
        raise _refused(
            f"Euler angles with seq={seq!r}",
            f"Expected consecutive axes to be different, got {seq}",
            'use "zxz" or "xyz"',
        )
    return axes, fixed


class Rotation(NamedTuple):
    """One rotation, or several: `quat` is (4,) or (n, 4), of length 1.

    Example:
        >>> quarter = kiln.scipy.spatial.transform.Rotation.from_euler("z", 90, degrees=True)
        >>> quarter.apply(jnp.array([1.0, 0.0, 0.0])).round(4)
        Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Join rotations into one object."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Return rotations about the axes `seq`: lower case letters for fixed axes.

        Shapes: (k,) for one, (n, k) for several, with k letters; () and (n,) for one letter.
        Raises: ValueError for another sequence, or a number of angles that does not fit.
        """
        axes, fixed = _axes(seq)
        found = _floats(angles)
        if len(axes) == 1 and (found.ndim == 0 or found.shape[-1] != 1 or found.ndim == 1):
            found = found[..., None] if found.ndim == 0 or found.shape != (1,) else found
        if found.ndim == 0 or found.shape[-1] != len(axes):
            raise _refused(
                f"from_euler with seq={seq!r} of {found.aval}",
                f"Expected {len(axes)} angles for each rotation",
                "pass an array of shape (n, k) for k axes",
            )
        if degrees:
            found = found * (math.pi / 180)
        out = _about(axes[0], found[..., 0])
        for i, axis in enumerate(axes[1:], 1):
            turn = _about(axis, found[..., i])
            out = _product(turn, out) if fixed else _product(out, turn)
        return cls(out)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Return the rotations of orthogonal matrices (3, 3) or (n, 3, 3)."""
        m = _floats(matrix)
        diagonal = jnp.diagonal(m, axis1=-2, axis2=-1)
        trace = jnp.sum(diagonal, axis=-1, keepdims=True)
        choices = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            entries: list[Any] = [None] * 4
            entries[i] = 1 - trace[..., 0] + 2 * m[..., i, i]
            entries[j] = m[..., j, i] + m[..., i, j]
            entries[k] = m[..., k, i] + m[..., i, k]
            entries[3] = m[..., k, j] - m[..., j, k]
            choices.append(jnp.stack(entries, -1))
        skew = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0]]
        skew += [m[..., 1, 0] - m[..., 0, 1], 1 + trace[..., 0]]
        choices.append(jnp.stack(skew, -1))
        # By the largest of the quaternion's entries, none of the others loses digits.
        largest = jnp.argmax(jnp.concatenate([diagonal, trace], axis=-1), axis=-1)
        out = choices[3]
        for i in range(3):
            out = jnp.where((largest == i)[..., None], choices[i], out)
        return cls(_normalized(out))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Return the rotations of modified Rodrigues parameters, axis times tan(angle / 4)."""
        p = _floats(mrp)
        square = jnp.sum(p * p, axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * p, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """Return the rotations of quaternions (x, y, z, w) of any length but 0."""
        return cls(_normalized(_floats(quat)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Return the rotations about vectors, by their lengths."""
        v = _floats(rotvec)
        v = v * (math.pi / 180) if degrees else v
        angle = _length(v)
        small = angle < 1e-3
        square = angle * angle
        safe = jnp.where(small, 1, angle)
        near = 0.5 - square / 48 + square * square / 3840
        scale = jnp.where(small, near, jnp.sin(0.5 * safe) / safe)
        return cls(jnp.concatenate([scale * v, jnp.cos(0.5 * angle)], axis=-1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """Return the rotation that changes nothing, or `num` of them."""
        one = jnp.asarray(np.array([0.0, 0, 0, 1]), dtypes.canonicalize_dtype(dtype))
        return cls(one if num is None else jnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Draw a rotation, or `num` of them, uniformly."""
        shape = (4,) if num is None else (num, 4)
        return cls.from_quat(random.normal(random_key, shape))

    def __getitem__(self, indexer: Any) -> Rotation:
        """Return some of the rotations.

        Raises: TypeError for a single rotation.
        """
        if self.single:
            raise _refused(
                "Rotation[...]",
                "Single rotation is not subscriptable.",
                "leave out the index",
                TypeError,
            )
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """Return the number of rotations.

        Raises: TypeError for a single rotation.
        """
        if self.single:
            raise _refused(
                "len(Rotation)", "Single rotation has no len().", "use rotation.single", TypeError
            )
        return int(self.quat.shape[0])

    def __mul__(self, other: Any) -> Rotation:
        """Compose: first `other`, then this rotation."""
        return Rotation.from_quat(_product(*jnp.broadcast_arrays(self.quat, other.quat)))

    @property
    def single(self) -> bool:
        """Whether this is one rotation."""
        return bool(jnp.ndim(self.quat) == 1)

    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """Rotate vectors (3,) or (n, 3), one for each rotation, or all by the same."""
        m = self.as_matrix()
        m = jnp.swapaxes(m, -1, -2) if inverse else m
        return jnp.einsum("...ij,...j->...i", m, _floats(vectors), precision="highest")

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Return three angles about the axes `seq`; where they are not unique the third is 0.

        Shapes: (4,) -> (3,), (n, 4) -> (n, 3).
        Raises: ValueError for another sequence than three axes.
        """
        axes, fixed = _axes(seq)
        if len(axes) != 3:
            raise _refused(f"as_euler({seq!r})", f"Expected 3 axes, got {seq}.", 'use "xyz"')
        order = axes if fixed else axes[::-1]
        first, third = (0, 2) if fixed else (2, 0)
        i, j, k = order
        proper = i == k
        if proper:
            k = 3 - i - j
        sign = (i - j) * (j - k) * (k - i) // 2
        q = self.quat
        if proper:
            a, b, c, d = q[..., 3], q[..., i], q[..., j], sign * q[..., k]
        else:
            a, b = q[..., 3] - q[..., j], q[..., i] + sign * q[..., k]
            c, d = q[..., j] + q[..., 3], sign * q[..., k] - q[..., i]
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        total, difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        # At the poles only one of the sum and the difference of the outer angles is known.
        near = 1e-7 if q.dtype == np.float64 else 1e-3
        none, half = jnp.abs(middle) <= near, jnp.abs(middle - math.pi) <= near
        pole = none | half
        lead = jnp.where(half, (-2 if fixed else 2) * difference, 2 * total)
        found: list[Any] = [lead, middle, jnp.zeros_like(lead)]
        found[first] = jnp.where(pole, found[first], total - difference)
        found[third] = jnp.where(pole, found[third], total + difference)
        if not proper:
            found[third] = found[third] * sign
            found[1] = found[1] - 0.5 * math.pi
        out = jnp.stack(found, -1)
        out = jnp.where(out < -math.pi, out + 2 * math.pi, out)
        out = jnp.where(out > math.pi, out - 2 * math.pi, out)
        return out * (180 / math.pi) if degrees else out

    def as_matrix(self) -> Array:
        """Return orthogonal matrices (3, 3) or (n, 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, -1) for row in rows], -2)

    def as_mrp(self) -> Array:
        """Return modified Rodrigues parameters, of length at most 1."""
        q = _canonical(self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Return quaternions, with w >= 0 if `canonical`, and w first if `scalar_first`."""
        q = _canonical(self.quat) if canonical else self.quat
        return jnp.roll(q, 1, axis=-1) if scalar_first else q

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Return the axes, with the angles as their lengths."""
        q = _canonical(self.quat)
        v, w = q[..., :3], q[..., 3:]
        size = _length(v)
        angle = 2 * jnp.arctan2(size, w)
        small = angle < 1e-3
        square = angle * angle
        near = 2 + square / 12 + 7 * square * square / 2880
        scale = jnp.where(small, near, angle / jnp.where(small, 1, size))
        return scale * v * (180 / math.pi if degrees else 1)

    @of_own_ranks
    def inv(self) -> Rotation:
        """Return the inverse rotations."""
        signs = np.array([-1, -1, -1, 1], self.quat.dtype)
        return Rotation(self.quat * jnp.asarray(signs.reshape((1,) * (self.quat.ndim - 1) + (4,))))

    def magnitude(self) -> Array:
        """Return the angles, from 0 to pi."""
        size = _length(self.quat[..., :3])[..., 0]
        return 2 * jnp.arctan2(size, jnp.abs(self.quat[..., 3]))

    @of_own_ranks
    def mean(self, weights: Any = None) -> Rotation:
        """Return the rotation of least mean square distance, of weighted rotations.

        Raises: ValueError for weights of another shape.
        """
        q = jnp.atleast_2d(self.quat)
        w = jnp.ones(q.shape[0], q.dtype) if weights is None else _floats(weights)
        if w.shape != (q.shape[0],):
            raise _refused(
                f"mean of {q.shape[0]} rotations with weights {w.aval}",
                f"Expected `weights` to have the same number of values as rotations, got {w.shape}",
                "pass a weight for each rotation",
            )
        vectors, _ = eigh(jnp.matmul(w[None, :] * q.T, q, precision="highest"))
        return Rotation.from_quat(vectors[:, -1])


class Slerp(NamedTuple):
    """Rotations between given ones at given times, turning at a constant speed.

    Example:
        >>> ends = kiln.scipy.spatial.transform.Rotation.from_euler("z", [0, 90], degrees=True)
        >>> between = kiln.scipy.spatial.transform.Slerp.init(jnp.array([0.0, 1.0]), ends)
        >>> between(jnp.array(0.5)).as_euler("zyx", degrees=True).round(2)
        Array([45., -0., -0.], dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Return the interpolation of rotations at ascending times.

        Raises: ValueError for a single rotation, or another number of times.
        """
        t = _floats(times)
        if rotations.single or t.ndim != 1 or t.shape[0] != len(rotations) or t.shape[0] < 2:
            raise _refused(
                f"Slerp.init at times {t.aval}",
                "`rotations` must contain at least 2 rotations, with as many times",
                "pass Rotation.concatenate([...]) and a vector of times",
            )
        turns = Rotation(rotations.quat[:-1]).inv() * Rotation(rotations.quat[1:])
        return cls(t, jnp.diff(t), rotations, turns.as_rotvec())

    @of_own_ranks
    def __call__(self, times: Any) -> Rotation:
        """Return the rotations at times () or (n,), between the first and the last."""
        t = _floats(times)
        index = jnp.clip(jnp.searchsorted(self.times, t) - 1, 0, self.times.shape[0] - 2)
        part = (t - self.times[index]) / self.timedelta[index]
        turn = Rotation.from_rotvec(self.rotvecs[index] * part[..., None])
        return self.rotations[index] * turn


_suggest_names(globals())
