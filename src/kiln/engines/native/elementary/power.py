"""pow, cbrt and rsqrt."""

from __future__ import annotations

from kiln.engines.native.elementary.formats import (
    FORMATS,
    at_least,
    at_most,
    copysign,
    either,
    integer_of,
    paired_polynomial,
    parts,
    polynomial,
    scaled,
    two_product,
    two_sum,
)
from kiln.engines.native.elementary.logarithm import number_of, split
from kiln.engines.native.loop_ir.scalars import Value, number

LEAST_HALVES, MOST_HALVES = -4, 6
"""Powers between these halves are products of a number, or its inverse, and their square roots."""


def rsqrt(x: Value) -> Value:
    """Return 1 / sqrt(x)."""
    return 1 / x.unary("sqrt")


def power(x: Value, y: Value) -> Value:
    """Return x^y with the special values of C; of f32, computed in f64."""
    if x.dtype == "f32":
        found = _short_power(abs(x.convert("f64")), y.convert("f64")).convert("f32")
    else:
        found = _long_power(abs(x), y)
    whole = y.unary("rint").eq(y)
    half = y * 0.5
    odd = whole & half.unary("floor").ne(half)
    f = FORMATS[x.dtype]
    sign = odd.select(integer_of(x), 0) & (1 << (f.digits + {"f32": 8, "f64": 11}[x.dtype]))
    found = (integer_of(found) ^ sign).bitcast(x.dtype)
    infinite = x.scope.bits(f.infinity, x.dtype)
    undefined = x.lt(0) & (-infinite).lt(x) & y.ne(y.unary("rint"))
    return undefined.select(x.scope.constant(float("nan"), x.dtype), found)


def halves_of(y: Value) -> int | None:
    """Return twice an exponent if it is constant and `power_of_halves` computes it, else None."""
    twice = 2 * float(number(y)) if y.op == "constant" else 0.0
    return int(twice) if twice in range(LEAST_HALVES, MOST_HALVES + 1) and twice != 0 else None


def power_of_halves(x: Value, halves: int) -> Value:
    """Return the power of a number to some halves, within 2 ulp; special values are those of C."""
    whole, half = divmod(abs(halves), 2)
    size = abs(x) if half else x
    if halves == -1:
        # The inverse of a subnormal number is infinite, that of its root is not.
        found = rsqrt(size)
    else:
        base = 1 / size if halves < 0 else size
        found = base.unary("sqrt") if half else base
        for _ in range(whole - 1 + half):
            found = found * base
    if not half:
        return found
    f = FORMATS[x.dtype]
    undefined = x.lt(0) & (-x.scope.bits(f.infinity, x.dtype)).lt(x)
    return undefined.select(x.scope.constant(float("nan"), x.dtype), found)


def _ends(size: Value, logarithm: Value) -> Value:
    """Return the logarithm, also of 0, infinity and nan."""
    scope = size.scope
    infinity = scope.bits(FORMATS[size.dtype].infinity, size.dtype)
    usual = size.gt(0) & size.lt(infinity)
    return usual.select(logarithm, size.eq(0).select(-infinity, size))


def _is_one(size: Value, y: Value) -> Value:
    # 1 to any power, even nan or infinity, and any number to the power 0.
    return either(size.eq(1), y.eq(0))


def _short_power(size: Value, y: Value) -> Value:
    """Return size^y in f64, to 30 bits, for numbers of f32."""
    f = FORMATS["f64"]
    n, m = split(size)
    fraction = m - 1
    logarithm = fraction.muladd(paired_polynomial("log2_short", fraction), number_of(n, "f64"))

    def exponential(exponent: Value) -> Value:
        t = exponent + f.magic
        p = paired_polynomial("exp2_short", exponent - (t - f.magic))
        return p * ((integer_of(t) << f.digits) + f.one).bitcast("f64")

    usual = y * logarithm
    exact = _is_one(size, y).select(0.0, y * _ends(size, logarithm))
    bounded = at_least(at_most(exact, 200.0), -200.0)
    infinity = size.scope.bits(f.infinity, "f64")
    within = size.gt(0) & size.lt(infinity) & abs(usual).le(200.0)
    return size.scope.rare(~within, exponential(usual), exponential(bounded))


def _double_logarithm(size: Value) -> tuple[Value, Value]:
    """Return log(size), of a positive f64, as a sum of two numbers, to about 2^-65."""
    scope = size.scope
    subnormal = size.lt(2.0**-1022)
    n, m = split(subnormal.select(size * 2.0**54, size))
    count = number_of(n, "f64") - subnormal.select(scope.constant(54, "f64"), 0.0)
    f = m - 1
    # s = f / (2 + f); log(1 + f) = 2 s + s z (2/3 + z ...), z = s^2.
    below, below_low = two_sum(scope.constant(2, "f64"), f)
    inverse = 1 / below
    s = f * inverse
    s_low = ((-s).fma(below, f) - s * below_low) * inverse
    z, z_low = two_product(s, s)
    z_low = (s + s).muladd(s_low, z_low)
    c, c_low = two_sum(
        scope.constant(2 / 3, "f64"), z.muladd(polynomial("log_s5", z), _TWO_THIRDS_LOW)
    )
    w, w_low = two_product(z, c)
    w_low = z.muladd(c_low, z_low.muladd(c, w_low))
    v, v_low = two_product(s, w)
    v_low = s.muladd(w_low, s_low.muladd(w, v_low))
    high, low = parts("ln2", "f64")
    total, first = two_sum(count * high, s + s)
    total, second = two_sum(total, v)
    rest = (s_low + s_low) + v_low
    return two_sum(total, count.muladd(low, rest) + (first + second))


_TWO_THIRDS_LOW = 3.700743415417188e-17


def _long_power(size: Value, y: Value) -> Value:
    f = FORMATS["f64"]
    scope = size.scope
    logarithm, logarithm_low = _double_logarithm(size)
    x, x_low = two_product(y, _ends(size, logarithm))
    x = _is_one(size, y).select(0.0, x)
    x_low = (abs(x).lt(750) & x.ne(0)).select(y.muladd(logarithm_low, x_low), 0.0)
    x = at_least(at_most(x, 750.0), -750.0)
    high, low = parts("ln2", "f64")
    t = x.muladd(parts("1/ln2", "f64")[0], f.magic)
    n = t - f.magic
    large = n.muladd(-high, x)
    r = n.muladd(-low, large)
    curved = (r * r).muladd(polynomial("exp", r), n.muladd(-low, large - r))
    total, error = two_sum(scope.constant(1, "f64"), r)
    # Too large to be added to r: exp(r) x_low differs from x_low.
    rest = x_low.muladd(curved + r, x_low)
    return scaled(total + (error + (curved + rest)), integer_of(t) - f.magic_bits)


def cbrt(x: Value) -> Value:
    """Return the cube root; of f32, computed in f64."""
    if x.dtype == "f32":
        return _cube_root(x.convert("f64"))[1].convert("f32")
    # Where rounding might take a cube out of range.
    small, large = abs(x).lt(2.0**-1022), abs(x).gt(2.0**1000)
    scaled_x = small.select(x * 2.0**54, large.select(x * 2.0**-54, x))
    inverse, root = _cube_root(scaled_x)
    # One more step, with the error of the cube.
    size = abs(scaled_x)
    c = abs(root)
    square, square_low = two_product(c, c)
    left = (-square).fma(c, size) - square_low * c
    better = copysign((left * (inverse * inverse)).muladd(1 / 3, c), x)
    usable = abs(x).gt(0) & abs(x).lt(x.scope.bits(FORMATS["f64"].infinity, "f64"))
    found = small.select(better * 2.0**-18, large.select(better * 2.0**18, better))
    return usable.select(found, x)


def _cube_root(x: Value) -> tuple[Value, Value]:
    """Return |x|^(-1/3) and the cube root of a normal f64, to 43 bits; x of others."""
    size = abs(x)
    # A third of the exponent, negated, within 3.5%: Newton's method, with more terms, improves it.
    third = ((size.bitcast("u64") >> 32) * 0x55555556) >> 32
    y = ((0x55400000 - 72000 - third) << 32).bitcast("f64")
    error = 1 - size * y * y * y
    more = x.scope.polynomial(error, [1 / 3, 2 / 9, 14 / 81])
    y = (y * error).muladd(more, y)
    error = 1 - size * y * y * y
    y = (y * error).muladd(error.muladd(2 / 9, 1 / 3), y)
    usable = size.gt(0) & size.lt(x.scope.bits(FORMATS["f64"].infinity, "f64"))
    return y, usable.select(copysign(size * y * y, x), x)
