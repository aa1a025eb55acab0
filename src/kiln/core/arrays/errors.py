"""Errors about arrays that cannot be used in some way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.ir.types import ShapedArray


def deleted(aval: ShapedArray) -> RuntimeError:
    """Return the error for an array whose memory was released."""
    return RuntimeError(
        three_lines(
            f"use of an array {aval} at {current_source()}",
            f"Array has been deleted with shape={aval}. Its memory was donated or freed",
            "keep a copy with x.copy() before donating or deleting x",
        )
    )


def no_single_address(aval: ShapedArray, devices: int) -> ValueError:
    """Return the error for requesting the single device of an array on several devices."""
    return ValueError(
        three_lines(
            f"unsafe_buffer_pointer() of an array {aval} at {current_source()}",
            f"the array lives on {devices} devices",
            "ask one of x.addressable_shards: shard.data.unsafe_buffer_pointer()",
        )
    )


def not_scalar(aval: ShapedArray, conversion: str) -> TypeError:
    """Return the error for converting an array to a scalar."""
    return TypeError(
        three_lines(
            f"{conversion}() of an array {aval} at {current_source()}",
            "Only scalar arrays can be converted to Python scalars; "
            f"got arr.ndim={len(aval.shape)}",
            "index one element first",
        )
    )


def ambiguous(aval: ShapedArray, size: int) -> ValueError:
    """Return the error for using an array as a truth value."""
    return ValueError(
        three_lines(
            f"bool() of an array {aval} at {current_source()}",
            "The truth value of an array with "
            + ("no" if size == 0 else "more than one")
            + " element is ambiguous",
            "use .any() or .all()",
        )
    )


def not_index(aval: ShapedArray) -> TypeError:
    """Return the error for using an array as an index."""
    return TypeError(
        three_lines(
            f"use of an array {aval} as an index at {current_source()}",
            "Only integer scalar arrays can be converted to a scalar index.",
            "index one element and convert it: int(x[0])",
        )
    )


def no_item(aval: ShapedArray, args: Sequence[Any], error: Exception) -> Exception:
    """Return NumPy's error for a missing element, with more details."""
    return type(error)(
        three_lines(
            f"item({', '.join(map(str, args))}) of {aval} at {current_source()}",
            str(error),
            "name one element, as in x.item(0), or use x.tolist()",
        )
    )


def immutable(aval: ShapedArray) -> TypeError:
    """Return the error for assigning to an element."""
    return TypeError(
        three_lines(
            f"assignment to an item of an array {aval} at {current_source()}",
            "kiln arrays are immutable and do not support item assignment",
            "write x = x.at[idx].set(y) instead of x[idx] = y",
        )
    )


def elsewhere(aval: ShapedArray, index: int) -> RuntimeError:
    """Return the error for reading an array some of whose parts belong to other processes."""
    return RuntimeError(
        three_lines(
            f"the values of an array {aval} in process {index} at {current_source()}",
            "Fetching value for `jax.Array` that spans non-addressable (non process local) devices "
            "is not possible: other processes hold parts of it",
            "gather it in all processes: kiln.experimental.multihost_utils.process_allgather(x, "
            "tiled=True), or read the parts that are here: x.addressable_shards",
        )
    )


def cannot_move(aval: ShapedArray, source: Any, target: Any) -> ValueError:
    """Return the error for moving an array of several processes to other devices."""
    return ValueError(
        three_lines(
            f"moving an array {aval} from {source} to {target} at {current_source()}",
            "other processes hold parts of it, and the devices are not the same",
            "gather it first: kiln.experimental.multihost_utils.process_allgather(x, tiled=True)",
        )
    )
