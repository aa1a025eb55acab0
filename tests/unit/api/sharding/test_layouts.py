"""Formats and layouts: what programs that ask for them are told."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.experimental.layout import Format, Layout, with_layout_constraint
from kiln.sharding import NamedSharding, P, make_mesh

X = np.arange(16, dtype=np.float32).reshape(8, 2)
ROWS = NamedSharding(make_mesh((8,), ("d",)), P("d"))


def test_arrays_that_are_there_already_are_copied_if_asked() -> None:
    device = kiln.devices()[0]
    x = kiln.device_put(X, device)
    assert kiln.device_put(x, src=device, may_alias=True) is x
    copied = kiln.device_put(x, may_alias=False)
    assert copied is not x
    assert copied.sharding == x.sharding
    assert (copied == x).all()
    with pytest.raises(ValueError, match="may_alias and donate cannot be True at the same time"):
        kiln.device_put(x, donate=True, may_alias=True)


def test_a_format_has_the_order_of_axes_and_the_sharding() -> None:
    x = kiln.device_put(X, ROWS)
    assert x.format == Format(Layout((0, 1)), ROWS)
    assert jnp.ones(3).format.layout == Layout((0,))
    assert kiln.device_put(jnp.float32(1), x.addressable_shards[2].device).format.layout == Layout(
        ()
    )


@pytest.mark.parametrize("layout", [None, Layout((0, 1))])
def test_formats_say_where_arrays_go(layout: Layout | None) -> None:
    place = Format(layout, ROWS)
    x = kiln.device_put(X, place)
    assert x.sharding == ROWS
    y = kiln.jit(lambda x: x + 1, in_shardings=place, out_shardings=place)(X)
    assert y.sharding.is_equivalent_to(ROWS, 2)
    np.testing.assert_array_equal(y, X + 1)
    assert not kiln.device_put(jnp.ones(2), Format()).committed
    inside = kiln.jit(lambda x: kiln.lax.with_sharding_constraint(x * 2, place))(x)
    assert inside.sharding.is_equivalent_to(ROWS, 2)
    np.testing.assert_array_equal(with_layout_constraint(x, Layout((0, 1))), X)


@pytest.mark.parametrize("layout", [Layout((1, 0)), Layout((0, 1), ((8, 128),))])
def test_other_layouts_are_refused(layout: Layout) -> None:
    for use in (
        lambda: kiln.device_put(X, Format(layout, ROWS)),
        lambda: kiln.jit(lambda x: x, in_shardings=Format(layout, ROWS))(X),
        lambda: with_layout_constraint(jnp.asarray(X), layout),
    ):
        with pytest.raises(ValueError, match="in the order of their axes"):
            use()


def test_a_layout_that_the_compiler_chooses_is_that_of_all_arrays() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    f = kiln.jit(lambda x: x.T, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO))
    out = f(x)
    assert out.format.layout == Layout((0, 1))
    np.testing.assert_array_equal(out, x.T)
    with pytest.raises(ValueError, match="should be concrete"):
        kiln.device_put(x, Format(Layout.AUTO, out.sharding))
    with pytest.raises(ValueError, match="cannot be used in place of"):
        kiln.ShapeDtypeStruct((2, 3), "float32", sharding=Format(Layout.AUTO))
    made = kiln.make_array_from_callback((2, 3), out.format, lambda index: x[index])
    np.testing.assert_array_equal(made, x)
